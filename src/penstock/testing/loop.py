"""An event loop whose time is virtual: it jumps to the next timer when nothing is left to do.

No thread, no socket and no real clock is involved, so a run is decided by its seed alone and an hour of
timeouts passes in milliseconds.
"""

from __future__ import annotations

import asyncio
from asyncio import base_events
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

EPOCH_MS = 1_700_000_000_000  # the wall clock's value when a simulation starts; any constant will do


class NothingLeftToDo(Exception):
    """Every task waits for something that will never come: in a simulation that is a bug, and it is seen at once."""


class _JumpingSelector:
    """Stands where a real loop polls its descriptors: instead of waiting, it moves the clock."""

    def __init__(self) -> None:
        self.now = 0.0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise NothingLeftToDo
        self.now += max(timeout, 0.0)
        return []

    def close(self) -> None:
        pass


class VirtualLoop(base_events.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._selector = _JumpingSelector()
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._selector.now

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list, "a virtual loop has no descriptors"

    def _write_to_self(self) -> None:
        """Nothing to wake: no other thread ever calls into this loop."""


class VirtualClock:
    """Wall time that follows the loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def wall_ms(self) -> int:
        return EPOCH_MS + round(self._loop.time() * 1000)


def run_virtual(loop: VirtualLoop, main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end, then cancel and collect whatever it left behind."""
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main)
    finally:
        leftovers = asyncio.all_tasks(loop)
        for task in leftovers:
            task.cancel()
        if leftovers:
            loop.run_until_complete(asyncio.gather(*leftovers, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        loop.close()
