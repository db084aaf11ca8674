"""Waiting until a deadline, and saying afterwards what was in the way.

Applications say how long they wait in seconds, as everywhere in Python, and inside a deadline is a millisecond of the
loop's clock. `seconds` and `milliseconds` stand between the two: every public call that takes a `timeout` reads it by
one of them, and nothing else does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar, overload

from penstock.client.backoff import Backoff
from penstock.client.errors import BadArgument, PenstockError

T = TypeVar("T")

FOREVER_S: Final = 366 * 24 * 3600.0  # no timer of the system overflows at that, and nobody sees it pass

Explain = Callable[[int, PenstockError | None], PenstockError]
"""Makes the exception for a wait that was too long: how long it was, and what went wrong last."""


def seconds(timeout: float) -> float:
    """What a call was given as its `timeout`."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise BadArgument(f"timeout is {timeout!r}, and must be a number of seconds")
    if not timeout >= 0:  # as NaN is not, either
        raise BadArgument(f"timeout is {timeout!r}, and must be 0 seconds or more")
    return float(min(timeout, FOREVER_S))


@overload
def milliseconds(timeout: float) -> int: ...


@overload
def milliseconds(timeout: float | None) -> int | None: ...


def milliseconds(timeout: float | None) -> int | None:
    """The same, for a deadline; None, the client's own patience, remains that."""
    return None if timeout is None else round(seconds(timeout) * 1000)


def now_ms() -> int:
    """The clock of all deadlines: that of the running loop, never that of the wall."""
    return round(asyncio.get_running_loop().time() * 1000)


@asynccontextmanager
async def until(deadline_ms: int, explain: Explain) -> AsyncIterator[list[PenstockError]]:
    """Bound what is awaited inside. The list is for what goes wrong on the way: its last entry explains the timeout."""
    began_ms = now_ms()
    reasons: list[PenstockError] = []
    limit = asyncio.timeout_at(deadline_ms / 1000)
    try:
        async with limit:
            yield reasons
    except TimeoutError:
        if not limit.expired():
            raise
        reason = reasons[-1] if reasons else None
        raise explain(max(0, deadline_ms - began_ms), reason) from reason


async def repeat(
    attempt: Callable[[], Awaitable[T]], *, deadline_ms: int, backoff: Backoff, explain: Explain
) -> T:
    """Until it succeeds, fails in a way that another attempt does not cure, or the deadline passes."""
    failures = 0
    async with until(deadline_ms, explain) as reasons:
        while True:
            try:
                return await attempt()
            except PenstockError as error:
                if not error.retriable:
                    raise
                reasons[:] = [error]
            failures += 1
            await asyncio.sleep(backoff.wait_ms(failures) / 1000)
