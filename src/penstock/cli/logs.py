"""The log of a running node: one line per event, on stderr.

    2026-03-14 09:26:53.589 INFO  storage.log: orders-0 recovered, 3 batches checked

The time is UTC, so that logs of several machines can be merged. A traceback follows its event, indented.
"""

from __future__ import annotations

import logging
import os
import sys
import time

from penstock.cli.output import printable

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

COLOURS = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[1;31m"}
RESET = "\x1b[0m"
EVENT_LENGTH_MAX = 4_000
NAME_WIDTH = 5  # DEBUG and ERROR; WARNING is written WARN


def set_up_logging(level: str) -> None:
    """Log events from this level on to stderr. Called once, when a node starts."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(is_coloured=sys.stderr.isatty() and not os.environ.get("NO_COLOR")))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])
    # asyncio logs at debug which selector it uses.
    logging.getLogger("asyncio").setLevel(max(LEVELS[level], logging.WARNING))


class LineFormatter(logging.Formatter):
    """Time, level, place and event, on one line."""

    def __init__(self, *, is_coloured: bool) -> None:
        super().__init__()
        self._is_coloured = is_coloured

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(record.created))
        level = "WARN" if record.levelno == logging.WARNING else record.levelname
        place = record.name.removeprefix("penstock.")
        event = _on_one_line(record.getMessage())
        line = f"{moment}.{int(record.msecs):03} {level:<{NAME_WIDTH}} {place}: {event}"
        if self._is_coloured and record.levelno in COLOURS:
            line = f"{COLOURS[record.levelno]}{line}{RESET}"
        if record.exc_info:
            line += "\n" + _indent(self.formatException(record.exc_info))
        if record.stack_info:
            line += "\n" + _indent(record.stack_info)
        return line


def _on_one_line(event: str) -> str:
    """Events contain text of clients, which must not fill a disk, move a cursor or forge a line."""
    if len(event) > EVENT_LENGTH_MAX:
        event = f"{event[:EVENT_LENGTH_MAX]}... ({len(event)} characters)"
    return printable(event)


def _indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
