"""Who writes under a transactional id: epochs, fencing, going on after a failure."""

from __future__ import annotations

import pytest

from harness.transaction_shards import ORDERS_0, TIMEOUT_MS, WALL_MS, Coordination, play
from penstock.coordinator.txn.transaction import State, Transaction
from penstock.protocol.errors import ErrorCode

LAST_EPOCH = 32_766


def at_rest(producer_id: int, epoch: int, state: State = State.EMPTY) -> Transaction:
    return Transaction(producer_id, epoch, TIMEOUT_MS, state, (), -1, WALL_MS)


def test_every_producer_has_an_epoch_above_those_before_it() -> None:
    async def scenario(stage: Coordination) -> None:
        assert [stage.init() for _ in range(3)] == [(1000, 0), (1000, 1), (1000, 2)]
        assert stage.init("other") == (1001, 0)

    play(scenario)


def test_a_producer_whose_id_is_not_known_gets_a_new_one_whatever_it_says() -> None:
    async def scenario(stage: Coordination) -> None:
        assert stage.init(expected=(7, 3)) == (1000, 0)

    play(scenario)


def test_a_producer_goes_on_after_a_failure_and_may_ask_twice() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init()
        assert stage.init(expected=(1000, 0)) == (1000, 1)
        assert stage.init(expected=(1000, 0)) == (1000, 1)
        assert stage.init(expected=(1000, 1)) == (1000, 2)

    play(scenario)


def test_a_producer_that_was_replaced_does_not_go_on() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init()
        stage.init()
        assert stage.init(expected=(1000, 0)) is ErrorCode.PRODUCER_FENCED
        assert stage.init(expected=(999, 1)) is ErrorCode.PRODUCER_FENCED
        assert stage.init(expected=(1000, 2)) is ErrorCode.PRODUCER_FENCED
        assert stage.init(expected=(1000, 1)) == (1000, 2)

    play(scenario)


def test_the_epoch_before_is_not_in_the_log_so_a_repetition_is_fenced_after_a_change_of_coordinator() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init()
        stage.init(expected=(1000, 0))
        await stage.restart()
        assert stage.init(expected=(1000, 0)) is ErrorCode.PRODUCER_FENCED

    play(scenario)


@pytest.mark.parametrize("expected", [(-1, -1), (7, LAST_EPOCH)])
def test_when_epochs_are_used_up_the_producer_gets_another_id(expected: tuple[int, int]) -> None:
    async def scenario(stage: Coordination) -> None:
        stage.put(at_rest(7, LAST_EPOCH))
        assert stage.init(expected=expected) == (1000, 0)
        assert stage.transaction().previous_producer_id == 7

    play(scenario)


def test_a_producer_that_did_not_hear_of_its_new_id_may_ask_again() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.put(at_rest(7, LAST_EPOCH))
        assert stage.init(expected=(7, LAST_EPOCH)) == (1000, 0)
        assert stage.init(expected=(7, LAST_EPOCH)) == (1000, 0)
        assert stage.init(expected=(7, LAST_EPOCH - 1)) is ErrorCode.PRODUCER_FENCED

    play(scenario)


def test_a_wrong_epoch_is_fenced_even_where_epochs_are_used_up() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.put(at_rest(7, LAST_EPOCH))
        assert stage.init(expected=(7, 3)) is ErrorCode.PRODUCER_FENCED

    play(scenario)


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_nobody_begins_while_a_transaction_is_being_ended(state: State) -> None:
    async def scenario(stage: Coordination) -> None:
        stage.put(at_rest(7, 1, state))
        assert stage.init() is ErrorCode.CONCURRENT_TRANSACTIONS

    play(scenario)


@pytest.mark.parametrize("state", [State.COMPLETE_COMMIT, State.COMPLETE_ABORT])
def test_a_producer_begins_after_a_transaction_is_complete(state: State) -> None:
    async def scenario(stage: Coordination) -> None:
        stage.put(at_rest(7, 1, state))
        assert stage.init(timeout_ms=5) == (7, 2)
        transaction = stage.transaction()
        assert (transaction.state, transaction.timeout_ms, transaction.start_ms) == (State.EMPTY, 5, -1)

    play(scenario)


@pytest.mark.parametrize("transaction_version", [0, 1, 2])
def test_what_the_last_producer_left_open_is_rolled_back_first(transaction_version: int) -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init()
        stage.add((1000, 0), ORDERS_0)

        assert stage.init() is ErrorCode.CONCURRENT_TRANSACTIONS
        (marker,) = stage.partitions.written[ORDERS_0]
        assert (marker.is_commit, marker.producer_id, marker.producer_epoch) == (False, 1000, 1)
        assert stage.init() == (1000, 2)
        assert stage.commit((1000, 0)) is ErrorCode.PRODUCER_FENCED
        assert stage.init(expected=(1000, 0)) is ErrorCode.PRODUCER_FENCED

    play(scenario, transaction_version=transaction_version)


def test_a_producer_that_goes_on_rolls_back_what_it_had_open_itself() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init()
        stage.add((1000, 0), ORDERS_0)
        stage.partitions.is_holding = True
        assert stage.init(expected=(1000, 0)) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert stage.init(expected=(1000, 0)) is ErrorCode.CONCURRENT_TRANSACTIONS
        stage.partitions.release()
        assert stage.init(expected=(1000, 0)) == (1000, 1)
        assert stage.init(expected=(1000, 0)) == (1000, 1), "it is repeated"

    play(scenario)


def test_the_last_epoch_can_still_be_fenced() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.put(at_rest(7, LAST_EPOCH))
        stage.add((7, LAST_EPOCH), ORDERS_0)
        assert stage.init() is ErrorCode.CONCURRENT_TRANSACTIONS
        assert stage.partitions.written[ORDERS_0][0].producer_epoch == LAST_EPOCH + 1
        assert stage.init() == (1000, 0)

    play(scenario)


def test_who_was_replaced_cannot_roll_back_what_its_successor_has_open() -> None:
    """Kafka looks at the id alone, and rolls back."""

    async def scenario(stage: Coordination) -> None:
        stage.init()
        stage.init()
        stage.add((1000, 1), ORDERS_0)
        assert stage.init(expected=(1000, 0)) is ErrorCode.PRODUCER_FENCED
        assert stage.init(expected=(999, 1)) is ErrorCode.PRODUCER_FENCED
        assert stage.state() is State.ONGOING
        assert stage.init(expected=(1000, 1)) is ErrorCode.CONCURRENT_TRANSACTIONS

    play(scenario)


def test_a_refused_write_leaves_everything_as_it_was() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init()
        stage.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        assert stage.init() is ErrorCode.COORDINATOR_NOT_AVAILABLE
        stage.log.refusal = None
        assert stage.init() == (1000, 1)

    play(scenario)
