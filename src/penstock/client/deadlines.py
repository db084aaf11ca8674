"""Waiting until a deadline, and saying afterwards what was in the way.

Applications say how long they wait in seconds, as everywhere in Python, and inside a deadline is a millisecond of the
loop's clock. `seconds` and `milliseconds` stand between the two: every public call that takes a `timeout` reads it by
one of them, and nothing else does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
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


class Until:
    """Bound what is awaited in an `async with` block, which gets a list of errors: add what goes wrong on the way. The
    last error explains the timeout.

    This is a class and not an async generator: an event loop that is ending runs no new generators, and a producer that
    nobody closed still has to send then.
    """

    def __init__(self, deadline_ms: int, explain: Explain) -> None:
        self._deadline_ms = deadline_ms
        self._explain = explain
        self._limit = asyncio.timeout_at(deadline_ms / 1000)
        self._reasons: list[PenstockError] = []
        self._began_ms = 0

    async def __aenter__(self) -> list[PenstockError]:
        self._began_ms = now_ms()
        await self._limit.__aenter__()
        return self._reasons

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_late = isinstance(error, TimeoutError)
        try:
            await self._limit.__aexit__(kind, error, trace)
        except TimeoutError:
            is_late = True
        if is_late and self._limit.expired():
            reason = self._reasons[-1] if self._reasons else None
            raise self._explain(max(0, self._deadline_ms - self._began_ms), reason) from reason


async def repeat(
    attempt: Callable[[], Awaitable[T]], *, deadline_ms: int, backoff: Backoff, explain: Explain
) -> T:
    """Until it succeeds, fails in a way that another attempt does not cure, or the deadline passes."""
    failures = 0
    async with Until(deadline_ms, explain) as reasons:
        while True:
            try:
                return await attempt()
            except PenstockError as error:
                if not error.retriable:
                    raise
                reasons[:] = [error]
            failures += 1
            await asyncio.sleep(backoff.wait_ms(failures) / 1000)
