"""What `make install` prints during its long work: progress on a terminal, nothing in a log."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess

import pytest

from harness.brokers import ROOT

PROGRESS = ROOT / ".ci" / "progress"
PIP = """\
Looking in links: /opt/wheels
Obtaining file:///home/alice/penstock
  Installing build dependencies: started
  Installing build dependencies: finished with status 'done'
Collecting uvloop<1,>=0.21 (from penstock==0.1.0)
  Downloading uvloop-0.23.0-cp311-cp311-manylinux2014_x86_64.whl (4.0 MB)
  Downloading pyspark-4.3.0.tar.gz (434.2 MB)
Requirement already satisfied: rich in .venv/lib (15.0.0)
Building wheels for collected packages: penstock
  Building editable for penstock (pyproject.toml): started
  Building editable for penstock (pyproject.toml): finished with status 'done'
Installing collected packages: uvloop, typer, penstock
Successfully installed penstock-0.1.0
"""

pytestmark = pytest.mark.penstock_only("tests Penstock's installation")


def test_a_terminal_shows_what_is_fetched_built_and_installed() -> None:
    person, terminal = os.openpty()
    environment = {**os.environ, "SECONDS": "60"}  # as `make run SECONDS=60` prints it

    with os.fdopen(person, "rb", buffering=0) as seen:
        with os.fdopen(terminal, "wb") as stderr:
            subprocess.run([PROGRESS], input=PIP, text=True, stderr=stderr, check=True, env=environment)
        shown = _read_all(seen).decode()

    steps = [step for step in re.split(r"\r\x1b\[K", shown) if step]
    assert list(dict.fromkeys(step.split(maxsplit=1)[1] for step in steps)) == [
        "resolving dependencies",
        "downloading build dependencies",
        "resolving uvloop<1,>=0.21",
        "downloading uvloop-0.23.0 (4.0 MB)",
        "downloading pyspark-4.3.0.tar.gz (434.2 MB)",
        "building penstock",
        "installing 3 packages",
    ]
    assert all(step.startswith("  0:") for step in steps)
    assert shown.endswith("\r\x1b[K")


def _read_all(terminal: io.FileIO) -> bytes:
    """A terminal returns what it has in pieces, and fails at the end."""
    pieces = []
    with contextlib.suppress(OSError):
        while piece := terminal.read(65536):
            pieces.append(piece)
    return b"".join(pieces)


def test_a_log_shows_nothing() -> None:
    done = subprocess.run([PROGRESS], input=PIP, capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("", "")
