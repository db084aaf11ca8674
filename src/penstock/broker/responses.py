"""Responses of coordinators, which are ready at once or when their records are committed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar, cast

from penstock.metadata.errors import Refused

R = TypeVar("R")


def respond(call: Callable[[], R | asyncio.Future[R]], refuse: Callable[[Refused], R]) -> R | Awaitable[R]:
    """Call the coordinator. If its response is ready, return it without a task, because heartbeats are frequent."""
    try:
        response = call()
    except Refused as refusal:
        return refuse(refusal)
    return respond_later(response, refuse) if isinstance(response, asyncio.Future) else response


async def respond_later(waiting: asyncio.Future[R], refuse: Callable[[Refused], R]) -> R:
    """Await the response, or return `refuse(...)` if the records are not committed."""
    try:
        return await waiting
    except Refused as refusal:
        return refuse(refusal)


def respond_to_each(responses: list[R | Awaitable[R]]) -> list[R] | Awaitable[list[R]]:
    """Several responses, as a list if all are ready, otherwise as an awaitable of the list."""
    if not any(isinstance(each, Awaitable) for each in responses):
        return cast("list[R]", responses)
    return asyncio.gather(*(each if isinstance(each, Awaitable) else _ready(each) for each in responses))


async def _ready(response: R) -> R:
    return response


async def wait_for_all(waiting: Iterable[asyncio.Future[Any]]) -> None:
    """Wait until all are done, with or without an error. If the client disconnects, all are cancelled."""
    await asyncio.gather(*waiting, return_exceptions=True)
