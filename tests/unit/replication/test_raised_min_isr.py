"""`min.insync.replicas` is raised just before the ISR shrinks.

The controller knows the new minimum, so a follower that leaves the ISR becomes an eligible leader replica (KIP-966),
which may be elected cleanly. The leader must not acknowledge a record that this follower lacks: it must never combine
the smaller ISR with the old minimum.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from harness.datapath import Cluster, DataNode, make_batch, topic_id_of, topic_setting
from harness.replicas import Replicas
from penstock.metadata.records.topics import PartitionChangeRecord
from penstock.node.applying import SLICE_PARTITIONS, MetadataApplier

RAISED = topic_setting("orders", "min.insync.replicas", "2")


def shrunk(index: int = 0) -> PartitionChangeRecord:
    """What the controller writes when broker 2 is fenced."""
    return PartitionChangeRecord(
        partition_id=index, topic_id=topic_id_of("orders"), isr=[1], eligible_leader_replicas=[2]
    )


def run(then: Callable[[Replicas], Awaitable[None]]) -> None:
    """Broker 2 has the first record and is cut off, so it lacks the second one. Then, nothing may acknowledge it."""
    cluster = Replicas(nodes=(1, 2), properties={"replica.lag.time.max.ms": "2000"})

    async def scenario() -> None:
        cluster.add_topic(replicas=(1, 2), settings={"min.insync.replicas": "1"})
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"a")
        cluster.network.links.partition([["10.0.0.1"], ["10.0.0.2"]])
        waiting = asyncio.ensure_future(cluster.nodes[1].produce(b"b", timeout_s=100))
        await asyncio.sleep(0.1)

        await then(cluster)
        await asyncio.sleep(0.5)

        assert not waiting.done() or waiting.exception() is not None, "the record is acknowledged"
        assert cluster.leader().high_watermark == cluster.nodes[2].partition().log.end_offset == 1
        waiting.cancel()

    cluster.run(scenario)


@pytest.mark.parametrize("is_one_delta", [False, True])  # two deltas are the plain case
def test_both_changes_come_with_the_metadata(is_one_delta: bool) -> None:
    async def then(cluster: Replicas) -> None:
        if is_one_delta:
            cluster.publish(RAISED, shrunk())
        else:
            cluster.publish(RAISED)
            cluster.publish(shrunk())

    run(then)


def test_the_response_to_alter_partition_overtakes_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    async def then(cluster: Replicas) -> None:
        monkeypatch.setattr(cluster.nodes[1], "metadata_committed", lambda delay_s: None)
        cluster.publish(RAISED)
        await cluster.until(lambda: cluster.state().isr == (1,))

    run(then)


async def test_the_metadata_is_applied_in_slices(cluster: Cluster, node: DataNode) -> None:
    cluster.metadata.unsubscribe(node.partitions.apply)
    failures: list[Exception] = []
    applier = MetadataApplier(
        cluster.metadata, parts=(node.partitions.apply,), after=lambda _: None, failed=failures.append
    )
    await applier.start()
    count = SLICE_PARTITIONS + 10
    cluster.add_topic("orders", partitions=count, replicas=(1, 2), settings={"min.insync.replicas": "1"})
    await applier.settled()
    node.partition("orders", 0).append_as_leader(make_batch(b"a"), acks=-1, now_ms=1)

    cluster.publish(RAISED, *[shrunk(index) for index in range(count)])
    await applier.settled()

    assert not failures
    assert node.partition("orders", 0).high_watermark == 0, "broker 2 does not have the record"
    await applier.close()
    cluster.metadata.subscribe(node.partitions.apply)
