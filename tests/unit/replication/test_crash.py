"""Acknowledged records survive a power cut at any moment, if there is a flush policy; one seed per case."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from harness.datapath import NODE_ID, Cluster, DataNode, make_batch
from penstock.protocol.errors import ErrorCode
from penstock.records import kernel
from penstock.replication.partition import Partition
from penstock.runtime import Runtime
from simulator.disk import SimulatedDisk
from simulator.loop import VirtualClock, VirtualLoop, run_virtual
from simulator.workers import SimulatedWorkers

BATCHES = 40
ALL = -1


class Acknowledged(list[int]):
    """The values of batches that were acknowledged."""

    def listener(self, value: int) -> Any:
        def acknowledge(error: ErrorCode) -> None:
            if error == ErrorCode.NONE:
                self.append(value)

        return acknowledge


@pytest.mark.parametrize("acks", [1, ALL])
@pytest.mark.parametrize("seed", range(25))
def test_no_acknowledged_record_is_lost_or_duplicated(seed: int, acks: int) -> None:
    rng = random.Random(seed)
    disk = SimulatedDisk()
    cluster = Cluster()
    cluster.add_broker(NODE_ID)
    cluster.add_topic("orders", settings={"flush.messages": "1", "segment.bytes": "1048576"})
    acknowledged = Acknowledged()

    async def write_until_the_power_fails(loop: VirtualLoop) -> None:
        workers = SimulatedWorkers(rng)
        node = DataNode(cluster, ["/data"], make_runtime(loop, disk, workers, rng))
        await node.start()
        partition = node.partition()
        for value in range(rng.randrange(1, BATCHES)):
            batch = make_batch(b"%d" % value, bytes(rng.randrange(200_000)), timestamp=value)
            info = partition.append_as_leader(batch, acks=acks, now_ms=value)
            listener = acknowledged.listener(value)
            if (
                partition.wait_for_acknowledgement(info.last_offset + 1, acks=acks, on_complete=listener)
                is None
            ):
                acknowledged.append(value)
            await asyncio.sleep(rng.uniform(0, 0.01))
        workers.kill()

    run_virtual(loop := VirtualLoop(), write_until_the_power_fails(loop))
    disk.crash(rng)

    async def read_what_is_left(loop: VirtualLoop) -> list[int]:
        node = DataNode(cluster, ["/data"], make_runtime(loop, disk, SimulatedWorkers(rng), rng))
        await node.start()
        await node.partition().log.flush()  # recovered records are not visible before they are synced
        found = values(node.partition())
        await node.stop()
        return found

    left = run_virtual(loop := VirtualLoop(), read_what_is_left(loop))
    assert left == list(range(len(left))), f"seed {seed}: records are missing, out of order or twice"
    assert set(acknowledged) <= set(left), f"seed {seed}: an acknowledged record is lost"


def make_runtime(
    loop: VirtualLoop, disk: SimulatedDisk, workers: SimulatedWorkers, rng: random.Random
) -> Runtime:
    nothing: Any = None
    return Runtime(clock=VirtualClock(loop), random=rng, disk=disk, network=nothing, workers=workers)


def values(partition: Partition) -> list[int]:
    """The first value of every batch that a consumer sees."""
    found: list[int] = []
    offset = partition.log.start_offset
    while (piece := partition.read(offset, max_bytes=1 << 20, at_least_one=True)) is not None:
        data, position = piece.read(), 0
        for header in kernel.read_headers(data):
            first = next(iter(kernel.iterate_records(data, position)))
            assert first.value is not None
            found.append(int(first.value))
            position += header.size_bytes
            offset = header.next_offset
    return found
