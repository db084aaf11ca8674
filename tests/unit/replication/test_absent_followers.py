"""Followers that do not fetch: they stay out of the ISR, and the high watermark does not wait for them."""

from __future__ import annotations

import asyncio
import errno

import pytest

from harness.datapath import topic_id_of, topic_setting
from harness.replicas import Replicas
from penstock.metadata.errors import Refused
from penstock.metadata.records.brokers import BrokerRegistrationChangeRecord
from penstock.metadata.records.topics import PartitionChangeRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition import (
    AlterPartitionRequestPartition,
    AlterPartitionResponsePartition,
)
from penstock.protocol.types import Uuid

TWO_IN_SYNC = {"min.insync.replicas": "2"}
SHORT_LAG = {"replica.lag.time.max.ms": "2000"}


def remove_from_isr(cluster: Replicas, node_id: int) -> None:
    """As the controller does, for example because a log directory failed."""
    isr = [each for each in cluster.state().isr if each != node_id]
    cluster.publish(PartitionChangeRecord(partition_id=0, topic_id=topic_id_of("orders"), isr=isr))


def test_a_replica_in_a_failed_log_directory_does_not_join_the_isr_again() -> None:
    cluster = Replicas()

    async def scenario() -> None:
        cluster.add_topic(settings=TWO_IN_SYNC)
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"a")
        await asyncio.sleep(1)
        node = cluster.nodes[3]
        io = node.partition().log.io
        node.process.context.copy().run(lambda: io.fail(OSError(errno.EIO, "broken"), "reading"))

        remove_from_isr(cluster, 3)
        await asyncio.sleep(1)

        assert cluster.state().isr == (1, 2)

    cluster.run(scenario)


def test_a_killed_broker_that_is_not_fenced_yet_does_not_join_the_isr_again() -> None:
    """A broker with many partitions leaves its ISRs in portions, and is fenced with the last one."""
    cluster = Replicas()

    async def scenario() -> None:
        cluster.add_topic(settings=TWO_IN_SYNC)
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"a")
        await asyncio.sleep(1)
        cluster.nodes[3].kill()

        remove_from_isr(cluster, 3)
        await asyncio.sleep(0.1)

        assert cluster.state().isr == (1, 2)

    cluster.run(scenario)


def test_a_live_follower_of_an_idle_partition_joins_the_isr_again() -> None:
    cluster = Replicas()

    async def scenario() -> None:
        cluster.add_topic(settings=TWO_IN_SYNC)
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"a")
        await asyncio.sleep(1)

        cluster.fence(3)
        await asyncio.sleep(2)
        assert cluster.state().isr == (1, 2)
        cluster.register(3)
        await asyncio.sleep(2)

        assert cluster.state().isr == (1, 2, 3)

    cluster.run(scenario)


def test_the_isr_does_not_flap_while_a_follower_cannot_reach_its_leader() -> None:
    cluster = Replicas(nodes=(1, 2), properties=SHORT_LAG)

    async def scenario() -> None:
        cluster.add_topic(replicas=(1, 2), settings=TWO_IN_SYNC)
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"a")
        cluster.network.links.partition([["10.0.0.1"], ["10.0.0.2"]])
        cluster.nodes[1].append(b"b")

        await asyncio.sleep(30)

        assert cluster.leader().isr == (1,)
        assert len(cluster.alter_partition_requests) == 1
        with pytest.raises(Refused) as caught:
            cluster.nodes[1].append(b"c")
        assert caught.value.error is ErrorCode.NOT_ENOUGH_REPLICAS

    cluster.run(scenario)


def test_the_high_watermark_moves_when_a_follower_that_was_about_to_join_stops_fetching(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Replicas(properties=SHORT_LAG)
    alter = cluster._alter

    def refuse_node_3(
        leader: int, topic_id: Uuid, wanted: AlterPartitionRequestPartition
    ) -> AlterPartitionResponsePartition:
        if any(member.broker_id == 3 for member in wanted.new_isr_with_epochs):
            return AlterPartitionResponsePartition(
                partition_index=wanted.partition_index,
                error_code=ErrorCode.INELIGIBLE_REPLICA,
                leader_id=0,
                leader_epoch=0,
                isr=[],
                partition_epoch=0,
            )
        return alter(leader, topic_id, wanted)

    async def scenario() -> None:
        cluster.add_topic(settings=TWO_IN_SYNC)
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"a")
        cluster.nodes[3].kill()
        cluster.fence(3)
        await asyncio.sleep(0.1)
        monkeypatch.setattr(cluster, "_alter", refuse_node_3)
        await cluster.nodes[3].start()
        await cluster.until(lambda: bool(cluster.alter_partition_requests))
        await asyncio.sleep(0.2)

        cluster.nodes[3].kill()
        cluster.nodes[1].append(b"b")  # before the leader knows that node 3 is fenced
        cluster.fence(3)
        await asyncio.sleep(60)

        assert cluster.leader().isr == (1, 2)
        assert cluster.leader().high_watermark == 2

    cluster.run(scenario)


def test_the_high_watermark_moves_when_min_insync_replicas_is_lowered() -> None:
    cluster = Replicas()

    async def scenario() -> None:
        cluster.add_topic(settings=TWO_IN_SYNC)
        await asyncio.sleep(0.1)
        for node_id in (2, 3):
            cluster.nodes[node_id].kill()
            cluster.fence(node_id)
        await asyncio.sleep(0.1)
        cluster.nodes[1].append(b"a", acks=1)
        assert cluster.leader().high_watermark == 0

        cluster.publish(topic_setting("orders", "min.insync.replicas", "1"))
        await asyncio.sleep(0.1)

        assert cluster.leader().high_watermark == 1

    cluster.run(scenario)


def test_acks_all_does_not_wait_for_a_dead_broker_that_left_the_isr_and_is_fenced_later() -> None:
    cluster = Replicas()

    async def scenario() -> None:
        cluster.add_topic(settings=TWO_IN_SYNC)
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"a")
        cluster.nodes[3].kill()
        waiting = asyncio.ensure_future(cluster.nodes[1].produce(b"b", timeout_s=100))
        await asyncio.sleep(0.5)

        remove_from_isr(cluster, 3)
        await asyncio.sleep(0.1)

        assert waiting.done()
        epoch = cluster.image.brokers[3].epoch
        cluster.publish(BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=epoch, fenced=1))
        await waiting
        assert cluster.leader().high_watermark == 2

    cluster.run(scenario)
