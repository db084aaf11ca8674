"""AddPartitionsToTxn and AddOffsetsToTxn."""

from __future__ import annotations

import pytest

from harness.transaction_shards import ORDERS_0, ORDERS_1, PAYMENTS_0, WALL_MS, Coordination, play
from penstock.coordinator.txn.transaction import State
from penstock.protocol.errors import ErrorCode

ME = (1000, 0)


def test_the_first_partition_opens_the_transaction() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        assert harness.add(ME, ORDERS_0) is ErrorCode.NONE
        transaction = harness.transaction()
        assert (transaction.state, transaction.partitions) == (State.ONGOING, (ORDERS_0,))
        assert transaction.start_ms == WALL_MS

    play(scenario)


def test_partitions_are_added_in_order_and_once() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.add(ME, ORDERS_1, ORDERS_1)
        harness.add(ME, ORDERS_0, ORDERS_1, PAYMENTS_0, ORDERS_0)
        assert harness.transaction().partitions == (ORDERS_1, ORDERS_0, PAYMENTS_0)

    play(scenario)


def test_partitions_that_are_in_the_transaction_are_not_written_again() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.add(ME, ORDERS_0, ORDERS_1)
        count = len(harness.records())
        assert harness.add(ME, ORDERS_1) is ErrorCode.NONE
        assert len(harness.records()) == count

    play(scenario)


def test_the_next_transaction_starts_without_the_partitions_of_the_last() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.add(ME, ORDERS_0)
        harness.commit(ME)
        harness.add((1000, 1), PAYMENTS_0)
        assert harness.transaction().partitions == (PAYMENTS_0,)

    play(scenario)


@pytest.mark.parametrize("verify_only", [False, True])
def test_only_the_current_producer_adds_and_verifies_partitions(verify_only: bool) -> None:
    async def scenario(harness: Coordination) -> None:
        def ask(producer: tuple[int, int]) -> object:
            return harness.add(producer, ORDERS_0, verify_only=verify_only)

        assert ask(ME) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        harness.init()
        assert ask((999, 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert ask((1000, 1)) is ErrorCode.PRODUCER_FENCED
        harness.init()
        assert ask((1000, 0)) is ErrorCode.PRODUCER_FENCED

    play(scenario)


@pytest.mark.parametrize("verify_only", [False, True])
@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_partitions_are_refused_while_a_transaction_is_being_completed(
    state: State, verify_only: bool
) -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.add(ME, ORDERS_0)
        harness.put(harness.transaction()._replace(state=state))
        assert harness.add(ME, ORDERS_0, verify_only=verify_only) is ErrorCode.CONCURRENT_TRANSACTIONS

    play(scenario)


def test_verifying_returns_each_partition_and_changes_nothing() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.add(ME, ORDERS_0)
        count = len(harness.records())
        assert harness.add(ME, ORDERS_0, verify_only=True) is ErrorCode.NONE
        assert harness.add(ME, ORDERS_1, ORDERS_0, verify_only=True) == {
            ORDERS_1: ErrorCode.TRANSACTION_ABORTABLE,
            ORDERS_0: ErrorCode.NONE,
        }
        assert len(harness.records()) == count

    play(scenario)


@pytest.mark.parametrize("is_commit", [True, False])
def test_verifying_after_the_end_finds_no_partition(is_commit: bool) -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.add(ME, ORDERS_0)
        harness.end(ME, is_commit=is_commit)
        assert harness.add((1000, 1), ORDERS_0, verify_only=True) == {
            ORDERS_0: ErrorCode.TRANSACTION_ABORTABLE
        }

    play(scenario)


def test_a_refused_write_adds_nothing() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        assert harness.add(ME, ORDERS_0) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert harness.state() is State.EMPTY

    play(scenario)
