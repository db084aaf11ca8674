"""Transactions in a partition: how they begin and end, and what read_committed consumers see."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.datapath import Cluster, DataNode, make_batch, partition_record
from harness.partition_transactions import NOW, end, transactional, write
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.records import kernel
from penstock.records.batch import TimestampType
from penstock.records.control import EndTransactionMarker, read_end_transaction
from penstock.replication.deletion import delete_records
from penstock.replication.partition import Partition
from penstock.replication.purgatory import DelayedFetch
from penstock.replication.transactions import needs_verification, start_verification
from penstock.storage.log import AppendInfo


@pytest.fixture
def partition(cluster: Cluster, node: DataNode) -> Partition:
    cluster.add_topic("orders")
    return node.partition()


def committed_offsets(partition: Partition, offset: int = 0) -> list[int]:
    """Of all batches that one read_committed read returns."""
    piece = partition.read(offset, max_bytes=1 << 20, at_least_one=True, read_committed=True)
    return [] if piece is None else [header.base_offset for header in kernel.read_headers(piece.read())]


def error_of(action: Any) -> ErrorCode:
    with pytest.raises(Refused) as caught:
        action()
    return caught.value.error


# -- beginning


async def test_a_batch_that_begins_a_transaction_needs_a_valid_guard(partition: Partition) -> None:
    def begin(guard: Any = None) -> AppendInfo:
        return partition.append_as_leader(transactional(7, 0), acks=1, now_ms=NOW, guard=guard)

    assert needs_verification(partition, 7)
    assert error_of(begin) == ErrorCode.INVALID_TXN_STATE
    overtaken = start_verification(partition, 7, 0, 0)
    end(partition, 7, is_commit=False)
    assert error_of(lambda: begin(overtaken)) == ErrorCode.INVALID_TXN_STATE

    begin(start_verification(partition, 7, 0, 0))

    assert not needs_verification(partition, 7)
    assert needs_verification(partition, 7, 1), "a newer epoch is another transaction"
    partition.append_as_leader(transactional(7, 1), acks=1, now_ms=NOW)


async def test_validated_batches_need_a_guard_too(partition: Partition) -> None:
    batch = transactional(7, 0)
    headers = [kernel.read_header(batch, 0)]

    refused = error_of(lambda: partition.append_validated(batch, headers, acks=1, now_ms=NOW))
    assert refused == ErrorCode.INVALID_TXN_STATE

    partition.append_validated(
        batch, headers, acks=1, now_ms=NOW, guard=start_verification(partition, 7, 0, 0)
    )
    assert partition.log.end_offset == 1


async def test_an_older_epoch_gets_no_guard(partition: Partition) -> None:
    write(partition, 7, 0, epoch=4)

    assert error_of(lambda: start_verification(partition, 7, 3, 0)) == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_with_transaction_version_2_an_unknown_producer_begins_at_zero(partition: Partition) -> None:
    guard = start_verification(partition, 7, 0, 5, is_version_2=True)

    refused = error_of(
        lambda: partition.append_as_leader(transactional(7, 5), acks=1, now_ms=NOW, guard=guard)
    )

    assert refused == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_a_producer_with_an_open_transaction_cannot_write_outside_it(partition: Partition) -> None:
    write(partition, 7, 0)
    plain = make_batch(b"x", producer_id=7, producer_epoch=0, base_sequence=1, timestamp=NOW)

    assert (
        error_of(lambda: partition.append_as_leader(plain, acks=1, now_ms=NOW)) == ErrorCode.INVALID_TXN_STATE
    )


# -- ending


@pytest.mark.parametrize("is_commit", [True, False])
async def test_a_marker_is_a_control_batch_of_its_own(partition: Partition, is_commit: bool) -> None:
    write(partition, 7, 0, epoch=2)

    info = end(partition, 7, epoch=3, is_commit=is_commit, coordinator_epoch=5, version=2)

    assert (info.first_offset, info.last_offset, info.is_duplicate) == (1, 1, False)
    piece = partition.read(1, max_bytes=1000, at_least_one=True)
    assert piece is not None
    header = kernel.check_batch(piece.read(), 0)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
    assert (header.base_offset, header.leader_epoch, header.max_timestamp) == (1, 0, NOW)
    [record] = kernel.iterate_records(piece.read(), 0)
    assert read_end_transaction(record) == EndTransactionMarker(is_commit, 5)
    assert needs_verification(partition, 7)


async def test_a_marker_has_the_timestamp_type_of_its_topic(cluster: Cluster, node: DataNode) -> None:
    cluster.add_topic("stamped", settings={"message.timestamp.type": "LogAppendTime"})
    partition = node.partition("stamped")
    write(partition, 7, 0)

    info = end(partition, 7)

    assert info.append_time_ms == NOW
    piece = partition.read(1, max_bytes=1000, at_least_one=True)
    assert piece is not None
    assert kernel.check_batch(piece.read(), 0).timestamp_type == TimestampType.LOG_APPEND_TIME


async def test_markers_of_older_producers_and_coordinators_are_refused(partition: Partition) -> None:
    write(partition, 7, 0, epoch=4)
    end_offset = partition.log.end_offset

    assert error_of(lambda: end(partition, 7, epoch=3)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert error_of(lambda: end(partition, 7, epoch=4, version=2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    end(partition, 7, epoch=4, coordinator_epoch=6)
    fenced = error_of(lambda: end(partition, 7, epoch=4, coordinator_epoch=5))
    assert fenced == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert partition.log.end_offset == end_offset + 1


async def test_only_the_leader_writes_markers_and_not_with_too_few_replicas(
    cluster: Cluster, node: DataNode
) -> None:
    cluster.add_topic("orders", replicas=(1, 2), isr=(1,), settings={"min.insync.replicas": "2"})
    partition = node.partition()
    assert error_of(lambda: end(partition, 7)) == ErrorCode.NOT_ENOUGH_REPLICAS

    cluster.publish(partition_record("orders", 0, replicas=(1, 2), leader=2, leader_epoch=1))

    assert error_of(lambda: end(partition, 7)) == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_after_a_marker_of_the_second_version_the_next_epoch_begins_at_zero(
    partition: Partition,
) -> None:
    write(partition, 7, 0)
    write(partition, 7, 1)
    end(partition, 7, epoch=1, version=2)

    assert error_of(lambda: write(partition, 7, 2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert error_of(lambda: write(partition, 7, 2, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    end(partition, 7, epoch=1, version=2)  # invalidates the guard that was taken for sequence 2
    write(partition, 7, 0, epoch=1)


# -- reading


async def test_read_committed_stops_at_the_earliest_open_transaction(
    partition: Partition,
) -> None:
    partition.append_as_leader(make_batch(b"plain", timestamp=NOW), acks=1, now_ms=NOW)
    write(partition, 7, 0)
    write(partition, 8, 0)
    assert (partition.high_watermark, partition.last_stable_offset) == (3, 1)
    assert committed_offsets(partition) == [0]

    end(partition, 8)
    assert partition.last_stable_offset == 1
    end(partition, 7)

    assert partition.last_stable_offset == partition.high_watermark == 5
    assert committed_offsets(partition) == [0, 1, 2, 3, 4]


async def test_a_marker_that_is_not_committed_does_not_move_the_last_stable_offset(
    cluster: Cluster, node: DataNode
) -> None:
    cluster.add_topic("orders", replicas=(1, 2))
    partition = node.partition()

    def copied(end_offset: int) -> None:
        partition.follower_fetched(2, end_offset=end_offset, start_offset=0, leader_epoch=0, now_ms=NOW)

    write(partition, 7, 0)
    end(partition, 7)
    copied(1)
    assert (partition.high_watermark, partition.last_stable_offset) == (1, 0)
    assert committed_offsets(partition) == []

    copied(2)

    assert (partition.high_watermark, partition.last_stable_offset) == (2, 2)
    assert committed_offsets(partition) == [0, 1]


async def test_the_rest_of_an_open_transaction_that_began_before_the_log_start_offset_is_not_visible(
    partition: Partition,
) -> None:
    for sequence in range(3):
        write(partition, 7, sequence)

    delete_records(partition, 2)

    assert partition.last_stable_offset == 2
    assert committed_offsets(partition, 2) == []
    end(partition, 7)
    assert partition.last_stable_offset == 4


# -- waiting


class Woken:
    """A read_committed fetch that waits for `missing_bytes`."""

    def __init__(self, partition: Partition, missing_bytes: int) -> None:
        self.count = 0
        self.wait = DelayedFetch(missing_bytes, self._wake)
        partition.purgatory.add_fetch(self.wait, read_committed=True)

    def _wake(self) -> None:
        self.count += 1

    async def times(self) -> int:
        await asyncio.sleep(0)
        return self.count


async def test_a_marker_wakes_read_committed_fetches(partition: Partition) -> None:
    write(partition, 7, 0, value=b"x" * 1000)
    reader = Woken(partition, 1000)
    write(partition, 7, 1, value=b"x" * 1000)
    assert await reader.times() == 0, "bytes that it may not see are none"

    end(partition, 7)

    assert await reader.times() == 1


async def test_without_transactions_read_committed_fetches_count_bytes(
    partition: Partition,
) -> None:
    reader = Woken(partition, 1000)
    partition.append_as_leader(make_batch(b"x" * 500, timestamp=NOW), acks=1, now_ms=NOW)
    assert await reader.times() == 0

    partition.append_as_leader(make_batch(b"x" * 500, timestamp=NOW), acks=1, now_ms=NOW)

    assert await reader.times() == 1


async def test_records_before_an_open_transaction_wake_read_committed_fetches(
    cluster: Cluster, node: DataNode
) -> None:
    cluster.add_topic("orders", replicas=(1, 2))
    partition = node.partition()
    partition.append_as_leader(make_batch(b"x", timestamp=NOW), acks=1, now_ms=NOW)
    write(partition, 7, 0)
    reader = Woken(partition, 1)

    partition.follower_fetched(2, end_offset=2, start_offset=0, leader_epoch=0, now_ms=NOW)

    assert await reader.times() == 1
    assert committed_offsets(partition) == [0]


async def test_deleting_an_open_transaction_wakes_read_committed_fetches(partition: Partition) -> None:
    write(partition, 7, 0)
    reader = Woken(partition, 1)

    delete_records(partition, 1)

    assert await reader.times() == 1


async def test_a_removed_read_committed_fetch_is_not_woken(partition: Partition) -> None:
    reader = Woken(partition, 1)
    partition.purgatory.remove_fetch(reader.wait)

    partition.append_as_leader(make_batch(b"x", timestamp=NOW), acks=1, now_ms=NOW)

    assert await reader.times() == 0


async def test_a_change_of_leader_wakes_read_committed_fetches(cluster: Cluster, node: DataNode) -> None:
    cluster.add_topic("orders", replicas=(1, 2))
    reader = Woken(node.partition(), 1)

    cluster.publish(partition_record("orders", 0, replicas=(1, 2), leader=2, leader_epoch=1))

    assert await reader.times() == 1
