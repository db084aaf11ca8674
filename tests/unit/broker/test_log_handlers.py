"""Handlers over partitions and their logs: OffsetForLeaderEpoch, DeleteRecords, DescribeProducers, DescribeLogDirs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.datapath import Cluster, DataNode, make_batch, partition_record
from harness.partition_transactions import end, write
from penstock.broker.handlers import (
    delete_records,
    describe_log_dirs,
    describe_producers,
    offset_for_leader_epoch,
)
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from penstock.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from penstock.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

NOW = 1_700_000_000_000
Context = Callable[..., Any]


def append(node: DataNode, *values: bytes, topic: str = "orders", **options: Any) -> int:
    batch = make_batch(*values, **options)
    node.partition(topic).append_as_leader(batch, acks=1, now_ms=NOW)
    return len(batch)


# -- OffsetForLeaderEpoch


@pytest.mark.parametrize(
    ("epoch", "current", "expected"),
    [
        (0, -1, (ErrorCode.NONE, 0, 2)),
        (1, -1, (ErrorCode.NONE, 0, 2)),
        (3, 3, (ErrorCode.NONE, 3, 3)),
        (4, -1, (ErrorCode.NONE, -1, -1)),
        (-1, -1, (ErrorCode.NONE, -1, -1)),
        (0, 2, (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)),
        (0, 4, (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)),
    ],
)
async def test_where_an_epoch_ended(
    cluster: Cluster,
    node: DataNode,
    context: Context,
    epoch: int,
    current: int,
    expected: tuple[ErrorCode, int, int],
) -> None:
    append(node, b"a", b"b")
    cluster.publish(partition_record("orders", 0, leader_epoch=3))
    append(node, b"c")
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="orders", partitions=[wanted])])

    (answer,) = offset_for_leader_epoch.handle(node.broker, request, context(version=4)).topics[0].partitions

    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == expected


async def test_epochs_of_an_unknown_partition(node: DataNode, context: Context) -> None:
    wanted = OffsetForLeaderPartition(partition=3, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="orders", partitions=[wanted])])

    (answer,) = offset_for_leader_epoch.handle(node.broker, request, context(version=4)).topics[0].partitions

    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# -- DeleteRecords


def delete(
    offset: int, *, topic: str = "orders", index: int = 0, timeout_ms: int = 60_000
) -> DeleteRecordsRequest:
    partition = DeleteRecordsPartition(partition_index=index, offset=offset)
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=timeout_ms
    )


def deleted(response: Any) -> DeleteRecordsPartitionResult:
    (topic,) = response.topics
    (partition,) = topic.partitions
    assert isinstance(partition, DeleteRecordsPartitionResult)
    return partition


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (1, (ErrorCode.NONE, 1)),
        (-1, (ErrorCode.NONE, 3)),
        (0, (ErrorCode.NONE, 0)),
        (4, (ErrorCode.OFFSET_OUT_OF_RANGE, -1)),
        (-2, (ErrorCode.OFFSET_OUT_OF_RANGE, -1)),
    ],
)
async def test_records_are_deleted_below_an_offset(
    node: DataNode, context: Context, offset: int, expected: tuple[ErrorCode, int]
) -> None:
    append(node, b"a", b"b", b"c")

    answer = deleted(delete_records.handle(node.broker, delete(offset), context(version=2)))

    assert (answer.error_code, answer.low_watermark) == expected


async def test_deleting_the_same_records_again_changes_nothing(node: DataNode, context: Context) -> None:
    append(node, b"a", b"b", b"c")
    delete_records.handle(node.broker, delete(2), context(version=2))

    answer = deleted(delete_records.handle(node.broker, delete(1), context(version=2)))

    assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 2)


async def test_records_of_internal_and_unknown_topics_are_not_deleted(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_topic("__consumer_offsets")

    internal = deleted(
        delete_records.handle(node.broker, delete(0, topic="__consumer_offsets"), context(version=2))
    )
    unknown = deleted(delete_records.handle(node.broker, delete(0, index=9), context(version=2)))

    assert internal.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_deleting_waits_for_the_replicas_up_to_the_timeout(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_topic("copied", replicas=(1, 2))
    partition = node.partition("copied")
    append(node, b"a", b"b", topic="copied")
    partition.follower_fetched(2, end_offset=2, start_offset=0, leader_epoch=0, now_ms=NOW)

    late = delete_records.handle(node.broker, delete(1, topic="copied", timeout_ms=0), context(version=2))
    waiting = delete_records.handle(node.broker, delete(1, topic="copied"), context(version=2))
    assert isinstance(waiting, asyncio.Future)
    assert deleted(await late).error_code == ErrorCode.REQUEST_TIMED_OUT
    gone = delete_records.handle(node.broker, delete(1, topic="copied"), context(version=2))
    assert isinstance(gone, asyncio.Future)
    gone.cancel()
    await asyncio.sleep(0)
    assert len(partition.purgatory.deletions) == 1, "only the one that still waits"
    partition.follower_fetched(2, end_offset=2, start_offset=1, leader_epoch=0, now_ms=NOW)

    answer = deleted(await waiting)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 1)


# -- DescribeProducers


async def test_producers_are_described(node: DataNode, context: Context) -> None:
    append(node, b"a", b"b", producer_id=7, producer_epoch=1, base_sequence=0, timestamp=500)
    append(node, b"c", producer_id=8, producer_epoch=0, base_sequence=0, timestamp=600)
    request = DescribeProducersRequest(topics=[TopicRequest(name="orders", partition_indexes=[0, 9])])

    known, unknown = describe_producers.handle(node.broker, request, context(version=0)).topics[0].partitions

    assert [
        (
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.current_txn_start_offset,
        )
        for one in known.active_producers
    ] == [(7, 1, 1, 500, -1), (8, 0, 0, 600, -1)]
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert unknown.error_message


async def test_producers_are_described_with_their_transactions(node: DataNode, context: Context) -> None:
    partition = node.partition()
    append(node, b"plain", timestamp=NOW)
    write(partition, 7, 0)
    write(partition, 7, 1)
    write(partition, 8, 0)
    end(partition, 8, epoch=1, coordinator_epoch=5, version=2)
    request = DescribeProducersRequest(topics=[TopicRequest(name="orders", partition_indexes=[0])])

    (known,) = describe_producers.handle(node.broker, request, context(version=0)).topics[0].partitions

    assert [
        (
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.coordinator_epoch,
            one.current_txn_start_offset,
        )
        for one in known.active_producers
    ] == [(7, 0, 1, -1, 1), (8, 1, -1, 5, -1)]
    assert [one.last_timestamp for one in known.active_producers] == [NOW, NOW]


async def test_producers_of_an_impossible_topic(node: DataNode, context: Context) -> None:
    request = DescribeProducersRequest(topics=[TopicRequest(name="a b", partition_indexes=[0])])

    (answer,) = describe_producers.handle(node.broker, request, context(version=0)).topics[0].partitions

    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


# -- DescribeLogDirs


@pytest.mark.parametrize("version", range(6))
async def test_directories_are_described_with_sizes_and_room(
    cluster: Cluster, node: DataNode, context: Context, tmp_path: Path, version: int
) -> None:
    cluster.add_topic("other", partitions=2)
    size = append(node, b"a")

    response = describe_log_dirs.handle(
        node.broker, DescribeLogDirsRequest(topics=None), context(version=version)
    )

    (directory,) = response.results
    assert directory.log_dir == str(tmp_path / "data")
    assert directory.error_code == ErrorCode.NONE
    assert directory.total_bytes >= directory.usable_bytes > 0
    assert {
        (topic.name, partition.partition_index, partition.partition_size)
        for topic in directory.topics
        for partition in topic.partitions
    } == {("orders", 0, size), ("other", 0, 0), ("other", 1, 0)}
    codec(DescribeLogDirsResponse, version).encode(response)


async def test_only_the_requested_partitions_are_described(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_topic("other", partitions=2)
    wanted = DescribableLogDirTopic(topic="other", partitions=[1, 5])

    response = describe_log_dirs.handle(
        node.broker, DescribeLogDirsRequest(topics=[wanted]), context(version=4)
    )

    (directory,) = response.results
    assert [
        (topic.name, [part.partition_index for part in topic.partitions]) for topic in directory.topics
    ] == [("other", [1])]


async def test_a_failed_directory_is_reported(node: DataNode, context: Context) -> None:
    node.logs.directories[0].io.fail(OSError("broken"), "testing")

    response = describe_log_dirs.handle(node.broker, DescribeLogDirsRequest(topics=None), context(version=4))

    (directory,) = response.results
    assert directory.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert directory.topics == []
    assert node.partition().is_offline
