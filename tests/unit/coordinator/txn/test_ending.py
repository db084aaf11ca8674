"""How transactions end, in both dialects, and what a repeated or a wrong end is told."""

from __future__ import annotations

import pytest

from harness.transaction_shards import ORDERS_0, TIMEOUT_MS, WALL_MS, Coordination, play
from penstock.coordinator.txn.transaction import State, Transaction
from penstock.protocol.errors import ErrorCode

ME = (1000, 0)
NEXT = (1000, 1)
LAST_EPOCH = 32_766
OLD = 4
"""A version of EndTxn that leaves the epoch as it is."""


def open_transaction(stage: Coordination, *, is_version_2: bool = True) -> None:
    assert stage.init() == ME
    assert stage.add(ME, ORDERS_0, is_version_2=is_version_2) is ErrorCode.NONE


# -- before transaction version 2


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_old_client_keeps_its_epoch(is_commit: bool) -> None:
    async def scenario(stage: Coordination) -> None:
        open_transaction(stage, is_version_2=False)
        assert stage.end(ME, is_commit=is_commit, version=OLD) == ME
        (marker,) = stage.partitions.written[ORDERS_0]
        assert (marker.is_commit, marker.producer_epoch, marker.transaction_version) == (is_commit, 0, 0)
        assert stage.end(ME, is_commit=is_commit, version=OLD) == ME, "it is repeated"
        assert stage.add(ME, ORDERS_0, is_version_2=False) is ErrorCode.NONE

    play(scenario)


def test_an_old_client_cannot_change_what_was_decided() -> None:
    async def scenario(stage: Coordination) -> None:
        open_transaction(stage, is_version_2=False)
        stage.partitions.is_holding = True
        stage.commit(ME, version=OLD)
        assert stage.commit(ME, version=OLD) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert stage.abort(ME, version=OLD) is ErrorCode.INVALID_TXN_STATE
        stage.partitions.release()
        assert stage.abort(ME, version=OLD) is ErrorCode.INVALID_TXN_STATE

    play(scenario)


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_old_client_cannot_end_what_did_not_begin(is_commit: bool) -> None:
    async def scenario(stage: Coordination) -> None:
        assert stage.end(ME, is_commit=is_commit, version=OLD) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        stage.init()
        assert stage.end(ME, is_commit=is_commit, version=OLD) is ErrorCode.INVALID_TXN_STATE

    play(scenario)


@pytest.mark.parametrize("version", [OLD, 5])
def test_only_the_producer_ends_its_transaction(version: int) -> None:
    async def scenario(stage: Coordination) -> None:
        open_transaction(stage)
        assert stage.commit((999, 0), version=version) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert stage.commit((1000, 1), version=version) is ErrorCode.PRODUCER_FENCED
        assert stage.commit((1000, -1), version=version) is ErrorCode.PRODUCER_FENCED
        assert stage.state() is State.ONGOING

    play(scenario)


# -- transaction version 2


@pytest.mark.parametrize("is_commit", [True, False])
def test_every_end_raises_the_epoch(is_commit: bool) -> None:
    async def scenario(stage: Coordination) -> None:
        open_transaction(stage)
        for epoch in range(5):
            assert stage.end((1000, epoch), is_commit=is_commit) == (1000, epoch + 1)
            assert stage.add((1000, epoch), ORDERS_0) is ErrorCode.PRODUCER_FENCED
            assert stage.add((1000, epoch + 1), ORDERS_0) is ErrorCode.NONE
        markers = stage.partitions.written[ORDERS_0]
        assert [marker.producer_epoch for marker in markers] == [1, 2, 3, 4, 5]

    play(scenario)


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_that_is_repeated_is_told_the_same(is_commit: bool) -> None:
    async def scenario(stage: Coordination) -> None:
        open_transaction(stage)
        stage.partitions.is_holding = True
        assert stage.end(ME, is_commit=is_commit) == NEXT
        assert stage.end(ME, is_commit=is_commit) is ErrorCode.CONCURRENT_TRANSACTIONS
        stage.partitions.release()
        assert stage.end(ME, is_commit=is_commit) == NEXT
        assert stage.partitions.ends(ORDERS_0) == [is_commit]
        await stage.restart()
        assert stage.end(ME, is_commit=is_commit) == NEXT

    play(scenario)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_repetition_cannot_change_what_was_decided(is_commit: bool) -> None:
    async def scenario(stage: Coordination) -> None:
        open_transaction(stage)
        stage.partitions.is_holding = True
        stage.end(ME, is_commit=is_commit)
        assert stage.end(ME, is_commit=not is_commit) is ErrorCode.INVALID_TXN_STATE
        stage.partitions.release()
        assert stage.end(ME, is_commit=not is_commit) is ErrorCode.INVALID_TXN_STATE

    play(scenario)


def test_the_next_end_waits_while_the_last_goes_on() -> None:
    """Kafka fences a producer that begins and rolls back faster than its markers are written."""

    async def scenario(stage: Coordination) -> None:
        open_transaction(stage)
        stage.partitions.is_holding = True
        stage.commit(ME)
        assert stage.commit(NEXT) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert stage.abort(NEXT) is ErrorCode.CONCURRENT_TRANSACTIONS

    play(scenario)


@pytest.mark.parametrize("last", [None, True, False])
def test_a_transaction_without_partitions_can_be_rolled_back_and_not_committed(last: bool | None) -> None:
    async def scenario(stage: Coordination) -> None:
        me = ME
        if last is None:
            stage.init()
        else:
            open_transaction(stage)
            stage.end(ME, is_commit=last)
            me = NEXT
        assert stage.commit(me) is ErrorCode.INVALID_TXN_STATE
        assert stage.abort(me) == (1000, me[1] + 1)
        transaction = stage.transaction()
        assert (transaction.state, transaction.partitions) == (State.COMPLETE_ABORT, ())
        assert transaction.start_ms == WALL_MS
        assert stage.abort(me) == (1000, me[1] + 1), "it is repeated"
        assert stage.commit(me) is ErrorCode.INVALID_TXN_STATE

    play(scenario)


@pytest.mark.parametrize("is_commit", [True, False])
def test_when_epochs_are_used_up_an_end_gives_the_producer_another_id(is_commit: bool) -> None:
    async def scenario(stage: Coordination) -> None:
        me = (7, LAST_EPOCH)
        stage.put(Transaction(*me, TIMEOUT_MS, State.EMPTY, (), -1, WALL_MS))
        stage.add(me, ORDERS_0)
        stage.partitions.is_holding = True
        assert stage.end(me, is_commit=is_commit) == (1000, 0)
        assert stage.end(me, is_commit=is_commit) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert stage.add((1000, 0), ORDERS_0) is ErrorCode.CONCURRENT_TRANSACTIONS

        stage.partitions.release()
        (marker,) = stage.partitions.written[ORDERS_0]
        assert (marker.producer_id, marker.producer_epoch) == (7, LAST_EPOCH + 1)
        assert stage.end(me, is_commit=is_commit) == (1000, 0), "it is repeated"
        assert stage.end(me, is_commit=not is_commit) is ErrorCode.INVALID_TXN_STATE
        await stage.restart()
        assert stage.end(me, is_commit=is_commit) == (1000, 0)
        assert stage.add((1000, 0), ORDERS_0) is ErrorCode.NONE
        assert stage.end(me, is_commit=is_commit) is ErrorCode.INVALID_PRODUCER_ID_MAPPING

    play(scenario)


def test_a_producer_whose_end_was_not_answered_may_begin_anew_with_the_epoch_it_has() -> None:
    async def scenario(stage: Coordination) -> None:
        open_transaction(stage)
        stage.commit(ME)
        assert stage.init(expected=ME) == NEXT

    play(scenario)


def test_a_client_may_change_its_dialect_between_transactions() -> None:
    async def scenario(stage: Coordination) -> None:
        open_transaction(stage)
        assert stage.commit(ME) == NEXT
        assert stage.add(NEXT, ORDERS_0, is_version_2=False) is ErrorCode.NONE
        assert stage.commit(NEXT, version=OLD) == NEXT
        assert stage.add(NEXT, ORDERS_0) is ErrorCode.NONE
        assert stage.commit(NEXT) == (1000, 2)
        versions = [marker.transaction_version for marker in stage.partitions.written[ORDERS_0]]
        assert versions == [2, 0, 2]

    play(scenario)


def test_a_refused_write_decides_nothing() -> None:
    async def scenario(stage: Coordination) -> None:
        open_transaction(stage)
        stage.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        assert stage.commit(ME) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert stage.partitions.attempts == []
        stage.log.refusal = None
        assert stage.abort(ME) == NEXT
        assert stage.partitions.ends(ORDERS_0) == [False]

    play(scenario)


@pytest.mark.parametrize(("transaction_version", "version"), [(0, 0), (1, 1), (2, 1)])
def test_the_clusters_transaction_version_says_how_records_are_written(
    transaction_version: int, version: int
) -> None:
    async def scenario(stage: Coordination) -> None:
        open_transaction(stage, is_version_2=transaction_version == 2)
        stage.commit(ME, version=5 if transaction_version == 2 else OLD)
        assert stage.state() is State.COMPLETE_COMMIT
        assert stage.value_versions() == [version] * 4

    play(scenario, transaction_version=transaction_version)


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_epoch_that_nobody_was_given_cannot_break_the_end(is_commit: bool) -> None:
    """The epoch that locks out the last one is the greatest there is. Nobody knows it, but anybody can guess it."""

    async def scenario(stage: Coordination) -> None:
        stranger = (7, LAST_EPOCH + 1)
        stage.put(Transaction(*stranger, 5_000, State.COMPLETE_ABORT, (), WALL_MS, WALL_MS, 2))
        stage.add(stranger, ORDERS_0)
        assert stage.end(stranger, is_commit=is_commit) == (1000, 0)

        (marker,) = stage.partitions.written[ORDERS_0]
        assert (marker.producer_id, marker.producer_epoch) == (7, LAST_EPOCH + 1)

    play(scenario)
