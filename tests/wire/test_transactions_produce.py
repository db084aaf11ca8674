"""Transactional produce: in every version, before, in and after a transaction, by the right and the wrong producer.

A refused batch leaves no trace in the log. Also run against Apache Kafka (`--broker=kafka`), except marked tests.
"""

from __future__ import annotations

import pytest

from harness.admin import new_name
from harness.requests import ask, batch, rewritten
from harness.transactions import (
    ADDING,
    VERIFYING,
    TransactionalProducer,
    describe,
    init,
    produce,
    producers_of,
    settled,
    state_of,
)
from harness.wire import PRODUCE, WireConnection, end_offset
from penstock.protocol.apis import ApiKey
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.headers import encode_request_header
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

VERSIONS = range(3, 14)
EITHER = (VERIFYING, ADDING)
NONE = ErrorCode.NONE


@pytest.fixture
def connection(producing_connection: WireConnection) -> WireConnection:
    return producing_connection


@pytest.fixture
def topic(topic_written: str) -> str:
    return topic_written


def not_added(version: int) -> ErrorCode:
    """The error for a partition that was not added: clients that know the code abort and continue."""
    return ErrorCode.TRANSACTION_ABORTABLE if version >= VERIFYING else ErrorCode.INVALID_TXN_STATE


def begin(producer: TransactionalProducer, topic: str, *partitions: int, version: int) -> None:
    """Before v12 producers add partitions themselves."""
    if version < ADDING:
        assert set(producer.add({topic: partitions or (0,)}).values()) == {NONE}


def refused_with(
    producer: TransactionalProducer, topic: str, *, partition: int = 0, version: int, **options: object
) -> ErrorCode:
    """The error of a batch that must leave no trace in the log."""
    before = end_offset(producer.connection, topic, partition)
    answered = producer.attempt(topic, b"refused", partition=partition, version=version, **options)
    assert (answered.base_offset, answered.log_append_time_ms) == (-1, -1)
    assert end_offset(producer.connection, topic, partition) == before
    return ErrorCode(answered.error_code)


# -- transactions begin


@pytest.mark.parametrize("version", range(3, ADDING))
def test_a_partition_has_to_be_added_first(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    assert refused_with(producer, topic, version=version) is not_added(version)
    assert state_of(connection, producer.transactional_id) == "Empty"

    assert producer.add({topic: [0]}) == {(topic, 0): NONE}
    assert producer.send(topic, b"a", version=version) == 0
    assert producer.send(topic, b"b", version=version) == 1
    assert refused_with(producer, topic, partition=1, version=version) is not_added(version)

    producer.commit(version=3)
    assert refused_with(producer, topic, version=version) is not_added(version)
    assert refused_with(producer, topic, partition=1, version=version) is not_added(version)
    assert state_of(connection, producer.transactional_id) == "CompleteCommit"


@pytest.mark.parametrize("version", range(ADDING, 14))
def test_a_partition_is_added_by_the_first_batch(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    assert producer.send(topic, b"a", version=version) == 0
    assert producer.send(topic, b"b", version=version) == 1
    assert producer.send(topic, b"c", version=version, partition=2) == 0

    described = describe(connection, producer.transactional_id)
    assert described.transaction_state == "Ongoing"
    (added,) = described.topics
    assert (added.topic, sorted(added.partitions)) == (topic, [0, 2])

    old = TransactionalProducer(connection, producer.transactional_id, 0, *producer.identity)
    producer.commit()
    assert refused_with(old, topic, version=version) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused_with(old, topic, partition=1, version=version) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert state_of(connection, producer.transactional_id) == "CompleteCommit"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_that_does_not_exist_is_unknown(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    records = producer.batch(topic, b"a")
    answered = produce(
        connection,
        topic,
        records,
        partition=3,
        transactional_id=producer.transactional_id,
        version=version,
    )

    assert answered.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert state_of(connection, producer.transactional_id) == "Empty"


@pytest.mark.parametrize("version", [9, *EITHER])
def test_every_partition_of_a_request_has_a_result(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    begin(producer, topic, 0, version=version)
    second = NONE if version >= ADDING else not_added(version)

    assert several(
        connection,
        producer.transactional_id,
        topic,
        {0: producer.batch(topic, b"a"), 1: producer.batch(topic, b"b"), 2: batch(b"of nobody")},
        version=version,
    ) == {0: NONE, 1: second, 2: NONE}
    assert [end_offset(connection, topic, index) for index in range(3)] == [1, 1 if second is NONE else 0, 1]


@pytest.mark.parametrize("version", [9, *EITHER])
def test_a_request_is_of_one_producer(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    other = TransactionalProducer.started(connection, new_name("writer"))
    begin(producer, topic, 0, version=version)
    mixed = ErrorCode.INVALID_PRODUCER_ID_MAPPING

    assert several(
        connection,
        producer.transactional_id,
        topic,
        {0: producer.batch(topic, b"a"), 1: other.batch(topic, b"b")},
        version=version,
    ) == {0: mixed, 1: mixed}
    assert [end_offset(connection, topic, index) for index in range(2)] == [0, 0]


def several(
    connection: WireConnection,
    transactional_id: str | None,
    topic: str,
    batches: dict[int, bytes],
    *,
    version: int,
) -> dict[int, ErrorCode]:
    """One request for several partitions; their errors."""
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[
                    PartitionProduceData(index=index, records=records) for index, records in batches.items()
                ],
            )
        ],
    )
    (answered,) = ask(connection, request, version).responses
    return {each.index: each.error_code for each in answered.partition_responses}


# -- producer checks


@pytest.mark.parametrize("version", VERSIONS)
def test_a_batch_is_of_the_producer_that_the_coordinator_knows(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    begin(producer, topic, 0, 1, version=version)
    producer.send(topic, b"a", version=version)
    mine, epoch = producer.identity

    for partition in (0, 1):  # in one it has a transaction already

        def attempt(partition: int = partition, **options: int) -> ErrorCode:
            return refused_with(
                producer, topic, partition=partition, version=version, base_sequence=0, **options
            )

        assert attempt(producer_id=mine + 9999) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert attempt(producer_epoch=epoch + 1) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert attempt(producer_epoch=epoch - 1) is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.penstock_only("Kafka answers the producer's own next batch with OUT_OF_ORDER_SEQUENCE_NUMBER")
@pytest.mark.parametrize("version", [9, *EITHER])
def test_a_batch_of_another_epoch_does_not_keep_the_producer_from_going_on(
    producer: TransactionalProducer, topic: str, version: int
) -> None:
    begin(producer, topic, version=version)
    producer.send(topic, b"a", version=version)

    for epoch in (producer.producer_epoch + 1, producer.producer_epoch - 1):
        error = refused_with(producer, topic, version=version, base_sequence=0, producer_epoch=epoch)
        assert error is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.send(topic, b"b", version=version) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transactional_batch_needs_a_transactional_id(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    begin(producer, topic, 0, 1, version=version)
    producer.send(topic, b"a", version=version)

    for partition in (0, 1):
        records = producer.batch(topic, b"b", partition=partition)
        nameless = produce(connection, topic, records, partition=partition, version=version)
        assert nameless.error_code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert nameless.base_offset == -1
    unknown = produce(
        connection,
        topic,
        producer.batch(topic, b"b", partition=1),
        partition=1,
        transactional_id=new_name("nobody"),
        version=version,
    )
    assert (unknown.error_code, unknown.base_offset) == (ErrorCode.INVALID_PRODUCER_ID_MAPPING, -1)


@pytest.mark.parametrize("version", [9, *EITHER])
def test_records_outside_of_transactions_do_not_mind_a_transactional_id(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    name = producer.transactional_id
    idempotent = settled(lambda: init(connection, None), "there is an id")
    counted = batch(b"b", producer_id=idempotent.producer_id, producer_epoch=0, base_sequence=0)

    plain = produce(connection, topic, batch(b"a"), transactional_id=name, version=version)
    assert (plain.error_code, plain.base_offset) == (NONE, 0)
    other = produce(connection, topic, counted, transactional_id=name, version=version)
    assert (other.error_code, other.base_offset) == (NONE, 1)
    assert state_of(connection, name) == "Empty"


@pytest.mark.parametrize("version", [9, *EITHER])
def test_a_producer_does_not_mix_records_into_its_transaction(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    begin(producer, topic, version=version)
    producer.send(topic, b"a", version=version)

    error = refused_with(producer, topic, version=version, is_transactional=False)
    assert error is ErrorCode.INVALID_TXN_STATE
    records = producer.batch(topic, b"b", is_transactional=False)
    nameless = produce(connection, topic, records, version=version)
    assert (nameless.error_code, nameless.base_offset) == (ErrorCode.INVALID_TXN_STATE, -1)

    elsewhere = produce(
        connection,
        topic,
        producer.batch(topic, b"b", partition=1, is_transactional=False),
        partition=1,
        version=version,
    )
    assert (elsewhere.error_code, elsewhere.base_offset) == (NONE, 0)


@pytest.mark.parametrize("version", [9, *EITHER])
def test_bad_batches_are_bad_in_transactions_too(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    begin(producer, topic, version=version)
    producer.send(topic, b"a", version=version)
    name = producer.transactional_id

    def attempt(records: bytes) -> ErrorCode:
        answered = produce(connection, topic, records, transactional_id=name, version=version)
        assert answered.base_offset == -1
        return ErrorCode(answered.error_code)

    assert attempt(rewritten(producer.batch(topic, b"b"), crc=1)) is ErrorCode.CORRUPT_MESSAGE
    assert attempt(producer.batch(topic, b"b", is_control=True)) is ErrorCode.INVALID_RECORD
    assert attempt(producer.batch(topic, b"b", base_sequence=-1)) is ErrorCode.INVALID_RECORD
    assert producer.send(topic, b"b", version=version) == 1


@pytest.mark.penstock_only("Kafka writes it, and no transaction will ever end for it")
@pytest.mark.parametrize("version", [9, *EITHER])
def test_a_transactional_batch_without_a_producer_id_is_refused(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    nobody = batch(b"a", is_transactional=True)

    answered = produce(connection, topic, nobody, transactional_id=producer.transactional_id, version=version)

    assert (answered.error_code, answered.base_offset) == (ErrorCode.INVALID_RECORD, -1)


def test_clients_do_not_write_to_the_topic_of_transactions(
    connection: WireConnection, producer: TransactionalProducer
) -> None:
    for records in (producer.batch("any", b"a"), batch(b"a")):
        answered = produce(
            connection, "__transaction_state", records, transactional_id=producer.transactional_id
        )
        assert (answered.error_code, answered.base_offset) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


# -- sequences


@pytest.mark.parametrize("version", VERSIONS)
def test_batches_are_counted_in_a_transaction(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    begin(producer, topic, version=version)
    producer.send(topic, b"a", b"b", version=version)

    def attempt(*values: bytes, sequence: int) -> PartitionProduceResponse:
        return produce(
            connection,
            topic,
            producer.batch(topic, *values, base_sequence=sequence),
            transactional_id=producer.transactional_id,
            version=version,
        )

    for sequence, error, offset in [
        (0, NONE, 0),
        (4, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        (2, NONE, 2),
        (2, NONE, 2),
        (0, NONE, 0),
    ]:
        answered = attempt(b"c", b"d", sequence=sequence)
        assert (answered.error_code, answered.base_offset) == (error, offset)
    assert end_offset(connection, topic, 0) == 4


@pytest.mark.parametrize("version", [9, VERIFYING])
def test_older_producers_count_on_in_the_next_transaction(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    for first_offset in (0, 3):  # a marker is between them
        producer.add({topic: [0]})
        assert producer.send(topic, b"a", b"b", version=version) == first_offset
        producer.commit(version=3)

    producer.add({topic: [0]})
    again = producer.attempt(topic, b"a", b"b", version=version, base_sequence=2)
    assert (again.error_code, again.base_offset) == (NONE, 3), "a duplicate of the transaction before"
    (mine,) = producers_of(connection, topic).active_producers
    assert (mine.last_sequence, mine.current_txn_start_offset) == (3, -1), "which begins nothing"


@pytest.mark.parametrize("version", range(ADDING, 14))
def test_newer_producers_count_from_zero_in_every_transaction(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    for first_offset in (0, 3, 6):
        assert producer.send(topic, b"a", b"b", version=version) == first_offset
        producer.commit()

    error = refused_with(producer, topic, version=version, base_sequence=2)
    assert error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state_of(connection, producer.transactional_id) == "Ongoing", (
        "the partition was added all the same"
    )
    assert producer.send(topic, b"a", version=version) == 9


@pytest.mark.parametrize("version", [9, *EITHER])
def test_the_first_batch_of_an_unknown_producer(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    """Retention may have deleted the earlier batches of a producer, so any sequence is accepted. Newer producers
    start at 0 in every transaction, so for them it can only be a batch that overtook another."""
    begin(producer, topic, version=version)

    if version >= ADDING:
        error = refused_with(producer, topic, version=version, base_sequence=7)
        assert error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert producer.send(topic, b"a", version=version) == 0
    else:
        answered = producer.attempt(topic, b"a", version=version, base_sequence=7)
        assert (answered.error_code, answered.base_offset) == (NONE, 0)


@pytest.mark.parametrize("version", range(ADDING, 14))
def test_a_batch_of_another_epoch_does_not_let_later_ones_in(
    producer: TransactionalProducer, topic: str, version: int
) -> None:
    stranger = producer.producer_epoch + 1
    error = refused_with(producer, topic, version=version, producer_epoch=stranger)
    assert error is ErrorCode.INVALID_PRODUCER_EPOCH

    error = refused_with(producer, topic, version=version, base_sequence=1)
    assert error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.send(topic, b"a", version=version) == 0


@pytest.mark.parametrize("version", [9, VERIFYING])
def test_a_batch_that_overtook_another_stays_out(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    """The first that was asked about had a lower sequence (KIP-890)."""
    producer.add({topic: [0]})
    producer.send(topic, b"a", b"b", version=version)
    producer.commit(version=3)
    producer.add({topic: [0]})

    error = refused_with(producer, topic, version=version, base_sequence=1)
    assert error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    error = refused_with(producer, topic, version=version, base_sequence=2)
    assert error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


# -- acknowledgements


@pytest.mark.parametrize("version", [9, *EITHER])
def test_transactions_are_written_with_any_acks(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    begin(producer, topic, version=version)
    name = producer.transactional_id

    one = produce(
        connection, topic, producer.batch(topic, b"a"), transactional_id=name, version=version, acks=1
    )
    assert (one.error_code, one.base_offset) == (NONE, 0)

    request = ProduceRequest(
        transactional_id=name,
        acks=0,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[
                    PartitionProduceData(index=0, records=producer.batch(topic, b"b", base_sequence=1))
                ],
            )
        ],
    )
    head = encode_request_header(ApiKey(PRODUCE), version, 1, "wire")
    connection.send_payload(head + codec(ProduceRequest, version).encode(request))
    assert end_offset(connection, topic, 0) == 2, "requests of one connection are done in order"
