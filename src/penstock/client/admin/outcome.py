"""What comes of a call about several things at once.

One rule for the whole of Admin. A call about one thing returns what it is about, or raises its error. A call about
many returns a dict with a value for each of them; if any failed it raises one `errors.ItemsFailed`, an exception group
which names every one that failed and also holds what succeeded, because that has happened and cannot be taken back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Hashable, Mapping
from typing import Any, TypeVar

from penstock.client.errors import ItemsFailed, PenstockError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Answers = Mapping[K, V | PenstockError]
"""What one attempt told of each item: its value, or the error."""


async def only(many: Awaitable[Mapping[Any, V]]) -> V:
    """The value of a call about many that was given one; its error is raised as it is."""
    try:
        (value,) = (await many).values()
    except ItemsFailed as failed:
        (error,) = failed.failures.values()
        raise error from error.__cause__
    return value
