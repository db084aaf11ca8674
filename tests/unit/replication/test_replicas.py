"""A leader and its followers over a network: what is committed is on all of them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from harness.datapath import topic_id_of
from harness.partition_transactions import end, write
from harness.replicas import Replicas, values
from penstock.broker.replica_fetch import ReplicaFetch
from penstock.metadata.errors import Refused
from penstock.metadata.records.topics import PartitionChangeRecord, RemoveTopicRecord
from penstock.net.node_connections import NodeConnections
from penstock.net.request_connection import RequestConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID
from penstock.replication.deletion import delete_records
from penstock.replication.truncating import Truncator


def test_followers_copy_what_the_leader_appends() -> None:
    cluster = Replicas()

    async def scenario() -> None:
        cluster.add_topic()
        await asyncio.sleep(0.1)

        await cluster.nodes[1].produce(b"a", b"b")

        assert values(cluster.leader()) == [b"a", b"b"]
        for node_id in (2, 3):
            follower = cluster.nodes[node_id].partition()
            assert values(follower, 2) == [b"a", b"b"]
        await asyncio.sleep(1)
        assert [node.partition().high_watermark for node in cluster.nodes.values()] == [2, 2, 2]
        cluster.check_equal()

    cluster.run(scenario)


def test_a_former_leader_drops_what_was_not_committed() -> None:
    cluster = Replicas()

    async def scenario() -> None:
        cluster.add_topic(settings={"min.insync.replicas": "2"})
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"kept")
        cluster.network.links.partition([["10.0.0.1"], ["10.0.0.2", "10.0.0.3"]])
        cluster.nodes[1].append(b"lost", b"lost too")
        cluster.fence(1)
        await asyncio.sleep(0.1)
        await cluster.nodes[2].produce(b"new")
        assert cluster.nodes[1].partition().log.end_offset == 3

        cluster.network.links.heal()
        cluster.register(1)
        await cluster.until_in_sync()
        await asyncio.sleep(1)

        assert values(cluster.nodes[1].partition()) == [b"kept", b"new"]
        cluster.check_equal()

    cluster.run(scenario)


def test_a_follower_that_stops_fetching_leaves_the_isr_and_joins_again() -> None:
    cluster = Replicas(properties={"replica.lag.time.max.ms": "3000"})

    async def scenario() -> None:
        cluster.add_topic()
        await asyncio.sleep(0.1)
        cluster.network.links.partition([["10.0.0.3"], ["10.0.0.1", "10.0.0.2"]])
        began = cluster.loop.time()

        await cluster.nodes[1].produce(b"a")

        assert 1 <= cluster.loop.time() - began <= 5
        assert cluster.state().isr == (1, 2)
        cluster.network.links.heal()
        await cluster.until_in_sync()
        cluster.check_equal()

    cluster.run(scenario)


def test_an_idle_follower_stays_in_the_isr() -> None:
    cluster = Replicas(properties={"replica.lag.time.max.ms": "1000"})

    async def scenario() -> None:
        cluster.add_topic()
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"a")

        await asyncio.sleep(60)
        cluster.nodes[1].append(b"b")
        await asyncio.sleep(0.6)

        assert not cluster.alter_partition_requests
        assert cluster.leader().high_watermark == 2

    cluster.run(scenario)


def test_a_follower_joins_although_its_broker_registered_after_its_first_fetch() -> None:
    cluster = Replicas()

    async def scenario() -> None:
        cluster.add_topic()
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"a")
        cluster.nodes[3].kill()
        cluster.fence(3)
        await asyncio.sleep(0.5)
        register, cluster.register = cluster.register, lambda node_id: None  # type: ignore[method-assign]
        await cluster.nodes[3].start()
        await asyncio.sleep(5)
        assert cluster.state().isr == (1, 2)

        register(3)

        await cluster.until_in_sync(seconds=2)

    cluster.run(scenario)


def test_a_follower_that_was_away_while_records_were_deleted_starts_where_the_leader_starts() -> None:
    cluster = Replicas()

    async def scenario() -> None:
        cluster.add_topic()
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"a")
        cluster.nodes[3].kill()
        cluster.fence(3)
        await asyncio.sleep(0.1)
        for value in (b"b", b"c", b"d"):
            await cluster.nodes[1].produce(value)
        delete_records(cluster.leader(), 3)

        await cluster.nodes[3].start()
        await cluster.until_in_sync()

        log = cluster.nodes[3].partition().log
        assert (log.start_offset, log.end_offset) == (3, 4)
        assert values(cluster.nodes[3].partition(), 4) == [b"d"]
        cluster.check_equal()

    cluster.run(scenario)


def test_deleted_records_are_deleted_by_followers_too() -> None:
    cluster = Replicas()

    async def scenario() -> None:
        cluster.add_topic()
        await asyncio.sleep(0.1)
        for value in (b"a", b"b", b"c"):
            await cluster.nodes[1].produce(value)

        delete_records(cluster.leader(), 2)
        await cluster.until(lambda: cluster.leader().low_watermark == 2, seconds=3)

        assert [node.partition().log.start_offset for node in cluster.nodes.values()] == [2, 2, 2]

    cluster.run(scenario)


def test_an_unclean_election_truncates_followers_and_says_what_was_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Replicas()

    async def scenario() -> None:
        cluster.add_topic()
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"a")
        cluster.nodes[3].kill()
        cluster.fence(3)
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"b")
        await asyncio.sleep(6)  # the high watermark is checkpointed
        for node_id in (1, 2):
            cluster.nodes[node_id].kill()
        await cluster.nodes[3].start()
        cluster.elect(3, isr=[3])  # unclean
        await asyncio.sleep(0.1)
        await cluster.nodes[3].produce(b"c")
        for node_id in (1, 2):
            await cluster.nodes[node_id].start()

        await cluster.until_in_sync()
        await asyncio.sleep(1)

        assert values(cluster.nodes[1].partition()) == [b"a", b"c"]
        cluster.check_equal()

    with caplog.at_level(logging.WARNING, logger="penstock"):
        cluster.run(scenario)
    lines = [record.getMessage() for record in caplog.records]
    assert "orders-0 was truncated to offset 1, below its high watermark 2" in " ".join(lines)


def test_acks_all_needs_enough_in_sync_replicas() -> None:
    cluster = Replicas()

    async def scenario() -> None:
        cluster.add_topic(settings={"min.insync.replicas": "2"})
        await asyncio.sleep(0.1)
        cluster.nodes[2].kill()
        cluster.nodes[3].kill()
        waiting = asyncio.ensure_future(cluster.nodes[1].produce(b"a"))
        await asyncio.sleep(0.1)
        cluster.fence(2)
        cluster.fence(3)

        with pytest.raises(Refused) as failure:
            await waiting
        assert failure.value.error == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        with pytest.raises(Refused) as failure:
            await cluster.nodes[1].produce(b"b")
        assert failure.value.error == ErrorCode.NOT_ENOUGH_REPLICAS

        assert cluster.leader().high_watermark == 0, "what too few replicas have is not committed"
        await cluster.nodes[2].start()
        await cluster.until(lambda: cluster.leader().high_watermark == 1)

    cluster.run(scenario)


def test_a_corrupt_batch_stops_only_its_partition() -> None:
    cluster = Replicas()

    async def scenario() -> None:
        cluster.add_topic(partitions=2)
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"a", index=0)
        cluster.network.links.partition([["10.0.0.1"], ["10.0.0.2", "10.0.0.3"]])
        await asyncio.sleep(1)
        cluster.nodes[1].append(b"damaged", index=0)
        log = cluster.nodes[1].partition(index=0).log
        path = log.segments.active.path(".log")
        cluster.nodes[1].disk.overwrite(path, log.segments.active.size - 3, b"?")
        cluster.network.links.heal()

        for _ in range(3):
            await cluster.nodes[1].produce(b"fine", index=1)
            await asyncio.sleep(3)

        assert cluster.leader(index=0).high_watermark == 1
        assert cluster.leader(index=1).high_watermark == 3
        cluster.check_equal(index=1)

    cluster.run(scenario)


def test_a_follower_without_disk_space_stops_alone() -> None:
    cluster = Replicas(properties={"replica.lag.time.max.ms": "3000"})

    async def scenario() -> None:
        cluster.add_topic(partitions=2)
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"a", index=0)
        cluster.nodes[3].disk.fail("/data", 28)  # ENOSPC

        await cluster.nodes[1].produce(b"b", index=0)

        assert cluster.nodes[3].partition(index=0).is_offline
        assert set(cluster.state(index=0).isr) == {1, 2}

    cluster.run(scenario)


def test_a_thousand_idle_partitions_cost_nothing_per_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Replicas()
    reads: list[str] = []
    read = ReplicaFetch._read_target

    def counted(fetch: ReplicaFetch, target: object, *arguments: object, **options: object) -> object:
        reads.append(target.topic)  # type: ignore[attr-defined]
        return read(fetch, target, *arguments, **options)  # type: ignore[arg-type]

    async def scenario() -> None:
        cluster.add_topic("idle", partitions=1000)
        cluster.add_topic()
        await asyncio.sleep(5)
        monkeypatch.setattr(ReplicaFetch, "_read_target", counted)

        for _ in range(20):
            await cluster.nodes[1].produce(b"a")
        await asyncio.sleep(5)

        assert len(reads) <= 200  # each record, and its high watermark, for two followers
        assert cluster.nodes[2].partition().high_watermark == 20

    cluster.run(scenario)


def test_a_partition_that_is_added_is_fetched_at_once() -> None:
    cluster = Replicas()

    async def scenario() -> None:
        cluster.add_topic("idle")
        await asyncio.sleep(3.1)
        cluster.add_topic()
        await asyncio.sleep(0.015)  # the metadata has arrived
        began = cluster.loop.time()

        await cluster.nodes[1].produce(b"a")

        assert cluster.loop.time() - began < 0.1, "a fetch without data waits for 500 ms"

    cluster.run(scenario)


def test_a_thousand_partitions_are_truncated_in_one_batch() -> None:
    cluster = Replicas(nodes=(1, 2))

    async def scenario() -> None:
        cluster.add_topic(partitions=1000, replicas=(1, 2))
        await asyncio.sleep(1)
        cluster.network.links.partition([["10.0.0.1"], ["10.0.0.2"]])
        for index in range(1000):
            cluster.nodes[1].append(b"lost", index=index)
        cluster.elect(2, isr=[2])
        await asyncio.sleep(0.1)
        for index in range(1000):
            cluster.nodes[2].append(b"kept", index=index)
        cluster.network.links.heal()

        await cluster.until_in_sync((1, 2))

        for index in range(0, 1000, 97):
            assert values(cluster.nodes[1].partition(index=index), 1) == [b"kept"]

    cluster.run(scenario)


def test_a_new_leader_knows_the_producers_and_the_aborted_transactions() -> None:
    cluster = Replicas()

    async def scenario() -> None:
        cluster.add_topic()
        await asyncio.sleep(0.1)
        batch = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        end_offset = await cluster.nodes[1].produce(b"a", **batch)
        await asyncio.sleep(1)
        cluster.elect(2)
        await asyncio.sleep(0.1)

        assert await cluster.nodes[2].produce(b"a", **batch) == end_offset
        assert values(cluster.leader()) == [b"a"]

    cluster.run(scenario)


def test_a_follower_with_a_flush_policy_acknowledges_only_what_is_synced() -> None:
    cluster = Replicas(nodes=(1, 2))

    async def scenario() -> None:
        cluster.add_topic(replicas=(1, 2), settings={"flush.messages": "1"})
        await asyncio.sleep(0.1)
        for value in (b"a", b"b", b"c"):
            await cluster.nodes[1].produce(value)

        cluster.nodes[1].lose_power()
        cluster.nodes[2].lose_power()
        await cluster.nodes[2].start()
        cluster.elect(2, isr=[2])
        await asyncio.sleep(0.1)

        await cluster.until(lambda: cluster.leader().high_watermark >= 3)
        assert values(cluster.leader())[:3] == [b"a", b"b", b"c"]

    cluster.run(scenario)


def test_a_follower_with_a_flush_policy_does_not_acknowledge_an_unsynced_log_after_a_kill() -> None:
    cluster = Replicas(nodes=(1, 2))

    async def scenario() -> None:
        cluster.add_topic(replicas=(1, 2), settings={"flush.messages": "1"})
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"a")
        cluster.nodes[1].append(b"b")
        await cluster.until(lambda: cluster.nodes[2].partition().log.end_offset == 2)
        cluster.nodes[2].kill()
        cluster.nodes[2].disk.fail("/data/orders-0", 5, operations=["sync"])
        await asyncio.sleep(0.2)
        assert cluster.leader().high_watermark == 1

        await cluster.nodes[2].start()
        await asyncio.sleep(5)

        assert cluster.leader().high_watermark == 1

    cluster.run(scenario)


def test_a_request_that_is_sent_before_the_connecting_task_goes_on_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A partition that was added at that moment sent a request whose response could not be applied."""
    cluster = Replicas()
    connect = NodeConnections.connect

    async def connect_and_add(connections: NodeConnections, *arguments: Any) -> RequestConnection:
        connection = await connect(connections, *arguments)
        for node in cluster.nodes.values():
            if node.connections is connections:
                for fetcher in node.fetchers._fetchers.values():
                    fetcher._pump()
        return connection

    monkeypatch.setattr(NodeConnections, "connect", connect_and_add)

    async def scenario() -> None:
        cluster.add_topic()
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"a")

    cluster.run(scenario)
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


# -- a leader's log that starts inside a batch


def test_a_follower_copies_a_log_that_starts_inside_a_batch() -> None:
    cluster = Replicas()

    async def scenario() -> None:
        cluster.add_topic()
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"a")
        cluster.nodes[3].kill()
        cluster.fence(3)
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"b", b"c", b"d", b"e")  # one batch, offsets 1 to 4
        delete_records(cluster.leader(), 3)

        await cluster.nodes[3].start()
        await cluster.until_in_sync()

        log = cluster.nodes[3].partition().log
        assert (log.start_offset, log.end_offset) == (3, 5)
        assert log.epochs.entries()[0][1] == 3
        cluster.check_equal()
        cluster.nodes[3].kill()
        await cluster.nodes[3].start()
        await cluster.nodes[1].produce(b"f")
        await cluster.until_in_sync()
        cluster.check_equal()

    cluster.run(scenario)


def test_a_new_replica_copies_a_log_that_starts_inside_a_batch() -> None:
    cluster = Replicas()

    async def scenario() -> None:
        cluster.add_topic(replicas=(1, 2))
        await asyncio.sleep(0.1)
        await cluster.nodes[1].produce(b"a", b"b", b"c", b"d")
        delete_records(cluster.leader(), 2)
        await asyncio.sleep(1)

        cluster.publish(
            PartitionChangeRecord(
                partition_id=0,
                topic_id=topic_id_of("orders"),
                replicas=[1, 2, 3],
                adding_replicas=[3],
                directories=[ZERO_UUID] * 3,
            )
        )
        await cluster.until_in_sync()

        log = cluster.nodes[3].partition().log
        assert (log.start_offset, log.end_offset) == (2, 4)
        cluster.check_equal()

    cluster.run(scenario)


def test_a_follower_that_starts_again_has_no_transaction_of_deleted_records() -> None:
    """It would keep the last stable offset back for good, once it leads."""
    cluster = Replicas()

    async def scenario() -> None:
        cluster.add_topic()
        await asyncio.sleep(0.1)
        first, third = cluster.nodes[1], cluster.nodes[3]
        first.process.context.copy().run(lambda: write(cluster.leader(), 7, 0))
        await asyncio.sleep(1)
        await cluster.loop.create_task(third.logs.close(), context=third.process.context)  # cleanly
        third.kill()
        cluster.fence(3)
        await asyncio.sleep(0.1)
        first.process.context.copy().run(lambda: end(cluster.leader(), 7))
        await first.produce(b"x")
        delete_records(cluster.leader(), await first.produce(b"y") - 1)

        await third.start()
        await cluster.until_in_sync()
        await asyncio.sleep(1)
        cluster.elect(3)
        await asyncio.sleep(1)
        await third.produce(b"z")

        leader = cluster.leader()
        assert leader.node_id == 3
        assert leader.last_stable_offset == leader.high_watermark

    cluster.run(scenario)


def test_truncations_finish_when_a_topic_among_them_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Replicas(nodes=(1, 2))
    begin_some = Truncator._begin_some
    deleted: list[str] = []

    def delete_between(truncator: Truncator) -> None:
        begin_some(truncator)
        if truncator._wanted and not deleted:
            deleted.append("gone")
            cluster.publish(RemoveTopicRecord(topic_id=topic_id_of("gone")))

    async def scenario() -> None:
        cluster.add_topic("gone", partitions=1, replicas=(1, 2))
        cluster.add_topic(partitions=40, replicas=(1, 2))
        await asyncio.sleep(1)
        cluster.network.links.partition([["10.0.0.1"], ["10.0.0.2"]])
        places = [("gone", 0), *(("orders", index) for index in range(40))]
        for topic, index in places:
            cluster.nodes[1].append(b"lost", topic=topic, index=index)
        for topic in ("gone", "orders"):
            cluster.elect(2, isr=[2], topic=topic)
        await asyncio.sleep(0.1)
        for topic, index in places:
            cluster.nodes[2].append(b"kept", topic=topic, index=index)
        monkeypatch.setattr(Truncator, "_begin_some", delete_between)

        cluster.network.links.heal()
        await cluster.until_in_sync((1, 2))

        assert deleted
        assert [each for each in cluster.nodes[1].table.all() if each.log.refusal is not None] == []

    cluster.run(scenario)
