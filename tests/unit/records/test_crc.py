"""The checksum of batches."""

from __future__ import annotations

import subprocess
import sys

from penstock.records.crc import crc32c


def test_the_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_loading_it_does_not_import_slow_modules() -> None:
    program = (
        "import sys; from penstock.records.crc import crc32c; print('importlib.metadata' in sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert answer.stdout.strip() == "False"
