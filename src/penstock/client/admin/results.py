"""Results of a call about several items: each item has a value or an error of its own.

A call about several items returns a dict of all values. If any item failed, it raises one `errors.ItemsFailed`: an
exception group with every error, and with the values of the items that succeeded, because those cannot be undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, TypeVar

from penstock.client import errors
from penstock.client.errors import ItemsFailed, PenstockError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Results = Mapping[K, V | PenstockError]
"""The outcome of one attempt, by item: its value, or its error."""
Attempt = Callable[[list[K]], Awaitable[Results[K, V]]]
"""Sends one request about items."""
Find = Callable[[list[K]], Awaitable[Results[K, int | None]]]
"""Finds the node to ask about each item; None: any node."""
AskNode = Callable[[int | None, list[K]], Awaitable[Results[K, V]]]


async def only(many: Awaitable[Mapping[Any, V]]) -> V:
    """The value of a call about many items that was given one; raises that item's own error."""
    try:
        (value,) = (await many).values()
    except ItemsFailed as failed:
        (error,) = failed.failures.values()
        raise error from error.__cause__
    return value


async def attempt_all(items: list[K], attempt: Attempt[K, V]) -> dict[K, V | PenstockError]:
    """One attempt, with a result for each item: an error of the whole request is the error of every item."""
    try:
        results = await attempt(items)
    except PenstockError as error:
        return dict.fromkeys(items, error)
    return {
        item: results[item]
        if item in results
        else errors.MalformedAnswer("the broker's response has no entry for it", about=item)
        for item in items
    }


async def gather_results(calls: Mapping[K, Awaitable[V]]) -> dict[K, V | PenstockError]:
    """Run all calls concurrently; a call that raises a PenstockError has that error as its result."""
    outcomes = await asyncio.gather(*calls.values(), return_exceptions=True)
    results: dict[K, V | PenstockError] = {}
    for key, outcome in zip(calls, outcomes, strict=True):
        if isinstance(outcome, BaseException) and not isinstance(outcome, PenstockError):
            raise outcome
        results[key] = outcome
    return results
