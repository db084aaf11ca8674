"""The consumer of a read-process-write loop: its position after a commit, after an abort, and while the outcome is
not known."""

from __future__ import annotations

import asyncio

import pytest

from harness.fake_consumer import P0, FakeConsumer
from penstock.client import errors
from penstock.client.group.types import GroupMetadata, Offset
from penstock.client.producer.transaction_consumer import TransactionConsumer
from penstock.client.producer.transactions import State, Transactions


@pytest.fixture
def consumer() -> FakeConsumer:
    return FakeConsumer()


@pytest.fixture
def transactions() -> Transactions:
    made = Transactions("writer")
    made.initialized(is_implicit=True)
    return made


@pytest.fixture
def steps(transactions: Transactions, consumer: FakeConsumer) -> TransactionConsumer:
    """At the end of a block."""
    made = TransactionConsumer(transactions)
    with made.beginning(consumer):
        transactions.begin()
    assert made.offsets() == ({P0: Offset(10)}, GroupMetadata("g"))
    return made


def request_commit(steps: TransactionConsumer, transactions: Transactions) -> None:
    steps.committing()
    with transactions.flushing():
        transactions.begin_commit()


def test_after_a_commit_it_continues_after_the_processed_messages(
    steps: TransactionConsumer, consumer: FakeConsumer
) -> None:
    steps.committed()

    assert (consumer.offset, consumer.committed) == (10, 10)


def test_after_an_abort_it_is_rewound_once(steps: TransactionConsumer, consumer: FakeConsumer) -> None:
    steps.aborted()
    assert consumer.offset == 0

    consumer.offset = 5
    steps.aborted()
    assert consumer.offset == 5, "the consumer no longer belongs to a transaction"


def test_an_error_in_the_block_aborts(
    steps: TransactionConsumer, transactions: Transactions, consumer: FakeConsumer
) -> None:
    assert steps.must_abort(ValueError())
    with steps.aborting():
        transactions.begin_abort()
        raise errors.TimedOut

    assert consumer.offset == 0, "the coordinator aborts the transaction after its timeout"


@pytest.mark.parametrize("error", [errors.TimedOut, asyncio.CancelledError, KeyboardInterrupt])
def test_a_commit_with_unknown_outcome_does_not_rewind_it(
    steps: TransactionConsumer,
    transactions: Transactions,
    consumer: FakeConsumer,
    error: type[BaseException],
) -> None:
    request_commit(steps, transactions)

    assert not steps.must_abort(error())

    consumer.offset = 20  # the loop went on
    with pytest.raises(errors.IllegalState), steps.beginning(consumer):
        transactions.begin()
    assert consumer.offset == 20
    transactions.ended()  # by a second commit()
    steps.committed()
    assert (consumer.offset, consumer.committed) == (10, 10), "the messages after the commit are given again"


def test_ctrl_c_before_the_commit_was_requested_aborts(steps: TransactionConsumer) -> None:
    steps.committing()

    assert steps.must_abort(KeyboardInterrupt())


def test_ctrl_c_right_after_the_response_counts_as_committed(
    steps: TransactionConsumer, transactions: Transactions, consumer: FakeConsumer
) -> None:
    request_commit(steps, transactions)
    transactions.ended()

    assert not steps.must_abort(KeyboardInterrupt())
    assert (consumer.offset, consumer.committed) == (10, 10)


def test_a_commit_without_a_response_is_known_when_the_next_transaction_begins(
    steps: TransactionConsumer, transactions: Transactions, consumer: FakeConsumer
) -> None:
    request_commit(steps, transactions)
    assert not steps.must_abort(KeyboardInterrupt())
    transactions.ended()  # in the background, after the caller had given up
    consumer.offset = 20

    with steps.beginning(consumer):
        transactions.begin()

    assert (consumer.offset, consumer.committed) == (20, 10)


def test_an_abort_interrupted_before_it_begins_keeps_the_position(
    steps: TransactionConsumer, transactions: Transactions, consumer: FakeConsumer
) -> None:
    with pytest.raises(KeyboardInterrupt), steps.aborting():
        raise KeyboardInterrupt

    assert transactions.state is State.OPEN
    assert consumer.offset == 10
    steps.aborted()  # by abort()
    assert consumer.offset == 0


def test_a_transaction_that_cannot_begin_rewinds_it(
    transactions: Transactions, consumer: FakeConsumer
) -> None:
    with pytest.raises(errors.TimedOut), TransactionConsumer(transactions).beginning(consumer):
        raise errors.TimedOut

    assert consumer.offset == 0


def test_a_consumer_that_was_closed_meanwhile_is_ignored(
    steps: TransactionConsumer, consumer: FakeConsumer
) -> None:
    def closed() -> None:
        raise errors.ClientClosed

    consumer.rewind = closed  # type: ignore[method-assign]

    steps.aborted()


def test_a_rewind_that_another_thread_prevents_is_reported(
    steps: TransactionConsumer, transactions: Transactions, consumer: FakeConsumer
) -> None:
    """The messages of the aborted transaction were skipped, without an error."""

    def in_use() -> None:
        raise errors.ConcurrentUse

    consumer.rewind = in_use  # type: ignore[method-assign]

    transactions.begin_abort()
    with pytest.raises(errors.ConcurrentUse), steps.aborting():
        transactions.ended()


def test_without_a_consumer_no_offsets_are_sent(transactions: Transactions) -> None:
    steps = TransactionConsumer(transactions)
    with steps.beginning(None):
        transactions.begin()

    assert steps.offsets() is None
    steps.committed()
    steps.aborted()
