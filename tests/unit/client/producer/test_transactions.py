"""What a transactional producer may do when, and what errors mean for its transaction."""

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


def test_a_transaction_from_beginning_to_end(transactions: Transactions) -> None:
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


def test_calls_out_of_place_are_refused(transactions: Transactions) -> None:
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
    assert transactions.unadded() == [("orders", 0), ("orders", 1)]
    assert not transactions.is_started
    transactions.added([("orders", 0)])
    assert transactions.may_write("orders", 0)
    assert transactions.unadded() == [("orders", 1)]
    transactions.begin_abort()
    transactions.ended()
    assert transactions.unadded() == []


def test_a_batch_that_failed_leaves_nothing_but_to_abort(transactions: Transactions) -> None:
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
def test_some_errors_end_the_producer(transactions: Transactions, code: ErrorCode) -> None:
    transactions.begin()
    transactions.take_delivery_error(errors.of(code))
    for call in (transactions.check_send, transactions.begin_abort, transactions.begin):
        with pytest.raises(type(errors.of(code))):
            call()


def test_an_old_epoch_is_fatal_from_a_coordinator_and_not_from_a_leader(transactions: Transactions) -> None:
    error = errors.of(ErrorCode.INVALID_PRODUCER_EPOCH)
    transactions.begin()
    transactions.take_delivery_error(error)
    assert transactions.state is State.MUST_ABORT
    told = transactions.take_coordinator_error(error)
    assert isinstance(told, errors.ProducerFenced)
    assert transactions.state is State.DEAD


def test_a_lost_identity_is_renewed_after_the_abort(transactions: Transactions) -> None:
    transactions.begin()
    transactions.take_coordinator_error(errors.of(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
    assert transactions.state is State.MUST_ABORT
    assert transactions.must_raise_epoch


def test_a_commit_whose_answer_did_not_come_can_only_be_asked_for_again(transactions: Transactions) -> None:
    transactions.begin()
    transactions.begin_commit()
    with pytest.raises(errors.IllegalState, match="commit again"):
        transactions.begin_abort()
    transactions.begin_commit()
    transactions.ended()


# Prepared ones


def test_what_is_prepared_can_only_be_ended(transactions: Transactions) -> None:
    transactions.begin()
    transactions.may_write("orders", 0)
    transactions.settle()
    transactions.prepared()
    transactions.unsettle()
    assert transactions.state is State.PREPARED
    for call in (transactions.check_send, transactions.begin):
        with pytest.raises(errors.IllegalState, match="prepared"):
            call()
    transactions.settle()
    transactions.begin_commit()
    transactions.ended()
    assert transactions.state is State.READY


def test_a_transaction_that_failed_cannot_be_prepared(transactions: Transactions) -> None:
    transactions.begin()
    transactions.settle()
    transactions.take_delivery_error(errors.of(ErrorCode.MESSAGE_TOO_LARGE))
    with pytest.raises(errors.TransactionAborted, match="MESSAGE_TOO_LARGE"):
        transactions.prepared()
    transactions.unsettle()
    assert transactions.state is State.MUST_ABORT


def test_the_first_record_that_was_written_is_remembered_until_the_end(transactions: Transactions) -> None:
    transactions.begin()
    transactions.written("orders", 0, -1)  # a duplicate, of which the broker does not know where it is
    transactions.written("orders", 1, 7)
    transactions.written("orders", 0, 3)
    assert transactions.first_record == ("orders", 1, 7)
    transactions.begin_commit()
    transactions.ended()
    assert transactions.first_record is None


def test_the_name_is_taken_over_anew_only_between_transactions(transactions: Transactions) -> None:
    transactions.check_initialize()
    transactions.begin()
    with pytest.raises(errors.IllegalState, match="end it first"):
        transactions.check_initialize()
    transactions.settle()
    transactions.prepared()
    transactions.check_initialize()
    transactions.initialized(is_implicit=True)
    assert (transactions.state, transactions.is_started) == (State.READY, False)


def test_one_that_was_found_prepared_is_known_to_its_coordinator(transactions: Transactions) -> None:
    transactions.initialized(is_implicit=True, has_open=True)
    assert (transactions.state, transactions.is_started) == (State.PREPARED, True)
    transactions.begin_abort()
    transactions.ended()
    transactions.begin()
