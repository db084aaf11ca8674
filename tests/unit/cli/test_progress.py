"""Progress appears where a person waits for more than a moment, and nowhere else."""

from __future__ import annotations

import io
import threading

import pytest

from penstock.cli import progress
from penstock.cli.output import Output
from penstock.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Called by the test itself: pytest puts its own stderr in place when the test begins."""
    made = Terminal()
    monkeypatch.setattr("sys.stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    return made


def test_quick_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setattr(progress, "DELAY_SECONDS", threading.TIMEOUT_MAX)  # quick, on any machine
    with Output().progress("quick", total=2) as shown:
        shown.advance()
        shown.advance()

    assert terminal.getvalue() == ""


def test_in_a_pipe_nothing_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0.0)

    with Output().progress("hidden") as shown:
        shown.update(5)

    assert capsys.readouterr().err == ""


def test_long_work_shows_a_bar_with_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    work = Progress("copying [bold]", total=10, unit="files", is_shown=True)
    with work:
        work.advance(4)
        work._show_bar()  # what the timer does after a second
        work.update(7, what="still copying")

    assert "copying [bold]" in terminal.getvalue()
    assert "4/10" in terminal.getvalue()


def test_it_does_not_show_bar_after_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    work = Progress("over", total=None, unit="", is_shown=True)
    with work:
        pass
    work._show_bar()

    assert terminal.getvalue() == ""
