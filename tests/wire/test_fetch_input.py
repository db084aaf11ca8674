"""Fetch and ListOffsets with numbers that make no sense. Also run against Apache Kafka (`--broker=kafka`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.admin import new_name
from harness.brokers import Broker
from harness.requests import ask, batch, create_topic, fetch, fetch_request, produce, values
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchRequest, FetchResponse
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

INT32_MAX, INT32_MIN = 2**31 - 1, -(2**31)
INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
CONTENT = [b"a", b"b", b"c"]


@pytest.fixture
def connection(cluster: Broker) -> Iterator[WireConnection]:
    with WireConnection(cluster.port) as connection:
        yield connection


@pytest.fixture
def topic(connection: WireConnection) -> str:
    """A topic with three records in three batches."""
    name = new_name("fetched")
    create_topic(connection, name)
    for value in CONTENT:
        produce(connection, name, batch(value))
    return name


@pytest.mark.parametrize("offset", [-1, -2, 4, INT64_MIN, INT64_MAX])
def test_an_offset_that_is_not_there_is_out_of_range(
    connection: WireConnection, topic: str, offset: int
) -> None:
    data = fetch(connection, topic, offset=offset)

    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert not data.records


@pytest.mark.parametrize("limit", [0, 1])
def test_limits_below_one_batch_still_return_the_first_one(
    connection: WireConnection, topic: str, limit: int
) -> None:
    assert values(fetch(connection, topic, max_bytes=limit).records) == CONTENT[:1]
    assert values(fetch(connection, topic, partition_max_bytes=limit).records) == CONTENT[:1]


@pytest.mark.penstock_only("Kafka answers UNKNOWN_SERVER_ERROR")
@pytest.mark.parametrize("limit", [-1, INT32_MIN])
def test_negative_limits_mean_no_more_than_the_first_batch(
    connection: WireConnection, topic: str, limit: int
) -> None:
    assert values(fetch(connection, topic, max_bytes=limit).records) == CONTENT[:1]
    assert values(fetch(connection, topic, partition_max_bytes=limit).records) == CONTENT[:1]


@pytest.mark.parametrize("limit", [INT32_MAX])
def test_very_large_limits_return_everything(connection: WireConnection, topic: str, limit: int) -> None:
    data = fetch(connection, topic, max_bytes=limit, partition_max_bytes=limit)

    assert values(data.records) == CONTENT


@pytest.mark.parametrize("min_bytes", [INT32_MIN, -1, 0, INT32_MAX])
def test_a_least_size_that_cannot_be_met_or_is_none_ends_with_the_wait(
    connection: WireConnection, topic: str, min_bytes: int
) -> None:
    data = fetch(connection, topic, min_bytes=min_bytes, max_bytes=INT32_MAX, max_wait_ms=50)

    assert values(data.records) == CONTENT


@pytest.mark.parametrize("max_wait_ms", [INT32_MIN, -1, 0])
def test_a_max_wait_of_0_gets_its_response_at_once(
    connection: WireConnection, topic: str, max_wait_ms: int
) -> None:
    data = fetch(connection, topic, offset=len(CONTENT), min_bytes=INT32_MAX, max_wait_ms=max_wait_ms)

    assert data.error_code == ErrorCode.NONE
    assert not data.records


@pytest.mark.parametrize("partition", [-1, 1, INT32_MAX, INT32_MIN])
def test_a_partition_that_does_not_exist_is_unknown(
    connection: WireConnection, topic: str, partition: int
) -> None:
    data = fetch(connection, topic, partitions=[partition])

    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["", "../x", "absent", "__cluster_metadata", "a\x00b"])
def test_a_topic_that_does_not_exist_is_unknown(connection: WireConnection, name: str) -> None:
    assert fetch(connection, name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (0, ErrorCode.NONE),
        (-1, ErrorCode.NONE),
        (-2, ErrorCode.NONE),
        (INT32_MIN, ErrorCode.NONE),
        (1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (INT32_MAX, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_leader_epoch_that_is_negative_is_none_and_one_from_the_future_is_refused(
    connection: WireConnection, topic: str, epoch: int, error: ErrorCode
) -> None:
    assert fetch(connection, topic, current_leader_epoch=epoch).error_code == error


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (0, ErrorCode.NONE),
        (-2, ErrorCode.NONE),
        (5, ErrorCode.OFFSET_OUT_OF_RANGE),
        (INT32_MAX, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_an_epoch_of_the_last_record_that_never_was_is_refused(
    connection: WireConnection, topic: str, epoch: int, error: ErrorCode
) -> None:
    data = fetch(connection, topic, version=12, last_fetched_epoch=epoch, offset=1)

    assert data.error_code == error


@pytest.mark.parametrize("replica_id", [0, 2, 7, INT32_MAX])
def test_a_client_that_claims_to_be_a_replica_is_refused(
    connection: WireConnection, topic: str, replica_id: int
) -> None:
    data = fetch(connection, topic, replica_id=replica_id)

    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_partition_named_twice_has_one_result(connection: WireConnection, topic: str) -> None:
    data = fetch(connection, topic, partitions=[0, 0])

    assert values(data.records) == CONTENT


# -- sessions


@pytest.mark.parametrize(("session_id", "epoch"), [(5, 1), (-1, 1), (0, 1), (0, -2), (0, INT32_MAX)])
def test_a_session_that_does_not_exist_is_not_found(
    connection: WireConnection, topic: str, session_id: int, epoch: int
) -> None:
    request = fetch_request(topic, session_id=session_id, session_epoch=epoch)

    assert full_answer(connection, request).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_continues_only_with_the_next_epoch(connection: WireConnection, topic: str) -> None:
    session_id = full_answer(connection, fetch_request(topic, session_epoch=0)).session_id
    assert session_id > 0

    for epoch in (2, 5, -5, INT32_MAX - 1):
        refused = full_answer(
            connection, fetch_request(topic, session_id=session_id, session_epoch=epoch, max_wait_ms=0)
        )
        assert refused.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    answered = full_answer(
        connection, fetch_request(topic, session_id=session_id, session_epoch=1, max_wait_ms=0)
    )
    assert answered.error_code == ErrorCode.NONE


def full_answer(connection: WireConnection, request: FetchRequest) -> FetchResponse:
    response: FetchResponse = ask(connection, request, 11)
    return response


# -- ListOffsets


@pytest.mark.parametrize(
    ("timestamp", "error", "offset"),
    [
        (-1, ErrorCode.NONE, 3),
        (-2, ErrorCode.NONE, 0),
        (0, ErrorCode.NONE, 0),
        (1, ErrorCode.NONE, 0),
        (2**62, ErrorCode.NONE, -1),
        (INT64_MAX, ErrorCode.NONE, -1),
        (-7, ErrorCode.UNSUPPORTED_VERSION, -1),
        (-8, ErrorCode.UNSUPPORTED_VERSION, -1),
        (INT64_MIN, ErrorCode.UNSUPPORTED_VERSION, -1),
    ],
)
def test_an_invalid_timestamp_is_refused(
    connection: WireConnection, topic: str, timestamp: int, error: ErrorCode, offset: int
) -> None:
    answer = list_offsets(connection, topic, timestamp=timestamp)

    assert (answer.error_code, answer.offset) == (error, offset)


@pytest.mark.parametrize("partition", [-1, 1, INT32_MAX])
def test_offsets_of_a_partition_that_does_not_exist(
    connection: WireConnection, topic: str, partition: int
) -> None:
    assert list_offsets(connection, topic, partition=partition).error_code == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def list_offsets(
    connection: WireConnection, topic: str, *, partition: int = 0, timestamp: int = -1
) -> ListOffsetsPartitionResponse:
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=timestamp)]
            )
        ],
    )
    (answered,) = ask(connection, request, 7).topics
    (answer,) = answered.partitions
    return answer  # type: ignore[no-any-return]
