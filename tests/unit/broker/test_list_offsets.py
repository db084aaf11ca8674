"""ListOffsets: both ends, times, and the oldest way to ask."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest

from harness.datapath import Cluster, DataNode, make_batch, partition_record
from harness.partition_transactions import end, write
from penstock.broker.handlers.list_offsets import LOOKUPS_AT_ONCE, handle
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.records import kernel
from penstock.records.batch import HEADER_BYTES, Compression
from penstock.replication.deletion import delete_records

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
NEWEST = 11
NOW = 1_700_000_000_000
Context = Callable[..., Any]


def ask(
    *timestamps: int,
    topic: str = "orders",
    index: int = 0,
    replica_id: int = -1,
    isolation: int = 0,
    **fields: Any,
) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=timestamp, **fields)
                    for timestamp in timestamps
                ],
            )
        ],
    )


def only(response: ListOffsetsResponse) -> ListOffsetsPartitionResponse:
    (topic,) = response.topics
    (partition,) = topic.partitions
    return partition


def found(response: ListOffsetsResponse) -> tuple[ErrorCode, int, int, int]:
    answer = only(response)
    return answer.error_code, answer.offset, answer.timestamp, answer.leader_epoch


@pytest.fixture
async def log(cluster: Cluster, node: DataNode) -> DataNode:
    """Offsets 0 to 5 with times 100, 100, 300, 300, 200, 200, the last two of leader epoch 2; starts at offset 1."""
    partition = node.partition()
    for epoch, timestamp in ((0, 100), (0, 300), (2, 200)):
        cluster.publish(partition_record("orders", 0, leader_epoch=epoch))
        partition.append_as_leader(make_batch(b"a", b"b", timestamp=timestamp), acks=1, now_ms=NOW)
    delete_records(partition, 1)
    return node


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (LATEST, (6, -1, 2)),
        (EARLIEST, (1, -1, 0)),
        (EARLIEST_LOCAL, (1, -1, 0)),
        (MAX_TIMESTAMP, (2, 300, 0)),
        (LATEST_TIERED, (-1, -1, -1)),
        (EARLIEST_PENDING, (-1, -1, -1)),
        (0, (1, 100, 0)),
        (100, (1, 100, 0)),
        (101, (2, 300, 0)),
        (300, (2, 300, 0)),
        (301, (-1, -1, -1)),
    ],
)
async def test_a_time_finds_its_offset(
    log: DataNode, context: Context, timestamp: int, expected: tuple[int, int, int]
) -> None:
    assert found(handle(log.broker, ask(timestamp), context(version=NEWEST))) == (ErrorCode.NONE, *expected)


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
async def test_every_version_can_be_written(log: DataNode, context: Context, version: int) -> None:
    response = handle(log.broker, ask(LATEST), context(version=version))

    codec(ListOffsetsResponse, version).encode(response)
    assert only(response).offset == 6


@pytest.mark.parametrize(
    ("timestamp", "since"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING, 11)],
)
async def test_special_timestamps_are_refused_before_their_version(
    log: DataNode, context: Context, timestamp: int, since: int
) -> None:
    before = only(handle(log.broker, ask(timestamp), context(version=since - 1)))
    after = only(handle(log.broker, ask(timestamp), context(version=since)))

    assert before.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert after.error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [0, 1, NEWEST])
async def test_other_negative_timestamps_are_rejected(log: DataNode, context: Context, version: int) -> None:
    assert (
        only(handle(log.broker, ask(-7), context(version=version))).error_code
        == ErrorCode.UNSUPPORTED_VERSION
    )


async def test_an_unknown_partition_or_a_fenced_client_is_refused(
    cluster: Cluster, log: DataNode, context: Context
) -> None:
    cluster.add_topic("theirs", replicas=(2,))

    def error(**fields: Any) -> ErrorCode:
        return only(handle(log.broker, ask(LATEST, **fields), context(version=NEWEST))).error_code

    assert error(topic="absent") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error(index=4) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error(topic="theirs") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert error(current_leader_epoch=1) == ErrorCode.FENCED_LEADER_EPOCH
    assert error(current_leader_epoch=3) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert error(current_leader_epoch=2) == ErrorCode.NONE


async def test_only_a_debugging_consumer_may_ask_a_follower(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_topic("copied", replicas=(2, 1))

    consumer = only(handle(node.broker, ask(LATEST, topic="copied"), context(version=5)))
    debugger = only(handle(node.broker, ask(LATEST, topic="copied", replica_id=-2), context(version=5)))

    assert consumer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert debugger.error_code == ErrorCode.NONE


async def test_a_partition_asked_for_twice_is_refused(log: DataNode, context: Context) -> None:
    response = handle(log.broker, ask(LATEST, EARLIEST), context(version=5))

    assert [answer.error_code for answer in response.topics[0].partitions] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize("isolation", [0, 1])
async def test_consumers_see_the_high_watermark_and_replicas_the_log_end(
    cluster: Cluster, node: DataNode, context: Context, isolation: int
) -> None:
    cluster.add_topic("copied", replicas=(1, 2))
    node.partition("copied").append_as_leader(make_batch(b"a", timestamp=5), acks=1, now_ms=NOW)

    def offset(timestamp: int, replica_id: int) -> int:
        request = ask(timestamp, topic="copied", replica_id=replica_id, isolation=isolation)
        return only(handle(node.broker, request, context(version=5))).offset

    assert (offset(LATEST, -1), offset(5, -1)) == (0, -1)
    assert (offset(LATEST, 2), offset(5, 2)) == (1, 0)


@pytest.mark.parametrize("version", [2, 5, NEWEST])
async def test_readers_of_committed_data_see_no_further_than_the_last_stable_offset(
    cluster: Cluster, node: DataNode, context: Context, version: int
) -> None:
    cluster.add_topic("payments")
    partition = node.partition("payments")
    write(partition, 7, 0, timestamp=NOW + 100)
    end(partition, 7)
    write(partition, 8, 0, timestamp=NOW + 200)

    def offset(timestamp: int, isolation: int) -> int:
        request = ask(timestamp, topic="payments", isolation=isolation)
        return only(handle(node.broker, request, context(version=version))).offset

    assert (offset(LATEST, 1), offset(LATEST, 0)) == (2, 3)
    assert (offset(EARLIEST, 1), offset(EARLIEST, 0)) == (0, 0)
    assert (offset(NOW + 150, 1), offset(NOW + 150, 0)) == (-1, 2)
    assert (offset(NOW + 50, 1), offset(NOW + 50, 0)) == (0, 0)
    if version >= 7:
        assert (offset(MAX_TIMESTAMP, 1), offset(MAX_TIMESTAMP, 0)) == (-1, 2)
    end(partition, 8)
    assert offset(LATEST, 1) == offset(LATEST, 0) == 4


@pytest.mark.parametrize(
    ("version", "error"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
async def test_a_new_leader_that_does_not_know_the_high_watermark_yet_returns_an_error(
    cluster: Cluster, node: DataNode, context: Context, version: int, error: ErrorCode
) -> None:
    cluster.add_topic("copied", replicas=(1, 2))
    partition = node.partition("copied")
    partition.append_as_leader(make_batch(b"a"), acks=1, now_ms=NOW)
    cluster.publish(partition_record("copied", 0, replicas=(1, 2), leader_epoch=1))

    def ask_latest() -> ErrorCode:
        return only(handle(node.broker, ask(LATEST, topic="copied"), context(version=version))).error_code

    assert ask_latest() == error
    assert only(handle(node.broker, ask(EARLIEST, topic="copied"), context(version=version))).offset == 0
    partition.follower_fetched(2, end_offset=1, start_offset=0, leader_epoch=1, now_ms=NOW)
    assert ask_latest() == ErrorCode.NONE


# -- version 0


@pytest.fixture
async def segments(cluster: Cluster, node: DataNode) -> DataNode:
    """Three segments, from offsets 0, 1 and 2."""
    cluster.set("orders", "segment.bytes", "1048576")
    for _ in range(3):
        batch = make_batch(b"x" * 600_000, timestamp=NOW)
        node.partition().append_as_leader(batch, acks=1, now_ms=NOW)
    return node


@pytest.mark.parametrize(
    ("timestamp", "count", "expected"),
    [
        (LATEST, 1, [3]),
        (LATEST, 10, [3, 2, 1, 0]),
        (EARLIEST, 5, [0]),
        (0, 5, []),
        (2**62, 2, [2, 1]),
        (LATEST, 0, []),
        (LATEST, -3, []),
    ],
)
async def test_the_oldest_way_lists_where_segments_begin(
    segments: DataNode, context: Context, timestamp: int, count: int, expected: list[int]
) -> None:
    response = handle(segments.broker, ask(timestamp, max_num_offsets=count), context(version=0))

    assert only(response).old_style_offsets == expected
    codec(ListOffsetsResponse, 0).encode(response)


# -- batches that take long to open


def append_large(node: DataNode, *timestamps: int) -> None:
    """A few hundred bytes that become two megabytes, with a record for each time."""
    batch = kernel.build_batch(
        [(timestamp, None, bytes(2 << 20), ()) for timestamp in timestamps], compression=Compression.ZSTD
    )
    node.partition().append_as_leader(memoryview(batch), acks=1, now_ms=NOW)


async def test_a_large_batch_is_searched_in_the_slow_lane(node: DataNode, context: Context) -> None:
    append_large(node, 1000, 1010)
    append_large(node, 1020, 1030)

    for timestamp, expected in ((0, (0, 1000)), (1005, (1, 1010)), (1011, (2, 1020)), (1031, (-1, -1))):
        response = handle(node.broker, ask(timestamp), context(version=7))
        _, offset, found_timestamp, _ = found(response if timestamp == 1031 else await response)
        assert (offset, found_timestamp) == expected


async def test_the_largest_timestamp_of_a_large_batch(node: DataNode, context: Context) -> None:
    append_large(node, 1000, 1020, 1010)

    assert found(await handle(node.broker, ask(MAX_TIMESTAMP), context(version=7))) == (
        ErrorCode.NONE,
        1,
        1020,
        0,
    )


async def test_a_large_batch_whose_only_record_of_that_time_was_deleted(
    node: DataNode, context: Context
) -> None:
    append_large(node, 1050, 1000)
    append_large(node, 1040, 1060)
    delete_records(node.partition(), 1)

    _, offset, timestamp, _ = found(await handle(node.broker, ask(1040), context(version=7)))

    assert (offset, timestamp) == (2, 1040)


async def test_many_lookups_of_one_request_are_made_in_turns(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    count = 3 * LOOKUPS_AT_ONCE
    for index in range(1, count):
        cluster.publish(partition_record("orders", index))
    for index in range(count):
        batch = make_batch(b"a", timestamp=1000 + index)
        node.partition(index=index).append_as_leader(batch, acks=1, now_ms=NOW)
    request = ask(*[0] * count)
    for index, wanted in enumerate(request.topics[0].partitions):
        wanted.partition_index = index
    others_turns = 0

    task = asyncio.ensure_future(handle(node.broker, request, context(version=7)))
    while not task.done():
        others_turns += 1
        await asyncio.sleep(0)

    (topic,) = task.result().topics
    assert [answer.timestamp for answer in topic.partitions] == [1000 + index for index in range(count)]
    assert others_turns >= 3


async def test_a_batch_that_was_damaged_on_disk_is_called_corrupt(node: DataNode, context: Context) -> None:
    node.partition().append_as_leader(
        make_batch(b"a" * 100, compression=Compression.GZIP), acks=1, now_ms=NOW
    )
    file = node.partition().log.segments.active.file()
    os.pwrite(file.fileno(), b"\xff" * 20, HEADER_BYTES)

    assert only(handle(node.broker, ask(0), context(version=7))).error_code == ErrorCode.CORRUPT_MESSAGE
