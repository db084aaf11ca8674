"""When the epochs of a producer id are exhausted, the producer gets another id (KIP-360, KIP-890).

Also run against Apache Kafka (`--broker=kafka`).
"""

from __future__ import annotations

import pytest

from harness.admin import new_name
from harness.committed_reads import read, seen
from harness.transactions import Identity, TransactionalProducer, await_state, describe, init, producers_of
from harness.wire import WireConnection
from penstock.protocol.apis import ApiKey
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.headers import encode_request_header, read_response_header
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NONE = ErrorCode.NONE
LAST_EPOCH = 2**15 - 2
"""The next epoch, the last one, is reserved to fence the producer that has this one."""

VERSION = 5
IN_FLIGHT_MAX = 100


@pytest.fixture
def connection(producing_connection: WireConnection) -> WireConnection:
    return producing_connection


@pytest.fixture
def exhausted(connection: WireConnection) -> TransactionalProducer:
    """A producer in the last epoch of its id."""
    producer = TransactionalProducer.started(connection, new_name("exhausted"))
    request = InitProducerIdRequest(
        transactional_id=producer.transactional_id, transaction_timeout_ms=producer.timeout_ms
    )
    head = encode_request_header(ApiKey.INIT_PRODUCER_ID, VERSION, 1, "wire")
    payload = head + codec(InitProducerIdRequest, VERSION).encode(request)
    in_flight = 0
    while producer.producer_epoch < LAST_EPOCH:
        while in_flight < min(IN_FLIGHT_MAX, LAST_EPOCH - producer.producer_epoch):
            connection.send_payload(payload)
            in_flight += 1
        answered = connection.receive_payload()
        in_flight -= 1
        _, position = read_response_header(memoryview(answered), ApiKey.INIT_PRODUCER_ID, VERSION)
        renewed, _ = codec(InitProducerIdResponse, VERSION).decode(answered, position)
        if renewed.error_code is NONE:  # Kafka refuses while it writes the last one: CONCURRENT_TRANSACTIONS
            assert (renewed.producer_id, renewed.producer_epoch) == (
                producer.producer_id,
                producer.producer_epoch + 1,
            )
            producer.producer_epoch = renewed.producer_epoch
    assert in_flight == 0
    return producer


def test_the_end_of_a_transaction_in_the_last_epoch_returns_another_id(
    connection: WireConnection, exhausted: TransactionalProducer, topic_written: str
) -> None:
    exhausted.send(topic_written, b"last")
    name, old_id = exhausted.transactional_id, exhausted.producer_id

    renewed = exhausted.end(committed=True)
    await_state(connection, name, "CompleteCommit")

    assert (renewed.error, renewed.producer_epoch) == (NONE, 0)
    assert renewed.producer_id != old_id
    assert exhausted.end(committed=True) == renewed, "asked again"
    assert exhausted.end(committed=False) == (ErrorCode.INVALID_TXN_STATE, -1, -1)
    described = describe(connection, name)
    assert Identity(NONE, described.producer_id, described.producer_epoch) == renewed
    (known,) = producers_of(connection, topic_written).active_producers
    assert (known.producer_id, known.producer_epoch) == (old_id, LAST_EPOCH + 1)

    exhausted.go_on_with(renewed)
    exhausted.send(topic_written, b"first")
    exhausted.commit()
    assert exhausted.identity == (renewed.producer_id, 1)
    assert [content for _, content in seen(read(connection, topic_written))] == [
        [b"last"],
        "commit",
        [b"first"],
        "commit",
    ]


def test_a_producer_in_the_last_epoch_continues_with_another_id(
    connection: WireConnection, exhausted: TransactionalProducer
) -> None:
    name, (old_id, last_epoch) = exhausted.transactional_id, exhausted.identity

    renewed = init(connection, name, producer_id=old_id, producer_epoch=last_epoch)

    assert (renewed.error, renewed.producer_epoch) == (NONE, 0)
    assert renewed.producer_id != old_id
    again = init(connection, name, producer_id=old_id, producer_epoch=last_epoch)
    assert again == renewed
    stale = init(connection, name, producer_id=old_id, producer_epoch=last_epoch - 1)
    assert stale == (ErrorCode.PRODUCER_FENCED, -1, -1)
    assert init(connection, name) == (NONE, renewed.producer_id, 1)
