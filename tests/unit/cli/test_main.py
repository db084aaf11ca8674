"""Which way a command line takes, and what it ends with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.cli.main import ServeOptions, main, read_serve_options


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("serve", ServeOptions(None, [], "info")),
        ("serve server.properties", ServeOptions("server.properties", [], "info")),
        ("serve --set a=b=c --set d=e", ServeOptions(None, ["a=b=c", "d=e"], "info")),
        ("serve --set=a=b f", ServeOptions("f", ["a=b"], "info")),
        ("serve f --log-level debug", ServeOptions("f", [], "debug")),
        ("serve --log-level=error", ServeOptions(None, [], "error")),
    ],
)
def test_serve_is_understood_at_once(line: str, options: ServeOptions) -> None:
    assert read_serve_options(line.split()) == options


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--help",
        "settings",
        "serve --help",
        "serve -h",
        "serve --set",
        "serve --set=",
        "serve --log-level",
        "serve --log-level loud",
        "serve --nodes 3",
        "serve one two",
    ],
)
def test_the_rest_is_left_to_typer(line: str) -> None:
    assert read_serve_options(line.split()) is None


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"penstock {penstock.__version__}\n"


@pytest.mark.parametrize("line", ["--help", "serve --help", "settings --help", "demo --help"])
def test_help_is_given(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 0
    assert "Usage: penstock" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("serv", "serve"),
        ("serve --log-level loud", "loud"),
        ("serve one two", "two"),
        ("serve --set", "--set"),
    ],
)
def test_a_slip_of_the_pen_is_answered_with_status_2(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    assert words in capsys.readouterr().err


def test_typer_takes_the_same_options_as_the_short_way(capsys: pytest.CaptureFixture[str]) -> None:
    from penstock.cli.app import run_app

    line = ["serve", "--set", "num.partitions=0", "--log-level", "error"]

    assert run_app(line) == main(line) == 2
    by_typer, _, at_once = capsys.readouterr().err.partition("penstock: num")[2].partition("penstock: num")
    assert by_typer == at_once


def run_python(*arguments: str) -> str:
    """What a fresh interpreter prints that finds the package where this one found it."""
    source = Path(penstock.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    result = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, env=environment
    )
    return result.stdout


def test_serving_loads_neither_typer_nor_rich() -> None:
    """They take longer to load than the whole broker."""
    program = (
        "import sys; from penstock.cli.main import main; main(['serve', '--set', 'num.partitions=0']);"
        "print(sorted({'typer', 'rich', 'click', 'argparse', 'difflib'} & set(sys.modules)))"
    )

    assert run_python("-c", program) == "[]\n"


def test_the_package_is_a_program() -> None:
    assert run_python("-m", "penstock", "--version") == f"penstock {penstock.__version__}\n"
