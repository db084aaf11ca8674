"""Transactions of a killed broker, and of deleted topics: each is completed as it was decided.

Also run against Apache Kafka (`--broker=kafka`), except marked tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.brokers import Broker
from harness.committed_reads import aborted, committed_values, read, seen
from harness.group_requests import await_coordinator
from harness.requests import ask, create_topic
from harness.transactions import (
    TransactionalProducer,
    add_offsets,
    await_state,
    await_transactions,
    describe,
    settled,
)
from harness.waiting import wait_until
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest

NONE = ErrorCode.NONE
PARTITIONS = 8


@pytest.mark.penstock_only("Kafka 4.3 sometimes calls them complete without having written all markers")
@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_a_decision_before_a_crash_is_completed_after_it(broker: Broker, is_commit: bool) -> None:
    names = [f"writer-{number}" for number in range(6)]
    with WireConnection(broker.port) as connection:
        create_topic(connection, "orders", partitions=PARTITIONS)
        several = [TransactionalProducer.started(connection, name) for name in names]
        for producer in several:
            for partition in range(PARTITIONS):
                producer.send("orders", producer.transactional_id.encode(), partition=partition)
        ended = [producer.end(committed=is_commit) for producer in several]
        assert {each.error for each in ended} == {NONE}
    broker.kill()  # while markers are on their way, or before
    broker.start()

    with WireConnection(broker.port) as connection:
        for name in names:
            await_transactions(connection, name)
            await_state(connection, name, "CompleteCommit" if is_commit else "CompleteAbort")
        for partition in range(PARTITIONS):
            data = read(connection, "orders", partition=partition)
            assert data.last_stable_offset == data.high_watermark
            assert committed_values(data) == ([name.encode() for name in names] if is_commit else [])
        for producer, identity in zip(several, ended, strict=True):
            producer.connection = connection
            assert producer.end(committed=is_commit) == identity, "asked again, because the answer was lost"
            producer.go_on_with(identity)
            producer.send("orders", b"next")
            producer.commit()


def test_a_transaction_that_was_open_in_a_crash_can_be_ended_after_it(broker: Broker) -> None:
    with WireConnection(broker.port) as connection:
        create_topic(connection, "orders")
        kept, dropped, forgotten = (
            TransactionalProducer.started(connection, name) for name in ("kept", "dropped", "forgotten")
        )
        for producer in (kept, dropped, forgotten):
            producer.send("orders", producer.transactional_id.encode())
    broker.kill()
    broker.start()

    with WireConnection(broker.port) as connection:
        for producer in (kept, dropped, forgotten):
            producer.connection = connection
            await_transactions(connection, producer.transactional_id)
            assert describe(connection, producer.transactional_id).transaction_state == "Ongoing"
        kept.send("orders", b"more")
        kept.commit()
        dropped.abort()
        forgotten.init()
        data = read(connection, "orders")
        assert committed_values(data) == [b"kept", b"more"]
        assert sorted(aborted(data) or []) == [(dropped.producer_id, 1), (forgotten.producer_id, 2)]


def test_a_transaction_whose_time_is_over_in_a_crash_is_aborted_after_it(
    tmp_path: Any, make_broker: Callable[..., Broker]
) -> None:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "20"}
    broker = make_broker(tmp_path / "broker", settings=settings)
    broker.start()
    try:
        with WireConnection(broker.port) as connection:
            create_topic(connection, "orders")
            late = TransactionalProducer.started(connection, "late", timeout_ms=3000)
            late.send("orders", b"a")
        broker.kill()
        broker.start()
        with WireConnection(broker.port) as connection:
            await_transactions(connection, "late")
            await_state(connection, "late", "CompleteAbort")
            assert seen(read(connection, "orders")) == [(0, [b"a"]), (1, "abort")]
    finally:
        broker.close()
        broker.check_output()


def delete_topic(connection: WireConnection, topic: str) -> None:
    (result,) = ask(connection, DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 5).responses
    assert result.error_code is NONE


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_a_topic_that_is_deleted_does_not_keep_a_transaction_from_ending(
    producing_connection: WireConnection,
    producer: TransactionalProducer,
    topic_written: str,
    is_commit: bool,
) -> None:
    connection, other = producing_connection, f"{topic_written}-kept"
    create_topic(connection, other)
    for topic in (topic_written, other):
        producer.send(topic, b"a")
    delete_topic(connection, topic_written)

    (producer.commit if is_commit else producer.abort)()

    assert committed_values(read(connection, other)) == ([b"a"] if is_commit else [])


def test_a_recreated_topic_gets_the_marker_and_nothing_else(
    producing_connection: WireConnection, producer: TransactionalProducer, topic_written: str
) -> None:
    connection, topic = producing_connection, topic_written
    producer.send(topic, b"gone")
    delete_topic(connection, topic)

    def is_made() -> bool:
        try:
            create_topic(connection, topic)
        except AssertionError:  # Kafka is still at it
            return False
        return True

    wait_until(is_made, "the topic is there again")
    refused = producer.attempt(topic, b"of before")
    assert (refused.error_code, refused.base_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    producer.commit()
    data = read(connection, topic)
    assert (data.last_stable_offset, seen(data)) == (1, [(0, "commit")])


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_a_deleted_topic_of_offsets_does_not_keep_a_transaction_from_ending(
    broker: Broker, is_commit: bool
) -> None:
    with WireConnection(broker.port) as connection:
        create_topic(connection, "orders")
        producer = TransactionalProducer.started(connection, "writer")
        producer.send("orders", b"a")
        await_coordinator(connection, "readers")
        added = settled(
            lambda: add_offsets(connection, "writer", *producer.identity, "readers"), "the group is added"
        )
        assert added is NONE
        delete_topic(connection, "__consumer_offsets")

        producer.end(committed=is_commit)

        await_state(connection, "writer", "CompleteCommit" if is_commit else "CompleteAbort")
        assert committed_values(read(connection, "orders")) == ([b"a"] if is_commit else [])
