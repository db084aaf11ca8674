"""Valid topic names, checked when a topology is built and when a user function chooses a topic.

The rule is the brokers' own (a test compares both). It is repeated here because pipelines may only use the client.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from penstock.client.argument_types import quoted
from penstock.streams.nouns import TopologyError

LENGTH_MAX = 249  # with partition number and suffix it still fits a file name of 255 bytes
ALLOWED = (
    f"a topic's name has 1 to {LENGTH_MAX} ASCII letters, digits, `.`, `_` and `-`, and is not `.` or `..`"
)
_VALID = re.compile(rf"[a-zA-Z0-9._-]{{1,{LENGTH_MAX}}}")
_PART = re.compile(r"[a-zA-Z0-9._-]{1,200}")  # leaves room for the rest of a topic name
PART_ALLOWED = "1 to 200 ASCII letters, digits, `.`, `_` and `-`, and not `.` or `..`"


def checked_topic(name: Any) -> str:
    """Return the name, or raise an error that says what is allowed."""
    if not isinstance(name, str):
        raise TopologyError(f"{quoted(name)} is not a valid topic name: {ALLOWED}")
    if not is_topic_name(name):
        length = f" ({len(name)} characters)" if len(name) > LENGTH_MAX else ""
        raise TopologyError(f"{quoted(name)}{length} is not a valid topic name: {ALLOWED}")
    return name


@lru_cache(maxsize=10_000)  # a function that chooses topics per record returns the same names again and again
def is_topic_name(name: str) -> bool:
    return _VALID.fullmatch(name) is not None and name not in (".", "..")


def is_part(name: Any) -> bool:
    """Whether it can name an application, a store or an operator: they become parts of topic and folder names."""
    return isinstance(name, str) and _PART.fullmatch(name) is not None and name not in (".", "..")


def check_own_topic(topic: str, what: str) -> None:
    """Reject a generated topic name that is too long."""
    if len(topic) > LENGTH_MAX:
        raise TopologyError(
            f"the topic name {quoted(topic)} of {what} has {len(topic)} characters; at most {LENGTH_MAX} are allowed: "
            "choose a shorter name for it or for the app"
        )
