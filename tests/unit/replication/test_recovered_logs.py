"""What consumers see of a log that was killed, before it is synced again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, TypeVar

from harness.datapath import Cluster, DataNode, make_batch
from harness.storage import InlineWorkers, settle
from penstock.runtime import Lane, Runtime
from penstock.runtime.clock import SystemClock
from penstock.storage.flushing import SyncTask
from simulator.disk import SimulatedDisk

T = TypeVar("T")


class SlowSyncs(InlineWorkers):
    """Runs everything at once except the syncs of logs, which wait until they are released."""

    def __init__(self) -> None:
        self.held: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    def run(self, work: Callable[[], T], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[T]:
        if not isinstance(getattr(work, "__self__", None), SyncTask):
            return super().run(work)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.held.append((work, future))
        return future

    async def let_go(self) -> None:
        held, self.held = self.held, []
        for work, future in held:
            future.set_result(work())
        await settle()


def runtime_of(disk: SimulatedDisk, workers: SlowSyncs) -> Runtime:
    nothing: Any = None
    return Runtime(SystemClock(), random.Random(1), disk, nothing, workers)


async def restart_after_kill(cluster: Cluster) -> tuple[DataNode, SlowSyncs]:
    """A node with one record that a killed process had written but not synced."""
    disk = SimulatedDisk()
    node = DataNode(cluster, ["/data"], runtime_of(disk, SlowSyncs()))
    await node.start()
    node.partition("orders").append_as_leader(make_batch(b"x"), acks=1, now_ms=1000)
    disk.kill()
    workers = SlowSyncs()
    again = DataNode(cluster, ["/data"], runtime_of(disk, workers))
    await again.start()
    return again, workers


async def test_with_flush_messages_an_unsynced_record_is_not_visible(cluster: Cluster) -> None:
    cluster.add_topic("orders", settings={"flush.messages": "1"})

    node, workers = await restart_after_kill(cluster)

    assert node.partition("orders").high_watermark == 0
    await workers.let_go()
    assert node.partition("orders").high_watermark == 1


async def test_without_a_flush_policy_it_is_visible_at_once(cluster: Cluster) -> None:
    cluster.add_topic("orders")

    node, _ = await restart_after_kill(cluster)

    assert node.partition("orders").high_watermark == 1
