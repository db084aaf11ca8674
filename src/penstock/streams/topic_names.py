"""Names that a topic can have: looked at when a topology is built, and again where a function of a user chooses one.

The rule is the brokers' own (a test holds both to each other). Pipelines reach a cluster through the client alone, so
it stands here a second time.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from penstock.client.argument_types import quoted
from penstock.streams.nouns import TopologyError

LENGTH_MAX = 249  # with a partition number and a suffix it still fits a file name of 255 bytes
ALLOWED = (
    f"a topic's name has 1 to {LENGTH_MAX} ASCII letters, digits, `.`, `_` and `-`, and is not `.` or `..`"
)
_VALID = re.compile(rf"[a-zA-Z0-9._-]{{1,{LENGTH_MAX}}}")
_PART = re.compile(r"[a-zA-Z0-9._-]{1,200}")  # leaves room for the rest of a topic's name
PART_ALLOWED = "1 to 200 ASCII letters, digits, `.`, `_` and `-`, and not `.` or `..`"


def checked_topic(name: Any) -> str:
    """The name itself, or a refusal that says what is allowed."""
    if not isinstance(name, str):
        raise TopologyError(f"{quoted(name)} is no name of a topic: {ALLOWED}")
    if not is_topic_name(name):
        length = f" ({len(name)} characters)" if len(name) > LENGTH_MAX else ""
        raise TopologyError(f"{quoted(name)}{length} is no name of a topic: {ALLOWED}")
    return name


@lru_cache(maxsize=10_000)  # where a function chooses topics record by record, it chooses the same ones again
def is_topic_name(name: str) -> bool:
    return _VALID.fullmatch(name) is not None and name not in (".", "..")


def is_part(name: Any) -> bool:
    """Whether it can be the name of an application, a store or an operator, of which names of topics and of folders are
    made."""
    return isinstance(name, str) and _PART.fullmatch(name) is not None and name not in (".", "..")


def check_own_topic(topic: str, what: str) -> None:
    """A name that was put together of an application's and others: refuse one that has become too long."""
    if len(topic) > LENGTH_MAX:
        raise TopologyError(
            f"{what} would have the topic {quoted(topic)}, whose name has {len(topic)} characters where {LENGTH_MAX} "
            "are allowed: choose a shorter name for it, or for the app"
        )
