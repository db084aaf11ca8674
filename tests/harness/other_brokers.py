"""Other brokers, for tests of what a broker asks them: requests are recorded, responses are given by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from penstock.net.request_errors import Disconnected


class FakeBrokers:
    """An `OtherBrokers`. `answer` makes the response to a request; it may raise. While `is_holding`, requests wait."""

    def __init__(self, answer: Callable[[int, Any], Any]) -> None:
        self.asked: list[tuple[int, Any]] = []
        self.answer = answer
        self.is_holding = False
        self._held: list[asyncio.Future[None]] = []
        self.down: set[int] = set()

    async def ask(self, node_id: int, request: Any, *, timeout_s: float = 30.0) -> Any:
        self.asked.append((node_id, request))
        if self.is_holding:
            self._held.append(asyncio.get_running_loop().create_future())
            await self._held[-1]
        if node_id in self.down:
            raise Disconnected(f"broker {node_id} is down")
        return self.answer(node_id, request)

    async def release(self) -> None:
        self.is_holding = False
        held, self._held = self._held, []
        for future in held:
            future.set_result(None)
        await settle()


async def settle() -> None:
    """Let callbacks and tasks run that are ready now, and those that they start."""
    for _ in range(10):
        await asyncio.sleep(0)
