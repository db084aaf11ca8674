"""systemd accepts the unit file."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.brokers import ROOT

UNIT = ROOT / "packaging" / "penstock.service"


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    program = tmp_path / "penstock"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / UNIT.name
    # systemd looks for the program, which is not installed here.
    unit.write_text(UNIT.read_text().replace("/opt/penstock/bin/penstock", str(program)))

    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )

    errors = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, errors) == (0, [])
