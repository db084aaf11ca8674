"""The state machine of a transactional producer."""

from __future__ import annotations

import pytest

from penstock.client import errors
from penstock.client.producer.transactions import State, Transactions
from penstock.protocol.errors import ErrorCode


@pytest.fixture
def transactions() -> Transactions:
    made = Transactions("writer")
    made.initialized(is_implicit=True)
    return made


def test_a_transaction_from_begin_to_end(transactions: Transactions) -> None:
    transactions.begin()
    transactions.check_send()
    assert not transactions.is_started
    assert transactions.may_write("orders", 0)
    assert transactions.is_started
    transactions.begin_commit()
    with pytest.raises(errors.IllegalState):
        transactions.check_send()
    transactions.ended()
    assert transactions.state is State.READY
    assert not transactions.is_started


def test_calls_in_the_wrong_state_are_rejected(transactions: Transactions) -> None:
    for call in (transactions.check_send, transactions.begin_commit, transactions.begin_abort):
        with pytest.raises(errors.IllegalState):
            call()
    transactions.begin()
    with pytest.raises(errors.IllegalState):
        transactions.begin()


def test_partitions_are_added_before_they_are_written_to(transactions: Transactions) -> None:
    transactions.initialized(is_implicit=False)
    transactions.begin()
    assert not transactions.may_write("orders", 0)
    assert not transactions.may_write("orders", 0)
    assert not transactions.may_write("orders", 1)
    assert transactions.partitions_to_add() == [("orders", 0), ("orders", 1)]
    assert not transactions.is_started
    transactions.partitions_added([("orders", 0)])
    assert transactions.may_write("orders", 0)
    assert transactions.partitions_to_add() == [("orders", 1)]
    transactions.begin_abort()
    transactions.ended()
    assert transactions.partitions_to_add() == []


def test_a_failed_batch_allows_only_abort(transactions: Transactions) -> None:
    transactions.begin()
    transactions.take_delivery_error(errors.of(ErrorCode.MESSAGE_TOO_LARGE))
    for call in (transactions.check_send, transactions.begin_commit):
        with pytest.raises(errors.TransactionAborted, match="MESSAGE_TOO_LARGE"):
            call()
    transactions.begin_abort()
    transactions.ended()
    transactions.begin()
    transactions.check_send()


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED])
def test_fatal_errors_end_the_producer(transactions: Transactions, code: ErrorCode) -> None:
    transactions.begin()
    transactions.take_delivery_error(errors.of(code))
    for call in (transactions.check_send, transactions.begin_abort, transactions.begin):
        with pytest.raises(type(errors.of(code))):
            call()


def test_an_old_epoch_is_fatal_from_a_coordinator_and_not_from_a_leader(transactions: Transactions) -> None:
    error = errors.of(ErrorCode.INVALID_PRODUCER_EPOCH)
    transactions.begin()
    transactions.take_delivery_error(error)
    assert transactions.state is State.ABORTABLE_ERROR
    result = transactions.take_coordinator_error(error)
    assert isinstance(result, errors.ProducerFenced)
    assert transactions.state is State.FATAL_ERROR


def test_a_lost_producer_id_is_renewed_after_the_abort(transactions: Transactions) -> None:
    transactions.begin()
    transactions.take_coordinator_error(errors.of(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    assert transactions.state is State.ABORTABLE_ERROR
    assert transactions.must_bump_epoch


def test_a_commit_without_a_response_can_only_be_repeated(transactions: Transactions) -> None:
    transactions.begin()
    transactions.begin_commit()
    with pytest.raises(errors.IllegalState, match="outcome of the commit is unknown"):
        transactions.begin_abort()
    transactions.begin_commit()
    transactions.ended()


# Prepared transactions


def test_a_prepared_transaction_can_only_be_ended(transactions: Transactions) -> None:
    transactions.begin()
    transactions.may_write("orders", 0)
    with transactions.flushing():
        transactions.prepared()
    assert transactions.state is State.PREPARED
    for call in (transactions.check_send, transactions.begin):
        with pytest.raises(errors.IllegalState, match="prepared"):
            call()
    with transactions.flushing():
        transactions.begin_commit()
    transactions.ended()
    assert transactions.state is State.READY


def test_a_failed_transaction_cannot_be_prepared(transactions: Transactions) -> None:
    transactions.begin()
    with transactions.flushing():
        transactions.take_delivery_error(errors.of(ErrorCode.MESSAGE_TOO_LARGE))
        with pytest.raises(errors.TransactionAborted, match="MESSAGE_TOO_LARGE"):
            transactions.prepared()
    assert transactions.state is State.ABORTABLE_ERROR


def test_the_first_written_record_is_remembered_until_the_end(transactions: Transactions) -> None:
    transactions.begin()
    transactions.written("orders", 0, -1)  # a duplicate, whose offset the broker does not know
    transactions.written("orders", 1, 7)
    transactions.written("orders", 0, 3)
    assert transactions.first_record == ("orders", 1, 7)
    transactions.begin_commit()
    transactions.ended()
    assert transactions.first_record is None


def test_init_transactions_is_allowed_only_between_transactions(transactions: Transactions) -> None:
    transactions.check_initialize()
    transactions.begin()
    with pytest.raises(errors.IllegalState, match="end the transaction first"):
        transactions.check_initialize()
    with transactions.flushing():
        transactions.prepared()
    transactions.check_initialize()
    transactions.initialized(is_implicit=True)
    assert (transactions.state, transactions.is_started) == (State.READY, False)


def test_a_prepared_transaction_that_was_found_is_known_to_its_coordinator(
    transactions: Transactions,
) -> None:
    transactions.initialized(is_implicit=True, has_open=True)
    assert (transactions.state, transactions.is_started) == (State.PREPARED, True)
    transactions.begin_abort()
    transactions.ended()
    transactions.begin()
