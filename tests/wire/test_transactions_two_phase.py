"""Two-phase commit (KIP-939): transactions without a timeout, which outlive their producer.

Also run against Apache Kafka (`--broker=kafka`), as far as Kafka 4.3 supports it: it serves InitProducerId v6 only if
unstable versions are enabled, and cannot keep prepared transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness.admin import new_name
from harness.brokers import Broker
from harness.committed_reads import aborted, committed_values, read
from harness.requests import ask, create_topic
from harness.transactions import (
    TransactionalProducer,
    add_to_one,
    await_state,
    await_transactions,
    describe,
    init,
    settled,
    state_of,
)
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest

NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED
NEVER_MS = 2**31 - 1
SHORT_MS = 500
UNSTABLE = {
    "unstable.api.versions.enable": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "20",
}
keeps = pytest.mark.penstock_only("Kafka 4.3 answers UNSUPPORTED_VERSION")


class Answer(NamedTuple):
    error: ErrorCode
    producer_id: int
    producer_epoch: int
    open_producer_id: int = -1
    open_producer_epoch: int = -1


def come(
    connection: WireConnection,
    transactional_id: str | None,
    *,
    timeout_ms: int = 60_000,
    enable_2pc: bool = True,
    keep: bool = False,
    **fields: int,
) -> Answer:
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        enable_2pc=enable_2pc,
        keep_prepared_txn=keep,
        **fields,
    )
    answered = ask(connection, request, 6)
    return Answer(
        answered.error_code,
        answered.producer_id,
        answered.producer_epoch,
        answered.ongoing_txn_producer_id,
        answered.ongoing_txn_producer_epoch,
    )


def come_back(connection: WireConnection, transactional_id: str, **fields: int) -> Answer:
    return come(connection, transactional_id, keep=True, **fields)


@pytest.fixture(scope="module")
def broker_with_two_phases(tmp_path_factory: pytest.TempPathFactory, make_broker: Any) -> Iterator[Broker]:
    settings = {**UNSTABLE, "transaction.two.phase.commit.enable": "true"}
    broker: Broker = make_broker(tmp_path_factory.mktemp("two-phases"), settings=settings)
    broker.start()
    yield broker
    broker.close()
    broker.check_output()


@pytest.fixture
def connection(broker_with_two_phases: Broker) -> Iterator[WireConnection]:
    with WireConnection(broker_with_two_phases.port) as connection:
        yield connection


@pytest.fixture
def topic(connection: WireConnection) -> str:
    name = new_name("written")
    create_topic(connection, name, partitions=2)
    return name


@pytest.fixture
def producer(connection: WireConnection) -> TransactionalProducer:
    """A producer with two-phase commit."""
    name = new_name("prepared")
    await_transactions(connection, name)
    first = come(connection, name)
    assert first.error is NONE
    return TransactionalProducer(connection, name, NEVER_MS, first.producer_id, first.producer_epoch)


def taken_over(producer: TransactionalProducer, answer: Answer) -> TransactionalProducer:
    """A new instance of a producer."""
    assert answer.error is NONE
    return TransactionalProducer(
        producer.connection,
        producer.transactional_id,
        NEVER_MS,
        answer.producer_id,
        answer.producer_epoch,
    )


def test_a_two_phase_transaction_has_no_timeout(connection: WireConnection) -> None:
    name = new_name("prepared")
    await_transactions(connection, name)
    mine = come(connection, name, enable_2pc=False)
    assert (mine.error, mine.producer_epoch) == (NONE, 0)
    assert describe(connection, name).transaction_timeout_ms == 60_000

    for epoch, timeout_ms in enumerate((60_000, 0, -1, NEVER_MS), start=1):
        assert come(connection, name, timeout_ms=timeout_ms) == (NONE, mine.producer_id, epoch, -1, -1)
        assert describe(connection, name).transaction_timeout_ms == NEVER_MS
    for timeout_ms in (0, -1, NEVER_MS):
        refused = come(connection, name, timeout_ms=timeout_ms, enable_2pc=False)
        assert refused == (ErrorCode.INVALID_TRANSACTION_TIMEOUT, -1, -1, -1, -1)
    for fields in ({"enable_2pc": True}, {"keep": True, "enable_2pc": False}):
        nameless = come(connection, None, **fields)
        assert (nameless.error, nameless.producer_epoch) == (NONE, 0)


def test_it_has_to_be_enabled(tmp_path: Path, make_broker: Any) -> None:
    broker = make_broker(tmp_path / "broker", settings=UNSTABLE)
    broker.start()
    try:
        with WireConnection(broker.port) as connection:
            await_transactions(connection, "writer")
            refused = come(connection, "writer")
            assert refused == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, -1, -1, -1)
            assert describe(connection, "writer").error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            plain = come(connection, "writer", enable_2pc=False)
            assert (plain.error, plain.producer_epoch) == (NONE, 0)
    finally:
        broker.close()
        broker.check_output()


def test_it_does_not_time_out(
    connection: WireConnection, producer: TransactionalProducer, topic: str
) -> None:
    again = come(connection, producer.transactional_id, timeout_ms=SHORT_MS)
    prepared = taken_over(producer, again)
    prepared.send(topic, b"prepared")
    late = TransactionalProducer.started(connection, new_name("slow"), timeout_ms=SHORT_MS)
    late.send(topic, b"late", partition=1)

    await_state(connection, late.transactional_id, "CompleteAbort")

    assert state_of(connection, prepared.transactional_id) == "Ongoing"
    prepared.commit()
    assert committed_values(read(connection, topic)) == [b"prepared"]


def test_a_producer_that_does_not_keep_the_prepared_transaction_aborts_it(
    connection: WireConnection, producer: TransactionalProducer, topic: str
) -> None:
    producer.send(topic, b"forgotten")
    name, (mine, epoch) = producer.transactional_id, producer.identity

    assert come(connection, name) == (ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1, -1, -1)
    await_state(connection, name, "CompleteAbort")
    assert aborted(read(connection, topic)) == [(mine, 0)]
    assert settled(lambda: init(connection, name), "there is an epoch") == (NONE, mine, epoch + 2)
    assert describe(connection, name).transaction_timeout_ms == 60_000, (
        "and can be an ordinary one from now on"
    )


@keeps
@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_a_returning_producer_gets_the_open_transaction_and_ends_it(
    connection: WireConnection, producer: TransactionalProducer, topic: str, is_commit: bool
) -> None:
    producer.send(topic, b"prepared")
    name, (mine, epoch) = producer.transactional_id, producer.identity

    assert come_back(connection, name) == (NONE, mine, epoch + 1, mine, epoch)
    found = come_back(connection, name)
    assert found == (NONE, mine, epoch + 2, mine, epoch), "as often as it likes"
    described = describe(connection, name)
    assert (described.transaction_state, described.producer_id, described.producer_epoch) == (
        "Ongoing",
        mine,
        epoch,
    )

    back = taken_over(producer, found)
    assert producer.end(committed=is_commit) == (FENCED, -1, -1)
    assert add_to_one(connection, name, mine, epoch, topic) is FENCED
    refused = back.attempt(topic, b"more", partition=1)
    assert (refused.error_code, refused.base_offset) == (ErrorCode.INVALID_TXN_STATE, -1)
    (back.commit if is_commit else back.abort)()
    assert committed_values(read(connection, topic)) == ([b"prepared"] if is_commit else [])
    back.send(topic, b"next")
    back.commit()


@keeps
def test_without_an_open_transaction_keep_prepared_changes_nothing(
    connection: WireConnection, producer: TransactionalProducer, topic: str
) -> None:
    mine, epoch = producer.identity

    assert come_back(connection, producer.transactional_id) == (NONE, mine, epoch + 1, -1, -1)


@keeps
def test_a_prepared_transaction_outlives_its_broker(tmp_path: Path, make_broker: Any) -> None:
    settings = {**UNSTABLE, "transaction.two.phase.commit.enable": "true"}
    broker = make_broker(tmp_path / "broker", settings=settings)
    broker.start()
    try:
        with WireConnection(broker.port) as connection:
            create_topic(connection, "orders")
            await_transactions(connection, "writer")
            first = come(connection, "writer")
            producer = TransactionalProducer(connection, "writer", NEVER_MS, *first[1:3])
            producer.send("orders", b"prepared")
            kept = come_back(connection, "writer")
        broker.kill()
        broker.start()
        with WireConnection(broker.port) as connection:
            await_transactions(connection, "writer")
            found = come_back(connection, "writer")
            assert found == (NONE, first.producer_id, kept.producer_epoch + 1, *first[1:3])
            producer.connection = connection
            taken_over(producer, found).commit()
            assert committed_values(read(connection, "orders")) == [b"prepared"]
    finally:
        broker.close()
        broker.check_output()
