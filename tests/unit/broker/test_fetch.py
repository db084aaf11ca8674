"""Fetch: records, errors, limits, and down-conversion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.datapath import Cluster, DataNode, partition_record, topic_id_of
from harness.fetching import answers, append, fetch, only, values
from penstock.broker.down_conversion import OLD_FORMAT_BYTES_MAX
from penstock.broker.handlers.fetch import handle
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchResponse
from penstock.protocol.types import Uuid
from penstock.records.batch import Compression
from penstock.records.message_set import read_message_set

LATEST = 18
Context = Callable[..., Any]


# -- reading


@pytest.mark.parametrize("version", range(4, LATEST + 1))
async def test_records_come_as_a_slice_of_the_log(node: DataNode, context: Context, version: int) -> None:
    append(node, b"a", b"b")
    append(node, b"c")

    response = handle(node.broker, fetch(("orders", 0, 0)), context(version=version))

    data = only(response)
    assert values(data) == [b"a", b"b", b"c"]
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (3, 3, 0)
    assert data.aborted_transactions is None
    assert len(codec(FetchResponse, version).encode_parts(response, b"")) >= 2


async def test_a_fetch_from_inside_a_batch_starts_with_that_batch(node: DataNode, context: Context) -> None:
    append(node, b"a", b"b")
    append(node, b"c")

    assert values(only(handle(node.broker, fetch(("orders", 0, 1)), context(version=12)))) == [
        b"a",
        b"b",
        b"c",
    ]
    assert values(only(handle(node.broker, fetch(("orders", 0, 2)), context(version=12)))) == [b"c"]


async def test_read_committed_returns_an_empty_list_of_aborted_transactions(
    node: DataNode, context: Context
) -> None:
    append(node, b"a")

    data = only(handle(node.broker, fetch(("orders", 0, 0), isolation_level=1), context(version=12)))

    assert data.aborted_transactions == []
    assert values(data) == [b"a"]


async def test_errors_stand_where_the_records_would(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.add_topic("theirs", replicas=(2,))
    append(node, b"a")
    request = fetch(("orders", 0, 9), ("orders", 5, 0), ("absent", 0, 0), ("theirs", 0, 0), ("orders", 0, -1))
    request.topics[4].partitions[0].partition = 0

    response = handle(node.broker, request, context(version=12))

    # The same partition is named twice: its later offset counts, in the place of the first.
    assert [(data.error_code, data.high_watermark) for data in answers(response)] == [
        (ErrorCode.OFFSET_OUT_OF_RANGE, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
    ]


async def test_topics_are_named_by_id_from_version_13_on(node: DataNode, context: Context) -> None:
    append(node, b"a")
    request = fetch(("orders", 0, 0), ("absent", 0, 0))
    request.topics[0].topic = "not looked at"

    response = handle(node.broker, request, context(version=13))

    assert [data.error_code for data in answers(response)] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID]
    assert [topic.topic_id for topic in response.responses] == [topic_id_of("orders"), topic_id_of("absent")]


async def test_an_id_of_zeroes_is_no_topic(node: DataNode, context: Context) -> None:
    request = fetch(("orders", 0, 0))
    request.topics[0].topic_id = Uuid(bytes(16))

    assert only(handle(node.broker, request, context(version=13))).error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("version", "error"), [(5, ErrorCode.NOT_LEADER_OR_FOLLOWER), (6, ErrorCode.KAFKA_STORAGE_ERROR)]
)
async def test_a_failed_disk_is_reported_with_an_error_that_the_client_knows(
    node: DataNode, context: Context, version: int, error: ErrorCode
) -> None:
    node.partition().go_offline()

    assert only(handle(node.broker, fetch(("orders", 0, 0)), context(version=version))).error_code == error


async def test_partitions_of_one_topic_are_together_in_the_response(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.publish(partition_record("orders", 1))

    response = handle(node.broker, fetch(("orders", 0, 0), ("orders", 1, 0)), context(version=12))

    (topic,) = response.responses
    assert [data.partition_index for data in topic.partitions] == [0, 1]


# -- limits


async def test_the_first_batch_is_returned_whole_even_if_it_exceeds_the_limits(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.publish(partition_record("orders", 1))
    for index in range(2):
        append(node, b"x" * 1000, index=index)
        append(node, b"y" * 1000, index=index)

    response = handle(
        node.broker,
        fetch(("orders", 0, 0), ("orders", 1, 0), max_bytes=1, partition_max_bytes=1),
        context(version=12),
    )

    assert [values(data) for data in answers(response)] == [[b"x" * 1000], []]


async def test_each_partition_keeps_its_own_limit(cluster: Cluster, node: DataNode, context: Context) -> None:
    cluster.publish(partition_record("orders", 1))
    size = 0
    for index in range(2):
        for _ in range(5):
            size = append(node, b"x" * 100, index=index)

    response = handle(
        node.broker,
        fetch(("orders", 0, 0), ("orders", 1, 0), partition_max_bytes=2 * size + 10),
        context(version=12),
    )

    assert [len(values(data)) for data in answers(response)] == [2, 2]


async def test_the_whole_response_keeps_its_limit(cluster: Cluster, node: DataNode, context: Context) -> None:
    cluster.publish(partition_record("orders", 1))
    size = 0
    for index in range(2):
        for _ in range(5):
            size = append(node, b"x" * 100, index=index)

    response = handle(
        node.broker, fetch(("orders", 0, 0), ("orders", 1, 0), max_bytes=7 * size), context(version=12)
    )

    assert [len(values(data)) for data in answers(response)] == [5, 2]


async def test_the_brokers_own_limit_counts_too(node: DataNode, context: Context) -> None:
    size = append(node, b"x" * 100)
    append(node, b"x" * 100)
    node.broker.fetch_max_bytes = size

    assert len(values(only(handle(node.broker, fetch(("orders", 0, 0)), context(version=12))))) == 1


# -- old versions


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
@pytest.mark.parametrize("codec_", [Compression.NONE, Compression.GZIP])
async def test_old_consumers_get_message_sets(
    node: DataNode, context: Context, version: int, magic: int, codec_: Compression
) -> None:
    append(node, b"a", b"b", compression=codec_)

    response = handle(node.broker, fetch(("orders", 0, 0)), context(version=version))
    if codec_ is not Compression.NONE:  # compressed records are decompressed in a worker
        response = await response

    data = only(response)
    assert data.records[16] == magic
    assert [(record.offset, record.value) for record in read_message_set(data.records).records] == [
        (0, b"a"),
        (1, b"b"),
    ]
    codec(FetchResponse, version).encode_parts(response, b"")


async def test_an_old_consumer_gets_no_records_before_its_offset(node: DataNode, context: Context) -> None:
    append(node, b"a", b"b", b"c")

    data = only(handle(node.broker, fetch(("orders", 0, 1)), context(version=2)))

    assert [record.value for record in read_message_set(data.records).records] == [b"b", b"c"]


async def test_old_versions_get_at_least_one_batch_of_every_partition(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.publish(partition_record("orders", 1))
    for index in range(2):
        append(node, b"x" * 500, index=index)

    response = handle(
        node.broker, fetch(("orders", 0, 0), ("orders", 1, 0), partition_max_bytes=10), context(version=2)
    )

    assert all(len(data.records) > 500 for data in answers(response))


async def test_a_response_in_an_old_format_is_limited_whatever_the_request(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    for index in range(20):
        cluster.publish(partition_record("orders", index))
        append(node, b"x" * 500_000, index=index)
    asked = fetch(*[("orders", index, 0) for index in range(20)], max_bytes=2**31 - 1)

    for version in (2, 3):
        sizes = [
            len(data.records) for data in answers(await handle(node.broker, asked, context(version=version)))
        ]
        assert sum(sizes) <= OLD_FORMAT_BYTES_MAX + 500_000
        assert sizes[0] > 500_000


async def test_only_one_old_fetch_per_connection_is_in_progress(node: DataNode, context: Context) -> None:
    class Connection:
        held_by: Any = None

        def hold(self, work: Any) -> None:
            self.held_by = work

    asked = context(version=3)
    asked.connection = connection = Connection()

    waiting = handle(node.broker, fetch(("orders", 0, 0), max_wait_ms=60_000), asked)
    assert connection.held_by is waiting
    append(node, b"a", compression=Compression.GZIP)

    assert [record.value for record in read_message_set(only(await waiting).records).records] == [b"a"]


async def test_zstd_cannot_be_converted_for_old_consumers(node: DataNode, context: Context) -> None:
    append(node, b"a", compression=Compression.ZSTD)

    old = only(await handle(node.broker, fetch(("orders", 0, 0)), context(version=3)))
    newer = only(handle(node.broker, fetch(("orders", 0, 0)), context(version=4)))

    assert old.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert values(newer) == [b"a"]


async def test_a_topic_that_compresses_with_zstd_needs_version_10(
    cluster: Cluster, node: DataNode, context: Context
) -> None:
    cluster.set("orders", "compression.type", "zstd")
    append(node, b"a")

    old = only(handle(node.broker, fetch(("orders", 0, 0)), context(version=9)))
    new = only(handle(node.broker, fetch(("orders", 0, 0)), context(version=10)))

    assert old.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert values(new) == [b"a"]
