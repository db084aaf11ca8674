"""Which way a command line takes, and what it ends with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.cli.main import main


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"penstock {penstock.__version__}\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("serv", "Did you mean 'serve'"),
        ("serve --log-level loud", "loud is not one of debug, info, warning, error"),
        ("serve one two", "two"),
        ("serve --set", "--set"),
        ("serve --nodes", "--nodes"),
        ("demo --port zero", "--port"),
        ("demo --port 0", "--port"),
    ],
)
def test_a_slip_of_the_pen_is_answered_in_two_lines_with_status_2(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert words in told[0]
    assert told[1].endswith("--help` shows what it takes.")


def test_without_a_command_help_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    main([])

    assert "Usage: penstock" in capsys.readouterr().out


def run_python(*arguments: str) -> str:
    """What a fresh interpreter prints that finds the package where this one found it."""
    source = Path(penstock.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    result = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, env=environment
    )
    return result.stdout


@pytest.mark.parametrize(
    "line", [["serve", "--set", "num.partitions=0"], ["version"], ["settings", "--json"]]
)
def test_a_line_that_is_in_order_loads_neither_typer_nor_rich(line: list[str]) -> None:
    """They take longer to load than the whole broker."""
    program = (
        f"import sys, io; sys.stdout = io.StringIO(); from penstock.cli.main import main; main({line!r});"
        "sys.stdout = sys.__stdout__;"
        "print(sorted({'typer', 'rich', 'click', 'argparse'} & set(sys.modules)))"
    )

    assert run_python("-c", program) == "[]\n"


def test_the_package_is_a_program() -> None:
    assert run_python("-m", "penstock", "--version") == f"penstock {penstock.__version__}\n"


def test_help_that_nobody_reads_to_its_end_is_no_failure() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "penstock", "topics", "--help"],
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writer)

    assert (done.returncode, done.stderr) == (0, b"")
