"""Which command a line runs, and the exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.cli.main import main


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"penstock {penstock.__version__}\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("serv", "Did you mean serve?"),
        ("serve --log-level loud", "loud: must be one of debug, info, warning, error"),
        ("serve one two", "two"),
        ("serve --set", "--set"),
        ("serve --nodes", "--nodes"),
        ("demo --port zero", "--port"),
        ("demo --port 0", "--port"),
    ],
)
def test_a_usage_error_takes_two_lines_and_exits_with_2(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == 2
    assert message in shown[0]
    assert "--help` lists " in shown[1]


def test_help_is_printed_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2

    assert "Usage: penstock" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[""], ["", "topics"], ["topics", ""]])
def test_an_empty_word_is_an_unknown_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A script with an unset "$command" must not get the help text in its output."""
    assert main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("penstock: unknown command ''.")


def run_python(*arguments: str) -> str:
    """The output of a new interpreter that imports the same package."""
    source = Path(penstock.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    result = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, env=environment
    )
    return result.stdout


@pytest.mark.parametrize(
    "line", [["serve", "--set", "num.partitions=0"], ["version"], ["settings", "--json"]]
)
def test_a_valid_line_loads_neither_help_nor_rich(line: list[str]) -> None:
    """Loading them takes longer than starting the broker."""
    program = (
        f"import sys, io; sys.stdout = io.StringIO(); from penstock.cli.main import main; main({line!r});"
        "sys.stdout = sys.__stdout__;"
        "print(sorted({'rich', 'argparse', 'penstock.cli.help'} & set(sys.modules)))"
    )

    assert run_python("-c", program) == "[]\n"


def test_the_package_is_a_program() -> None:
    assert run_python("-m", "penstock", "--version") == f"penstock {penstock.__version__}\n"


def test_a_closed_pipe_is_no_failure() -> None:
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
