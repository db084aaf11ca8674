"""Waiting until a deadline, and saying afterwards what was in the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from penstock.client.backoff import Backoff
from penstock.client.errors import PenstockError

T = TypeVar("T")

Explain = Callable[[int, PenstockError | None], PenstockError]
"""Makes the exception for a wait that was too long: how long it was, and what went wrong last."""


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
