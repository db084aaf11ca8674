"""Waiting until a deadline, and explaining a timeout.

Applications give timeouts in seconds, as usual in Python; inside, a deadline is a millisecond of the loop's clock.
`seconds` and `milliseconds` convert: every public call with a `timeout` uses one of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, TypeVar, overload

from penstock.client.errors import BadArgument, PenstockError
from penstock.runtime.backoff import Backoff

T = TypeVar("T")

FOREVER_S: Final = 366 * 24 * 3600.0  # no system timer overflows at this value

Explain = Callable[[int, PenstockError | None], PenstockError]
"""Makes the exception for a timeout, from the time waited and the last error."""


def seconds(timeout: float) -> float:
    """A `timeout` argument, checked."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise BadArgument(f"timeout must be a number of seconds, not {timeout!r}")
    if not timeout >= 0:  # NaN is rejected too
        raise BadArgument(f"timeout must be 0 seconds or more, not {timeout!r}")
    return float(min(timeout, FOREVER_S))


@overload
def milliseconds(timeout: float) -> int: ...


@overload
def milliseconds(timeout: float | None) -> int | None: ...


def milliseconds(timeout: float | None) -> int | None:
    """The same in milliseconds; None (the client's default) stays None."""
    return None if timeout is None else round(seconds(timeout) * 1000)


def now_ms() -> int:
    """The clock of all deadlines: the running loop's, never the wall clock."""
    return round(asyncio.get_running_loop().time() * 1000)


class Until:
    """Limits the time of an `async with` block, which gets a list: add the errors of attempts to it. The last one
    explains the timeout.

    It is a class and not an async generator: an event loop that is shutting down runs no new generators, and an
    unclosed producer still has to send then.
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
    """Retry until success, an error that is not retriable, or the deadline."""
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
