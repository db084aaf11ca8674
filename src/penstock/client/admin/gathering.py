"""Asking about many items at once: the shapes of questions, and answers in which an error is that of its own item."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import TypeVar

from penstock.client import errors
from penstock.client.admin.outcome import Answers
from penstock.client.errors import PenstockError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Attempt = Callable[[list[K]], Awaitable[Answers[K, V]]]
"""Asks once about items."""
Find = Callable[[list[K]], Awaitable[Answers[K, int | None]]]
"""Tells for each item which node to ask about it; None: any."""
AskNode = Callable[[int | None, list[K]], Awaitable[Answers[K, V]]]


async def attempted(items: list[K], attempt: Attempt[K, V]) -> dict[K, V | PenstockError]:
    """One attempt, with an answer for each item: what failed as a whole has failed for all of them."""
    try:
        answers = await attempt(items)
    except PenstockError as error:
        return dict.fromkeys(items, error)
    return {
        item: answers[item]
        if item in answers
        else errors.MalformedAnswer("the broker told nothing of it", about=item)
        for item in items
    }


async def gathered(asked: Mapping[K, Awaitable[V]]) -> dict[K, V | PenstockError]:
    """All of them at the same time; an error stands in the place of the answer."""
    told = await asyncio.gather(*asked.values(), return_exceptions=True)
    answers: dict[K, V | PenstockError] = {}
    for key, answer in zip(asked, told, strict=True):
        if isinstance(answer, BaseException) and not isinstance(answer, PenstockError):
            raise answer
        answers[key] = answer
    return answers
