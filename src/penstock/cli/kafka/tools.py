"""What the tools that administer a cluster have in common: asking it, choosing one action, and matching names."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from penstock.cli.asking import Family, ask
from penstock.cli.failures import FAILED
from penstock.cli.kafka.flags import BadFlags, Said, settings_of
from penstock.client.errors import ItemsFailed, PenstockError
from penstock.client.settings import AdminSettings

Result = TypeVar("Result")

CONTROLLERS = "bootstrap-controller"


def ask_cluster(said: Said, family: type[Family], work: Callable[[Family], Awaitable[Result]]) -> Result:
    """Ask the cluster that the usual flags name: by its brokers, or where a tool can do that by its controllers."""
    settings = settings_of(said)
    if said.may_say(CONTROLLERS) and said.has(CONTROLLERS):
        if said.has("bootstrap-server"):
            raise BadFlags("Only one of --bootstrap-server or --bootstrap-controller can be specified.")
        settings = {**settings, "bootstrap.controllers": said.text(CONTROLLERS)}
        settings.pop("bootstrap.servers", None)  # what an environment says of brokers
    # What is no setting of an admin is passed over, as Kafka's tools do: a file may be shared with anything.
    known = {name: value for name, value in settings.items() if name in AdminSettings.table()}
    return ask(known, family, work)


def chosen(said: Said, actions: Sequence[str], refusal: str) -> str:
    """The one action that was said, of those that exclude each other."""
    said_actions = [action for action in actions if said.has(action)]
    if len(said_actions) != 1:
        raise BadFlags(refusal)
    return said_actions[0]


def forbid(said: Said, flag: str, *others: str) -> None:
    """Refuse a flag that makes no sense beside others."""
    for other in others:
        if said.has(flag) and said.has(other):
            raise BadFlags(f'Option "[{flag}]" can\'t be used with option "[{other}]"')


def require(said: Said, *flags: str) -> None:
    for flag in flags:
        if not said.has(flag):
            raise BadFlags(f'Missing required argument "[{flag}]"')


def message_of(error: BaseException) -> str:
    """What went wrong, without the advice that our own commands give: some scripts look for it."""
    if isinstance(error, ItemsFailed):
        return "; ".join(message_of(each) for each in error.exceptions)
    if isinstance(error, PenstockError):
        return error.words or (error.code.message if error.code is not None else str(error))
    return str(error)


def matching(names: Iterable[str], include: str | None) -> list[str]:
    """The names that a list of regular expressions allows, as Kafka's tools take it: with commas between them."""
    if include is None:
        return sorted(names)
    text = include.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        pattern = re.compile(text)
    except re.error:
        raise BadFlags(f"{text} is an invalid regex.") from None
    return sorted(name for name in names if pattern.fullmatch(name))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as their widest cell, each followed by a tab."""
    lines = [list(headings), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    for line in lines:
        print("".join(f"{cell:<{width}}\t" for cell, width in zip(line, widths, strict=True)))


def fail(words: str) -> int:
    """Say it where errors are said, and end with a failure."""
    print(words, file=sys.stderr)
    return FAILED
