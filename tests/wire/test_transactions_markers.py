"""Transaction markers, and the producer state of partitions.

Also run against Apache Kafka (`--broker=kafka`), except marked tests.
"""

from __future__ import annotations

import pytest

from harness.admin import new_name
from harness.committed_reads import aborted, read, seen
from harness.requests import ask, batch
from harness.transactions import (
    TransactionalProducer,
    add_to_one,
    marker,
    produce,
    producers_of,
    state_of,
    write_markers,
)
from harness.wire import WireConnection, end_offset
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest

VERSIONS = (1, 2)
NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
STRANGER = 1 << 40
"""A producer id that was never assigned."""


@pytest.fixture
def connection(producing_connection: WireConnection) -> WireConnection:
    return producing_connection


@pytest.fixture
def topic(topic_written: str) -> str:
    return topic_written


def write_one(connection: WireConnection, topic: str, *identity: int, **options: object) -> ErrorCode:
    """One marker to the first partition."""
    version = int(str(options.pop("version", 2)))
    sent = marker(*identity, {topic: [0]}, **options)
    return write_markers(connection, sent, version=version)[identity[0]][topic, 0]


def known(connection: WireConnection, topic: str, partition: int = 0) -> tuple[int, int, int, int, int]:
    """A partition's only producer: id, epoch, last sequence, epoch of its coordinator, begin of its transaction."""
    (one,) = producers_of(connection, topic, partition).active_producers
    return (
        one.producer_id,
        one.producer_epoch,
        one.last_sequence,
        one.coordinator_epoch,
        one.current_txn_start_offset,
    )


# -- markers


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_marker_ends_a_transaction_in_its_partitions(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int, is_commit: bool
) -> None:
    for partition in range(3):
        producer.send(topic, b"a", partition=partition)
    mine, epoch = producer.identity
    assert known(connection, topic) == (mine, epoch, 0, -1, 0)

    sent = marker(mine, epoch, {topic: [0, 2]}, committed=is_commit, coordinator_epoch=3)
    assert write_markers(connection, sent, version=version) == {mine: {(topic, 0): NONE, (topic, 2): NONE}}

    data = read(connection, topic)
    assert data.last_stable_offset == 2
    assert seen(data) == [(0, [b"a"]), (1, "commit" if is_commit else "abort")]
    assert aborted(data) == ([] if is_commit else [(mine, 0)])
    assert known(connection, topic) == (mine, epoch, 0, 3, -1)
    assert read(connection, topic, partition=1).last_stable_offset == 0, "not named in the marker"
    assert state_of(connection, producer.transactional_id) == "Ongoing", "its coordinator knows nothing of it"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_marker_needs_no_transaction(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    """It may be sent twice, and for a partition that was added and never written to."""
    mine, epoch = producer.identity

    for count in (1, 2):
        assert write_one(connection, topic, mine, epoch, version=version, committed=False) is NONE
        assert end_offset(connection, topic, 0) == count
    assert known(connection, topic) == (mine, epoch, -1, 0, -1)
    data = read(connection, topic)
    assert (aborted(data), seen(data)) == ([], [(0, "abort"), (1, "abort")])
    assert write_one(connection, topic, STRANGER, 0, version=version) is NONE


@pytest.mark.parametrize("version", VERSIONS)
def test_a_marker_of_an_older_coordinator_is_refused(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    mine, epoch = producer.identity

    def attempt(coordinator_epoch: int) -> ErrorCode:
        return write_one(connection, topic, mine, epoch, version=version, coordinator_epoch=coordinator_epoch)

    assert attempt(5) is NONE
    assert attempt(5) is NONE
    assert attempt(4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert attempt(-1) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert attempt(6) is NONE
    assert end_offset(connection, topic, 0) == 3
    assert write_one(connection, topic, STRANGER, 0, version=version) is NONE, "of another coordinator"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_marker_of_an_older_epoch_of_the_producer_is_refused(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    producer.send(topic, b"a")
    mine, epoch = producer.identity

    def attempt(producer_epoch: int) -> ErrorCode:
        return write_one(connection, topic, mine, producer_epoch, version=version)

    assert attempt(epoch - 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert attempt(epoch + 3) is NONE
    assert known(connection, topic) == (mine, epoch + 3, -1, 0, -1), "the marker raises the epoch"
    assert attempt(epoch) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert attempt(epoch + 2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert end_offset(connection, topic, 0) == 2


@pytest.mark.parametrize(
    ("transaction_version", "error"),
    [
        (0, NONE),
        (1, NONE),
        (2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (3, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_from_version_2_on_a_marker_ends_with_an_epoch_above_that_of_the_transaction(
    connection: WireConnection,
    producer: TransactionalProducer,
    topic: str,
    transaction_version: int,
    error: ErrorCode,
) -> None:
    """So that a late one does not end the next transaction (KIP-1228)."""
    producer.send(topic, b"a")
    mine, epoch = producer.identity

    def attempt(producer_epoch: int) -> ErrorCode:
        return write_one(connection, topic, mine, producer_epoch, transaction_version=transaction_version)

    assert attempt(epoch) is error
    assert attempt(epoch + 1) is NONE
    assert attempt(epoch + 1) is NONE, "asked again, when there is no transaction any more"
    assert attempt(epoch) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_version_of_a_transaction_is_not_known_to_v1(
    connection: WireConnection, producer: TransactionalProducer, topic: str
) -> None:
    producer.send(topic, b"a")

    error = write_one(connection, topic, *producer.identity, version=1, transaction_version=2)

    assert error is NONE


@pytest.mark.parametrize("version", VERSIONS)
def test_every_partition_of_every_marker_has_a_result(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    mine, epoch = producer.identity

    assert write_markers(
        connection,
        marker(mine, epoch, {topic: [0, 3, -1], "nowhere": [0]}),
        marker(STRANGER, 0, {topic: [0, 1]}, committed=False),
        version=version,
    ) == {
        mine: {(topic, 0): NONE, (topic, 3): UNKNOWN, (topic, -1): UNKNOWN, ("nowhere", 0): UNKNOWN},
        STRANGER: {(topic, 0): NONE, (topic, 1): NONE},
    }
    assert [end_offset(connection, topic, partition) for partition in range(3)] == [2, 1, 0]
    only_unknown = marker(mine, epoch, {topic: [3]})
    assert write_markers(connection, only_unknown, version=version) == {mine: {(topic, 3): UNKNOWN}}
    assert write_markers(connection, version=version) == {}


@pytest.mark.parametrize(
    ("producer_id", "producer_epoch", "transaction_version"),
    [(-1, 0, 0), (STRANGER, -1, 0), (STRANGER, 0, -1)],
)
def test_a_marker_without_a_producer_is_refused(
    connection: WireConnection, topic: str, producer_id: int, producer_epoch: int, transaction_version: int
) -> None:
    error = write_one(connection, topic, producer_id, producer_epoch, transaction_version=transaction_version)

    assert error in (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR), "Kafka has no name for it"
    assert end_offset(connection, topic, 0) == 0


@pytest.mark.penstock_only("Kafka never answers")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_marker_for_an_unknown_partition_does_not_delay_others(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    mine, epoch = producer.identity

    assert write_markers(
        connection, marker(mine, epoch, {topic: [0]}), marker(STRANGER, 0, {topic: [3]}), version=version
    ) == {mine: {(topic, 0): NONE}, STRANGER: {(topic, 3): UNKNOWN}}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_results_of_one_producers_markers_are_together(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    mine, epoch = producer.identity

    errors = write_markers(
        connection, marker(mine, epoch, {topic: [0]}), marker(mine, epoch + 1, {topic: [1]}), version=version
    )

    assert errors == {mine: {(topic, 0): NONE, (topic, 1): NONE}}


def test_a_marker_by_hand_ends_a_transaction_that_hangs(
    connection: WireConnection, producer: TransactionalProducer, topic: str
) -> None:
    """As Kafka's admin tool does it, with the result of DescribeProducers."""
    producer.send(topic, b"a")
    found = known(connection, topic)

    assert write_one(connection, topic, *found[:2], version=1, committed=False) is NONE
    assert aborted(read(connection, topic)) == [(found[0], 0)]
    assert add_to_one(connection, producer.transactional_id, *producer.identity, topic) is NONE
    assert producer.send(topic, b"b") == 2
    producer.commit()
    assert seen(read(connection, topic, offset=2)) == [(2, [b"b"]), (3, "commit")]


# -- producers of a partition


def test_producers_are_described_by_their_last_batch(
    connection: WireConnection, producer: TransactionalProducer, topic: str
) -> None:
    produce(connection, topic, batch(b"of nobody"))
    assert producers_of(connection, topic).active_producers == []

    producer.send(topic, b"a", b"b")
    producer.send(topic, b"c")
    mine, epoch = producer.identity
    assert known(connection, topic) == (mine, epoch, 2, -1, 1)
    sent = read(connection, topic, isolation_level=0)
    (one,) = producers_of(connection, topic).active_producers
    assert one.last_timestamp > 0
    assert sent.high_watermark == 4

    producer.commit(version=3)
    assert known(connection, topic) == (mine, epoch, 2, 0, -1)
    producer.add({topic: [0]})
    producer.send(topic, b"d", version=11)
    assert known(connection, topic) == (mine, epoch, 3, 0, 5)
    producer.commit()
    assert known(connection, topic) == (mine, epoch + 1, -1, 0, -1)


def test_every_partition_is_described(
    connection: WireConnection, producer: TransactionalProducer, topic: str
) -> None:
    other = TransactionalProducer.started(connection, new_name("writer"))
    for each in (producer, other):
        each.send(topic, b"a")
    request = DescribeProducersRequest(
        topics=[
            TopicRequest(name=topic, partition_indexes=[0, 1, 3, -1]),
            TopicRequest(name="nowhere", partition_indexes=[0]),
        ]
    )

    answered = ask(connection, request, 0)

    assert {
        (each.name, partition.partition_index): (
            partition.error_code,
            [producer.producer_id for producer in partition.active_producers],
        )
        for each in answered.topics
        for partition in each.partitions
    } == {
        (topic, 0): (NONE, sorted([producer.producer_id, other.producer_id])),
        (topic, 1): (NONE, []),
        (topic, 3): (UNKNOWN, []),
        (topic, -1): (UNKNOWN, []),
        ("nowhere", 0): (UNKNOWN, []),
    }


@pytest.mark.penstock_only("Kafka describes a partition as often as it is named")
def test_a_small_request_does_not_cause_a_huge_response(
    connection: WireConnection, producer: TransactionalProducer, topic: str
) -> None:
    producer.send(topic, b"a")
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0] * 1000)] * 2)

    (answered,) = ask(connection, request, 0).topics
    assert answered.partitions == [producers_of(connection, topic)]
