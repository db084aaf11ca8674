"""Transactions that end: in every version, once and again, rightly and wrongly.

Also run against Apache Kafka (`--broker=kafka`).
"""

from __future__ import annotations

import pytest

from harness.admin import new_name
from harness.transactions import (
    EPOCH_TOLD_VERSION,
    Identity,
    TransactionalProducer,
    add_to_one,
    await_state,
    describe,
    end,
    state_of,
)
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode

NONE = ErrorCode.NONE
NO_STATE = Identity(ErrorCode.INVALID_TXN_STATE, -1, -1)
NOT_MINE = Identity(ErrorCode.INVALID_PRODUCER_ID_MAPPING, -1, -1)
SILENT = Identity(NONE, -1, -1)
"""An end before v5, which tells no epoch."""


FENCED_VERSION = 2  # KIP-588: a code of its own for producers that were replaced


@pytest.fixture
def connection(producing_connection: WireConnection) -> WireConnection:
    return producing_connection


@pytest.fixture
def topic(topic_written: str) -> str:
    return topic_written


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("version", range(5))
def test_an_end_is_the_same_twice_but_not_the_other_way(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int, is_commit: bool
) -> None:
    producer.add({topic: [0, 1]})
    begun = describe(connection, producer.transactional_id)

    assert producer.end(committed=is_commit, version=version) == SILENT
    await_state(connection, producer.transactional_id, "CompleteCommit" if is_commit else "CompleteAbort")
    assert producer.end(committed=is_commit, version=version) == SILENT
    assert producer.end(committed=not is_commit, version=version) == NO_STATE

    described = describe(connection, producer.transactional_id)
    assert (described.producer_id, described.producer_epoch) == producer.identity
    assert (described.transaction_timeout_ms, described.topics) == (60_000, [])
    assert described.transaction_start_time_ms == begun.transaction_start_time_ms


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_the_response_to_an_end_contains_the_next_epoch(
    connection: WireConnection, producer: TransactionalProducer, topic: str, is_commit: bool
) -> None:
    """KIP-890: the end of every transaction raises the epoch."""
    producer.add({topic: [0, 1]})
    name, (mine, epoch) = producer.transactional_id, producer.identity
    state = "CompleteCommit" if is_commit else "CompleteAbort"
    next_one = Identity(NONE, mine, epoch + 1)
    refused = Identity(ErrorCode.PRODUCER_FENCED, -1, -1)

    assert producer.end(committed=is_commit) == next_one
    await_state(connection, name, state)
    assert producer.end(committed=is_commit) == next_one, "asked again"
    assert producer.end(committed=not is_commit) == NO_STATE
    assert producer.end(committed=is_commit, version=4) == refused, "an older client knows no such thing"
    assert (describe(connection, name).producer_epoch, state_of(connection, name)) == (epoch + 1, state)
    assert add_to_one(connection, name, mine, epoch, topic) is ErrorCode.PRODUCER_FENCED

    producer.go_on_with(next_one)
    assert producer.end(committed=True) == NO_STATE
    assert producer.end(committed=is_commit, version=4) == SILENT
    assert producer.end(committed=not is_commit, version=4) == NO_STATE
    assert producer.end(committed=False) == (NONE, mine, epoch + 2), "there may be batches on their way"
    await_state(connection, name, "CompleteAbort")
    assert describe(connection, name).producer_epoch == epoch + 2


@pytest.mark.parametrize("version", range(6))
def test_an_end_needs_a_transaction(
    connection: WireConnection, producer: TransactionalProducer, version: int
) -> None:
    mine, epoch = producer.identity

    assert producer.end(committed=True, version=version) == NO_STATE
    assert state_of(connection, producer.transactional_id) == "Empty"
    aborted = producer.end(committed=False, version=version)
    if version < EPOCH_TOLD_VERSION:
        assert aborted == NO_STATE
        assert state_of(connection, producer.transactional_id) == "Empty"
    else:
        assert aborted == (NONE, mine, epoch + 1)
        await_state(connection, producer.transactional_id, "CompleteAbort")


@pytest.mark.parametrize("version", range(6))
def test_a_transaction_is_ended_by_the_producer_of_this_epoch(
    connection: WireConnection, producer: TransactionalProducer, topic: str, version: int
) -> None:
    producer.add({topic: [0]})
    name, (mine, epoch) = producer.transactional_id, producer.identity
    is_named = version >= FENCED_VERSION
    refused = Identity(ErrorCode.PRODUCER_FENCED if is_named else ErrorCode.INVALID_PRODUCER_EPOCH, -1, -1)

    for is_commit in (True, False):

        def attempt(
            transactional_id: str, producer_id: int, producer_epoch: int, is_commit: bool = is_commit
        ) -> Identity:
            return end(
                connection,
                transactional_id,
                producer_id,
                producer_epoch,
                committed=is_commit,
                version=version,
            )

        assert attempt(name, mine, epoch - 1) == refused
        assert attempt(name, mine, epoch + 1) == refused
        assert attempt(name, mine + 9999, epoch) == NOT_MINE
        assert attempt(new_name("nobody"), mine, epoch) == NOT_MINE
        assert attempt("", mine, epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)
    assert state_of(connection, name) == "Ongoing"


@pytest.mark.parametrize(
    ("produce_version", "end_version", "is_epoch_raised"),
    [(11, 5, True), (12, 4, False), (12, 5, True), (11, 4, False)],
)
def test_the_version_of_end_txn_determines_the_next_epoch(
    connection: WireConnection,
    producer: TransactionalProducer,
    topic: str,
    produce_version: int,
    end_version: int,
    is_epoch_raised: bool,
) -> None:
    producer.add({topic: [0]})
    producer.send(topic, b"a", version=produce_version)
    mine, epoch = producer.identity

    producer.commit(version=end_version)

    described = describe(connection, producer.transactional_id)
    assert (described.producer_id, described.producer_epoch) == (mine, epoch + is_epoch_raised)


def test_several_transactions_one_after_the_other(
    connection: WireConnection, producer: TransactionalProducer, topic: str
) -> None:
    mine, epoch = producer.identity

    for step in range(10):
        assert producer.identity == (mine, epoch + step)
        producer.send(topic, b"%d" % step, partition=step % 3)
        if step % 2:
            producer.abort()
        else:
            producer.commit()
