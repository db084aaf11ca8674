"""What handlers of group APIs share: answers that come once their records are committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from penstock.metadata.errors import Refused

R = TypeVar("R")


async def answer_later(waiting: asyncio.Future[R], refuse: Callable[[Refused], R]) -> R:
    """What `GroupCoordinator.write` promises, or `refuse(why)` where the records will not be committed here."""
    try:
        return await waiting
    except Refused as refusal:
        return refuse(refusal)
