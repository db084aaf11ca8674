"""Shared by the tools that administer a cluster: admin calls, error messages, name patterns and tables."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from penstock.cli.admin import Family
from penstock.cli.admin import with_admin as with_admin_settings
from penstock.cli.failures import FAILED
from penstock.cli.flags import UsageError
from penstock.cli.kafka.tool import Options, admin_settings
from penstock.client.errors import ItemsFailed, PenstockError
from penstock.client.settings import AdminSettings

Result = TypeVar("Result")

CONTROLLERS = "bootstrap-controller"


def with_admin(options: Options, family: type[Family], work: Callable[[Family], Awaitable[Result]]) -> Result:
    """Connect to the brokers, or to the controllers if --bootstrap-controller is given, and do the work."""
    settings = admin_settings(options)
    if options.accepts(CONTROLLERS) and options.has(CONTROLLERS):
        if options.has("bootstrap-server"):
            raise UsageError("Only one of --bootstrap-server or --bootstrap-controller can be specified.")
        settings = {**settings, "bootstrap.controllers": options.text(CONTROLLERS)}
        settings.pop("bootstrap.servers", None)  # may come from the environment
    # Kafka's tools ignore settings that are not an admin client's: a file may be shared with other clients.
    known = {name: value for name, value in settings.items() if name in AdminSettings.table()}
    return with_admin_settings(known, family, work)


def message_of(error: BaseException) -> str:
    """The error message without the advice of our own commands: scripts may match it."""
    if isinstance(error, ItemsFailed):
        return "; ".join(message_of(each) for each in error.exceptions)
    if isinstance(error, PenstockError):
        return error.detail or (error.code.message if error.code is not None else str(error))
    return str(error)


def matching(names: Iterable[str], include: str | None) -> list[str]:
    """The names that match a comma-separated list of regular expressions."""
    if include is None:
        return sorted(names)
    text = include.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        pattern = re.compile(text)
    except re.error:
        raise UsageError(f"{text} is an invalid regex.") from None
    return sorted(name for name in names if pattern.fullmatch(name))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print columns as wide as their widest cell, each followed by a tab."""
    lines = [list(headings), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    for line in lines:
        print("".join(f"{cell:<{width}}\t" for cell, width in zip(line, widths, strict=True)))


def fail(message: str) -> int:
    """Print an error. Returns the exit status."""
    print(message, file=sys.stderr)
    return FAILED
