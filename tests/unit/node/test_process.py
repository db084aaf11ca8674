"""A node as a process: how it ends when it cannot go on."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from penstock.node.process import FAILED_STOP_S, stop_failed
from penstock.testing.loop import VirtualLoop, run_virtual


class FailedNode:
    def __init__(self, stop_s: float) -> None:
        self._stop_s = stop_s

    async def stop(self) -> None:
        await asyncio.sleep(self._stop_s)


@pytest.mark.parametrize(("stop_s", "statuses"), [(FAILED_STOP_S - 1, []), (FAILED_STOP_S + 1, [1])])
def test_a_disk_that_does_not_answer_does_not_keep_a_failed_node_for_ever(
    stop_s: float, statuses: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    halted: list[int] = []
    node: Any = FailedNode(stop_s)

    with caplog.at_level(logging.ERROR):
        run_virtual(VirtualLoop(), stop_failed(node, halt=halted.append))

    assert halted == statuses
    assert bool(caplog.records) == bool(statuses)
