"""One partition: appends, reads, the high watermark, and delayed requests."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from harness.datapath import Cluster, DataNode, make_batch, partition_record
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.records import kernel
from penstock.replication.deletion import delete_records, wait_for_deletion
from penstock.replication.divergence import diverging_epoch
from penstock.replication.partition import Partition
from penstock.replication.purgatory import DelayedFetch
from penstock.storage.log import AppendInfo
from simulator.disk import SimulatedDisk

NOW = 1_700_000_000_000
ALL = -1


def append(partition: Partition, *values: bytes, acks: int = 1, **options: Any) -> AppendInfo:
    return partition.append_as_leader(make_batch(*values, **options), acks=acks, now_ms=NOW)


def values(partition: Partition, offset: int, *, for_replica: bool = False) -> list[bytes | None]:
    piece = partition.read(offset, max_bytes=1 << 20, at_least_one=True, for_replica=for_replica)
    if piece is None:
        return []
    data, found, position = piece.read(), [], 0
    for header in kernel.read_headers(data):
        found += [record.value for record in kernel.iterate_records(data, position)]
        position += header.size_bytes
    return found


def error_of(action: Any) -> ErrorCode:
    with pytest.raises(Refused) as caught:
        action()
    return caught.value.error


class Listener(list[ErrorCode]):
    def __call__(self, error: ErrorCode) -> None:
        self.append(error)


# -- one replica


async def test_with_one_replica_an_append_is_committed_at_once(cluster: Cluster, node: DataNode) -> None:
    cluster.add_topic("orders")
    partition = node.partition()

    info = append(partition, b"a", b"b", acks=ALL)

    assert (info.first_offset, info.last_offset) == (0, 1)
    assert partition.high_watermark == 2
    assert partition.last_stable_offset == 2
    assert values(partition, 0) == [b"a", b"b"]
    assert partition.wait_for_acknowledgement(2, acks=ALL, on_complete=Listener()) is None


async def test_reading_at_the_end_returns_nothing_and_beyond_it_is_refused(
    cluster: Cluster, node: DataNode
) -> None:
    cluster.add_topic("orders")
    partition = node.partition()
    append(partition, b"a")

    assert values(partition, 1) == []
    assert error_of(lambda: values(partition, 2)) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert error_of(lambda: values(partition, -1)) == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_duplicate_returns_the_original_offset_and_is_not_written(
    cluster: Cluster, node: DataNode
) -> None:
    cluster.add_topic("orders")
    partition = node.partition()
    idempotent = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    append(partition, b"x")
    first = append(partition, b"a", **idempotent)

    again = append(partition, b"a", **idempotent)

    assert again.is_duplicate
    assert again.first_offset == first.first_offset == 1
    assert partition.high_watermark == 2


async def test_a_gap_in_sequences_is_refused(cluster: Cluster, node: DataNode) -> None:
    cluster.add_topic("orders")
    partition = node.partition()
    append(partition, b"a", producer_id=5, producer_epoch=0, base_sequence=0)

    refused = error_of(lambda: append(partition, b"c", producer_id=5, producer_epoch=0, base_sequence=7))

    assert refused == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.high_watermark == 1


async def test_an_old_producer_epoch_is_refused(cluster: Cluster, node: DataNode) -> None:
    cluster.add_topic("orders")
    partition = node.partition()
    append(partition, b"a", producer_id=5, producer_epoch=1, base_sequence=0)

    refused = error_of(lambda: append(partition, b"b", producer_id=5, producer_epoch=0, base_sequence=0))

    assert refused == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_a_batch_larger_than_a_segment_is_refused(cluster: Cluster, node: DataNode) -> None:
    cluster.add_topic("orders", settings={"segment.bytes": "1048576", "max.message.bytes": "4000000"})

    refused = error_of(lambda: append(node.partition(), b"x" * 2_000_000))

    assert refused == ErrorCode.RECORD_LIST_TOO_LARGE


# -- leader epochs


async def test_requests_with_another_leader_epoch_are_fenced(cluster: Cluster, node: DataNode) -> None:
    cluster.add_topic("orders")
    cluster.publish(partition_record("orders", 0, leader_epoch=5))
    partition = node.partition()

    partition.check_access(leader_epoch=5, leader_only=True)
    partition.check_access(leader_epoch=-1, leader_only=True)
    older = error_of(lambda: partition.check_access(leader_epoch=4, leader_only=True))
    newer = error_of(lambda: partition.check_access(leader_epoch=6, leader_only=True))

    assert (older, newer) == (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH)


async def test_each_leader_epoch_is_recorded_in_the_log(cluster: Cluster, node: DataNode) -> None:
    cluster.add_topic("orders")
    partition = node.partition()
    append(partition, b"a", b"b")
    cluster.publish(partition_record("orders", 0, leader_epoch=3))
    append(partition, b"c")

    assert partition.log.epoch_end_offset(0) == (0, 2)
    assert partition.log.epoch_end_offset(3) == (3, 3)
    assert diverging_epoch(partition.log, 0, 2) is None
    assert diverging_epoch(partition.log, 0, 3) == (0, 2)
    assert diverging_epoch(partition.log, 2, 2) == (0, 2)
    assert error_of(lambda: diverging_epoch(partition.log, 9, 3)) == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_follower_refuses_appends_and_requests_for_the_leader(
    cluster: Cluster, node: DataNode
) -> None:
    cluster.add_topic("orders", replicas=(2, 1))
    partition = node.partition()

    assert error_of(lambda: append(partition, b"a")) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (
        error_of(lambda: partition.check_access(leader_epoch=-1, leader_only=True))
        == ErrorCode.NOT_LEADER_OR_FOLLOWER
    )
    partition.check_access(leader_epoch=0, leader_only=False)


# -- with followers


def fetched(
    partition: Partition, node_id: int, end_offset: int, *, start_offset: int = 0, epoch: int = 0
) -> None:
    partition.follower_fetched(
        node_id, end_offset=end_offset, start_offset=start_offset, leader_epoch=epoch, now_ms=NOW
    )


async def test_a_record_is_committed_when_every_in_sync_replica_has_it(
    cluster: Cluster, node: DataNode
) -> None:
    cluster.add_topic("orders", replicas=(1, 2, 3))
    partition = node.partition()
    listener = Listener()
    append(partition, b"a", acks=ALL)

    assert partition.wait_for_acknowledgement(1, acks=ALL, on_complete=listener) is not None
    assert partition.wait_for_acknowledgement(1, acks=1, on_complete=listener) is None
    assert values(partition, 0) == []
    assert values(partition, 0, for_replica=True) == [b"a"]

    fetched(partition, 2, 1)
    assert partition.high_watermark == 0
    fetched(partition, 3, 1)

    assert partition.high_watermark == 1
    assert listener == [ErrorCode.NONE]
    assert values(partition, 0) == [b"a"]


async def test_a_replica_that_leaves_the_isr_does_not_hold_the_high_watermark_back(
    cluster: Cluster, node: DataNode
) -> None:
    cluster.add_topic("orders", replicas=(1, 2))
    partition = node.partition()
    append(partition, b"a")
    assert partition.high_watermark == 0

    cluster.publish(partition_record("orders", 0, replicas=(1, 2), isr=(1,)))

    assert partition.high_watermark == 1


async def test_a_fetch_of_a_node_that_is_not_a_replica_is_refused(cluster: Cluster, node: DataNode) -> None:
    cluster.add_topic("orders", replicas=(1, 2))
    partition = node.partition()

    assert error_of(lambda: fetched(partition, 9, 0)) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert error_of(lambda: fetched(partition, 9, 0, epoch=-1)) == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_acks_all_needs_min_insync_replicas(cluster: Cluster, node: DataNode) -> None:
    cluster.add_topic("orders", replicas=(1, 2), isr=(1,), settings={"min.insync.replicas": "2"})
    partition = node.partition()

    assert error_of(lambda: append(partition, b"a", acks=ALL)) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert append(partition, b"a", acks=1).first_offset == 0


async def test_min_insync_replicas_is_bounded_by_the_number_of_replicas(
    cluster: Cluster, node: DataNode
) -> None:
    cluster.add_topic("orders", settings={"min.insync.replicas": "2"})

    assert append(node.partition(), b"a", acks=ALL).first_offset == 0


async def test_too_few_in_sync_replicas_after_the_append_are_an_error(
    cluster: Cluster, node: DataNode
) -> None:
    cluster.add_topic("orders", replicas=(1, 2), settings={"min.insync.replicas": "2"})
    partition = node.partition()
    append(partition, b"a", acks=ALL)
    cluster.publish(partition_record("orders", 0, replicas=(1, 2), isr=(1,)))

    assert partition.commit_error() == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


async def test_losing_the_leadership_fails_all_delayed_requests(cluster: Cluster, node: DataNode) -> None:
    cluster.add_topic("orders", replicas=(1, 2))
    partition = node.partition()
    listener, woken = Listener(), []
    append(partition, b"a", acks=ALL)
    partition.wait_for_acknowledgement(1, acks=ALL, on_complete=listener)
    partition.purgatory.add_fetch(DelayedFetch(1000, lambda: woken.append("look")))

    cluster.publish(partition_record("orders", 0, replicas=(1, 2), leader=2, leader_epoch=1))
    await asyncio.sleep(0)

    assert listener == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert woken == ["look"]


# -- delayed fetches


class Watch:
    """A follower's watch that records its notifications."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def appended(self, size: int) -> None:
        self._told.append("follower")

    def changed(self) -> None:
        self._told.append("follower's high watermark")

    def interrupted(self) -> None:
        self._told.append("interrupted")


async def test_consumers_are_woken_by_what_is_committed_and_followers_by_what_is_written(
    cluster: Cluster, node: DataNode
) -> None:
    cluster.add_topic("orders", replicas=(1, 2))
    partition = node.partition()
    woken: list[str] = []
    partition.purgatory.add_fetch(DelayedFetch(1, lambda: woken.append("consumer")))
    partition.purgatory.watches[Watch(woken)] = None

    append(partition, b"a")
    await asyncio.sleep(0)
    assert woken == ["follower"]

    fetched(partition, 2, 1)
    await asyncio.sleep(0)
    assert woken == ["follower", "follower's high watermark", "consumer"]


# -- flushing


async def test_with_a_flush_policy_nothing_is_acknowledged_before_it_is_synced(
    cluster: Cluster, node: DataNode
) -> None:
    cluster.add_topic("orders", settings={"flush.messages": "1"})
    partition = node.partition()
    done = asyncio.Event()
    listener = Listener()

    append(partition, b"a")

    assert partition.high_watermark == 0
    assert partition.wait_for_acknowledgement(1, acks=1, on_complete=listener) is not None
    assert partition.wait_for_acknowledgement(1, acks=ALL, on_complete=lambda error: done.set()) is not None
    await done.wait()
    assert listener == [ErrorCode.NONE]
    assert partition.high_watermark == partition.log.durability.end_offset == 1


async def test_a_failed_sync_fails_delayed_produce_requests(
    cluster: Cluster, frail_node: DataNode, disk: SimulatedDisk
) -> None:
    cluster.add_topic("orders", settings={"flush.messages": "1"})
    partition = frail_node.partition()
    reported: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
    disk.fail(partition.log.directory, errno.EIO, operations={"sync"})

    append(partition, b"a")
    partition.wait_for_acknowledgement(1, acks=ALL, on_complete=reported.set_result)

    assert await reported == ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.is_offline


async def test_a_disk_that_is_full_takes_its_directory_offline_and_no_other(
    cluster: Cluster, frail_node: DataNode, disk: SimulatedDisk
) -> None:
    cluster.add_topic("orders", partitions=2)
    failing, sound = frail_node.partition(index=0), frail_node.partition(index=1)
    assert failing.log.directory != sound.log.directory
    disk.fail(failing.log.directory, errno.ENOSPC, operations={"append"})

    assert error_of(lambda: append(failing, b"a")) == ErrorCode.KAFKA_STORAGE_ERROR
    assert error_of(lambda: append(failing, b"a")) == ErrorCode.KAFKA_STORAGE_ERROR
    assert error_of(lambda: values(failing, 0)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert append(sound, b"a").first_offset == 0


# -- deleting


async def test_records_are_deleted_up_to_an_offset_or_the_high_watermark(
    cluster: Cluster, node: DataNode
) -> None:
    cluster.add_topic("orders")
    partition = node.partition()
    append(partition, b"a", b"b", b"c")

    assert delete_records(partition, 2) == 2
    assert partition.low_watermark == 2
    assert error_of(lambda: values(partition, 1)) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete_records(partition, -1) == 3
    assert partition.low_watermark == 3


async def test_deleting_past_the_high_watermark_is_refused(cluster: Cluster, node: DataNode) -> None:
    cluster.add_topic("orders", replicas=(1, 2))
    partition = node.partition()
    append(partition, b"a")

    assert error_of(lambda: delete_records(partition, 1)) == ErrorCode.OFFSET_OUT_OF_RANGE
    assert error_of(lambda: delete_records(partition, -2)) == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_topic_that_is_only_compacted_keeps_its_records(cluster: Cluster, node: DataNode) -> None:
    cluster.add_topic("orders", settings={"cleanup.policy": "compact"})

    assert error_of(lambda: delete_records(node.partition(), 0)) == ErrorCode.POLICY_VIOLATION


async def test_a_deletion_completes_when_the_followers_have_deleted_too(
    cluster: Cluster, node: DataNode
) -> None:
    cluster.add_topic("orders", replicas=(1, 2))
    partition = node.partition()
    listener = Listener()
    append(partition, b"a", b"b")
    fetched(partition, 2, 2)

    offset = delete_records(partition, 1)
    assert wait_for_deletion(partition, offset, listener) is not None
    fetched(partition, 2, 2, start_offset=1)

    assert listener == [ErrorCode.NONE]
    assert partition.low_watermark == 1
