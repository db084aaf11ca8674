"""One line an event."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import pytest

from penstock.cli.logs import LineFormatter, set_up_logging


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """The tests' own handlers must survive."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def record(message: str, level: int = logging.INFO, name: str = "penstock.storage.log") -> logging.LogRecord:
    made = logging.LogRecord(name, level, __file__, 1, message, (), None)
    made.created, made.msecs = 1_773_480_413.589, 589.0
    return made


def test_a_line_has_time_level_place_and_event() -> None:
    line = LineFormatter(is_coloured=False).format(record("orders-0 recovered"))

    assert line == "2026-03-14 09:26:53.589 INFO  storage.log: orders-0 recovered"


def test_a_name_from_elsewhere_is_kept() -> None:
    line = LineFormatter(is_coloured=False).format(record("slow", logging.WARNING, "asyncio"))

    assert line.endswith("WARN  asyncio: slow")


def test_an_event_stays_on_its_line() -> None:
    assert "\n" not in LineFormatter(is_coloured=False).format(record("from a\nclient"))


def test_a_client_cannot_write_over_the_line_or_the_terminal() -> None:
    line = LineFormatter(is_coloured=False).format(record("group a\rb\x1b[2Jc\x9b1md\u202ee é"))

    assert line.endswith("group a\\rb\\x1b[2Jc\\x9b1md\\u202ee é")


def test_a_client_cannot_fill_the_log_with_one_event() -> None:
    line = LineFormatter(is_coloured=False).format(record("x" * 50_000))

    assert line.endswith("x... (50000 characters)")
    assert len(line) < 5_000


def test_a_traceback_follows_indented() -> None:
    event = record("broken", logging.ERROR)
    try:
        raise ValueError("why")
    except ValueError:
        event.exc_info = sys.exc_info()

    first, *rest = LineFormatter(is_coloured=False).format(event).splitlines()

    assert first.endswith("ERROR storage.log: broken")
    assert rest[-1] == "    ValueError: why"
    assert all(line.startswith("    ") for line in rest)


def test_colours_mark_warnings_and_errors() -> None:
    coloured = LineFormatter(is_coloured=True)

    assert coloured.format(record("broken", logging.ERROR)).startswith("\x1b[31m")
    assert "\x1b" not in coloured.format(record("fine"))


def test_events_go_to_stderr_from_the_chosen_level_on(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("warning")

    logging.getLogger("penstock.any").info("quiet")
    logging.getLogger("penstock.any").warning("loud")

    captured = capsys.readouterr()
    assert captured.out == ""
    assert "quiet" not in captured.err
    assert captured.err.endswith("WARN  any: loud\n")
