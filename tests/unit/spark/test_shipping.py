"""The package travels whole: what executors unpack is what runs here."""

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
    told = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()

    records = unpacked / "penstock" / "records"
    assert told == [str(records / "kernel.py"), str(records / Path(_kernel.__file__).name)]


def test_the_package_is_found_before_what_the_path_named_already() -> None:
    assert python_path("/elsewhere").split(os.pathsep) == [str(package_root()), "/elsewhere"]


def test_what_travelled_comes_first() -> None:
    assert python_path(None, ahead="./travelled").split(os.pathsep)[0] == "./travelled"


def test_nothing_is_named_twice() -> None:
    assert python_path(f"{package_root()}{os.pathsep}/elsewhere").count(str(package_root())) == 1
