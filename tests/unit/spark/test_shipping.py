"""The whole package is shipped to executors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from penstock.records import _kernel
from penstock.spark.shipping import make_archive, package_root, python_path


def test_the_kernel_is_loaded_from_an_unpacked_archive(tmp_path: Path) -> None:
    archive = make_archive(tmp_path)
    unpacked = tmp_path / "unpacked"
    subprocess.run([sys.executable, "-m", "zipfile", "-e", archive, unpacked], check=True)

    program = "from penstock.records import _kernel, kernel; print(kernel.__file__, _kernel.__file__)"
    reported = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()

    records = unpacked / "penstock" / "records"
    assert reported == [str(records / "kernel.py"), str(records / Path(_kernel.__file__).name)]


def test_the_package_comes_before_the_existing_path() -> None:
    assert python_path("/elsewhere").split(os.pathsep) == [str(package_root()), "/elsewhere"]


def test_the_shipped_package_comes_first() -> None:
    assert python_path(None, ahead="./travelled").split(os.pathsep)[0] == "./travelled"


def test_the_path_has_no_duplicates() -> None:
    assert python_path(f"{package_root()}{os.pathsep}/elsewhere").count(str(package_root())) == 1
