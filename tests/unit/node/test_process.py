"""A node as a process: how it ends when it cannot go on."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from penstock.node.process import FAILED_STOP_S, start_unless_stopped, stop_failed
from simulator.loop import VirtualLoop, run_virtual


class FailedNode:
    def __init__(self, stop_s: float) -> None:
        self._stop_s = stop_s

    async def stop(self) -> None:
        await asyncio.sleep(self._stop_s)


@pytest.mark.parametrize(("stop_s", "statuses"), [(FAILED_STOP_S - 1, []), (FAILED_STOP_S + 1, [1])])
def test_a_hanging_disk_does_not_block_the_exit_of_a_failed_node(
    stop_s: float, statuses: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    halted: list[int] = []
    node: Any = FailedNode(stop_s)

    with caplog.at_level(logging.ERROR):
        run_virtual(VirtualLoop(), stop_failed(node, halt=halted.append))

    assert halted == statuses
    assert bool(caplog.records) == bool(statuses)


class SlowNode:
    """A node that waits for the other controllers when it starts."""

    def __init__(self) -> None:
        self.has_cleaned_up = False

    async def start(self) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            self.has_cleaned_up = True


def test_a_node_that_still_starts_can_be_stopped() -> None:
    node: Any = SlowNode()

    async def run() -> object:
        stopping = asyncio.Event()
        asyncio.get_running_loop().call_later(1, stopping.set)
        return await start_unless_stopped(node, stopping)

    assert run_virtual(VirtualLoop(), run()) is None
    assert node.has_cleaned_up
