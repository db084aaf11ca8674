"""InitProducerId: epochs, fencing, and going on after a failure."""

from __future__ import annotations

import pytest

from harness.transaction_shards import ORDERS_0, TIMEOUT_MS, WALL_MS, Coordination, play
from penstock.coordinator.txn.transaction import State, Transaction
from penstock.protocol.errors import ErrorCode

LAST_EPOCH = 32_766


def at_rest(producer_id: int, epoch: int, state: State = State.EMPTY) -> Transaction:
    return Transaction(producer_id, epoch, TIMEOUT_MS, state, (), -1, WALL_MS)


def test_every_producer_has_a_higher_epoch_than_its_predecessors() -> None:
    async def scenario(harness: Coordination) -> None:
        assert [harness.init() for _ in range(3)] == [(1000, 0), (1000, 1), (1000, 2)]
        assert harness.init("other") == (1001, 0)

    play(scenario)


def test_an_unknown_transactional_id_gets_a_new_producer_id_whatever_identity_is_sent() -> None:
    async def scenario(harness: Coordination) -> None:
        assert harness.init(expected=(7, 3)) == (1000, 0)

    play(scenario)


def test_a_producer_goes_on_after_a_failure_and_may_retry() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        assert harness.init(expected=(1000, 0)) == (1000, 1)
        assert harness.init(expected=(1000, 0)) == (1000, 1)
        assert harness.init(expected=(1000, 1)) == (1000, 2)

    play(scenario)


def test_a_producer_that_was_replaced_is_fenced() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.init()
        assert harness.init(expected=(1000, 0)) is ErrorCode.PRODUCER_FENCED
        assert harness.init(expected=(999, 1)) is ErrorCode.PRODUCER_FENCED
        assert harness.init(expected=(1000, 2)) is ErrorCode.PRODUCER_FENCED
        assert harness.init(expected=(1000, 1)) == (1000, 2)

    play(scenario)


def test_the_previous_epoch_is_not_in_the_log_so_a_retry_is_fenced_by_a_new_coordinator() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.init(expected=(1000, 0))
        await harness.restart()
        assert harness.init(expected=(1000, 0)) is ErrorCode.PRODUCER_FENCED

    play(scenario)


@pytest.mark.parametrize("expected", [(-1, -1), (7, LAST_EPOCH)])
def test_when_epochs_are_exhausted_the_producer_gets_a_new_id(expected: tuple[int, int]) -> None:
    async def scenario(harness: Coordination) -> None:
        harness.put(at_rest(7, LAST_EPOCH))
        assert harness.init(expected=expected) == (1000, 0)
        assert harness.transaction().previous_producer_id == 7

    play(scenario)


def test_a_producer_that_missed_its_new_id_may_retry() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.put(at_rest(7, LAST_EPOCH))
        assert harness.init(expected=(7, LAST_EPOCH)) == (1000, 0)
        assert harness.init(expected=(7, LAST_EPOCH)) == (1000, 0)
        assert harness.init(expected=(7, LAST_EPOCH - 1)) is ErrorCode.PRODUCER_FENCED

    play(scenario)


def test_a_wrong_epoch_is_fenced_even_if_epochs_are_exhausted() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.put(at_rest(7, LAST_EPOCH))
        assert harness.init(expected=(7, 3)) is ErrorCode.PRODUCER_FENCED

    play(scenario)


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_init_producer_id_is_refused_while_a_transaction_is_being_completed(state: State) -> None:
    async def scenario(harness: Coordination) -> None:
        harness.put(at_rest(7, 1, state))
        assert harness.init() is ErrorCode.CONCURRENT_TRANSACTIONS

    play(scenario)


@pytest.mark.parametrize("state", [State.COMPLETE_COMMIT, State.COMPLETE_ABORT])
def test_a_new_producer_can_start_after_a_transaction_is_complete(state: State) -> None:
    async def scenario(harness: Coordination) -> None:
        harness.put(at_rest(7, 1, state))
        assert harness.init(timeout_ms=5) == (7, 2)
        transaction = harness.transaction()
        assert (transaction.state, transaction.timeout_ms, transaction.start_ms) == (State.EMPTY, 5, -1)

    play(scenario)


@pytest.mark.parametrize("transaction_version", [0, 1, 2])
def test_an_open_transaction_of_the_last_producer_is_aborted_first(transaction_version: int) -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.add((1000, 0), ORDERS_0)

        assert harness.init() is ErrorCode.CONCURRENT_TRANSACTIONS
        (marker,) = harness.partitions.written[ORDERS_0]
        assert (marker.is_commit, marker.producer_id, marker.producer_epoch) == (False, 1000, 1)
        assert harness.init() == (1000, 2)
        assert harness.commit((1000, 0)) is ErrorCode.PRODUCER_FENCED
        assert harness.init(expected=(1000, 0)) is ErrorCode.PRODUCER_FENCED

    play(scenario, transaction_version=transaction_version)


def test_a_producer_that_goes_on_aborts_its_own_open_transaction() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.add((1000, 0), ORDERS_0)
        harness.partitions.is_holding = True
        assert harness.init(expected=(1000, 0)) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert harness.init(expected=(1000, 0)) is ErrorCode.CONCURRENT_TRANSACTIONS
        harness.partitions.release()
        assert harness.init(expected=(1000, 0)) == (1000, 1)
        assert harness.init(expected=(1000, 0)) == (1000, 1), "it is repeated"

    play(scenario)


def test_the_last_epoch_can_still_be_fenced() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.put(at_rest(7, LAST_EPOCH))
        harness.add((7, LAST_EPOCH), ORDERS_0)
        assert harness.init() is ErrorCode.CONCURRENT_TRANSACTIONS
        assert harness.partitions.written[ORDERS_0][0].producer_epoch == LAST_EPOCH + 1
        assert harness.init() == (1000, 0)

    play(scenario)


def test_a_fenced_producer_cannot_abort_the_transaction_of_its_successor() -> None:
    """Kafka only checks the producer id, and aborts."""

    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.init()
        harness.add((1000, 1), ORDERS_0)
        assert harness.init(expected=(1000, 0)) is ErrorCode.PRODUCER_FENCED
        assert harness.init(expected=(999, 1)) is ErrorCode.PRODUCER_FENCED
        assert harness.state() is State.ONGOING
        assert harness.init(expected=(1000, 1)) is ErrorCode.CONCURRENT_TRANSACTIONS

    play(scenario)


def test_a_refused_write_changes_nothing() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        assert harness.init() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        harness.log.refusal = None
        assert harness.init() == (1000, 1)

    play(scenario)
