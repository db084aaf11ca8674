"""Answers of coordinators, which come at once or when their records are committed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar, cast

from penstock.metadata.errors import Refused

R = TypeVar("R")


def answer(ask: Callable[[], R | asyncio.Future[R]], refuse: Callable[[Refused], R]) -> R | Awaitable[R]:
    """Ask the coordinator; where it answers at once so does this, because a heartbeat should not cost a task."""
    try:
        response = ask()
    except Refused as refusal:
        return refuse(refusal)
    return answer_later(response, refuse) if isinstance(response, asyncio.Future) else response


async def answer_later(waiting: asyncio.Future[R], refuse: Callable[[Refused], R]) -> R:
    """What a coordinator promises, or `refuse(why)` where the records will not be committed here."""
    try:
        return await waiting
    except Refused as refusal:
        return refuse(refusal)


def answer_each(answers: list[R | Awaitable[R]]) -> list[R] | Awaitable[list[R]]:
    """Several answers as one, which is there when all of them are."""
    if not any(isinstance(each, Awaitable) for each in answers):
        return cast("list[R]", answers)
    return asyncio.gather(*(each if isinstance(each, Awaitable) else _given(each) for each in answers))


async def _given(response: R) -> R:
    return response


async def settled(waiting: Iterable[asyncio.Future[Any]]) -> None:
    """Wait until each has its answer or its refusal; where the peer goes away, nobody waits for any of them."""
    await asyncio.gather(*waiting, return_exceptions=True)
