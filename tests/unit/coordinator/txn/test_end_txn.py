"""EndTxn in both transaction versions, with retried and invalid requests."""

from __future__ import annotations

import pytest

from harness.transaction_shards import ORDERS_0, TIMEOUT_MS, WALL_MS, Coordination, play
from penstock.coordinator.txn.transaction import State, Transaction
from penstock.protocol.errors import ErrorCode

ME = (1000, 0)
NEXT = (1000, 1)
LAST_EPOCH = 32_766
OLD = 4
"""A version of EndTxn that does not bump the epoch."""


def open_transaction(harness: Coordination, *, is_version_2: bool = True) -> None:
    assert harness.init() == ME
    assert harness.add(ME, ORDERS_0, is_version_2=is_version_2) is ErrorCode.NONE


# -- before transaction version 2


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_old_client_keeps_its_epoch(is_commit: bool) -> None:
    async def scenario(harness: Coordination) -> None:
        open_transaction(harness, is_version_2=False)
        assert harness.end(ME, is_commit=is_commit, version=OLD) == ME
        (marker,) = harness.partitions.written[ORDERS_0]
        assert (marker.is_commit, marker.producer_epoch, marker.transaction_version) == (is_commit, 0, 0)
        assert harness.end(ME, is_commit=is_commit, version=OLD) == ME, "it is repeated"
        assert harness.add(ME, ORDERS_0, is_version_2=False) is ErrorCode.NONE

    play(scenario)


def test_an_old_client_cannot_change_the_end_of_a_transaction() -> None:
    async def scenario(harness: Coordination) -> None:
        open_transaction(harness, is_version_2=False)
        harness.partitions.is_holding = True
        harness.commit(ME, version=OLD)
        assert harness.commit(ME, version=OLD) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert harness.abort(ME, version=OLD) is ErrorCode.INVALID_TXN_STATE
        harness.partitions.release()
        assert harness.abort(ME, version=OLD) is ErrorCode.INVALID_TXN_STATE

    play(scenario)


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_old_client_cannot_end_a_transaction_that_did_not_start(is_commit: bool) -> None:
    async def scenario(harness: Coordination) -> None:
        assert harness.end(ME, is_commit=is_commit, version=OLD) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        harness.init()
        assert harness.end(ME, is_commit=is_commit, version=OLD) is ErrorCode.INVALID_TXN_STATE

    play(scenario)


@pytest.mark.parametrize("version", [OLD, 5])
def test_only_the_producer_ends_its_transaction(version: int) -> None:
    async def scenario(harness: Coordination) -> None:
        open_transaction(harness)
        assert harness.commit((999, 0), version=version) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert harness.commit((1000, 1), version=version) is ErrorCode.PRODUCER_FENCED
        assert harness.commit((1000, -1), version=version) is ErrorCode.PRODUCER_FENCED
        assert harness.state() is State.ONGOING

    play(scenario)


# -- transaction version 2


@pytest.mark.parametrize("is_commit", [True, False])
def test_every_end_bumps_the_epoch(is_commit: bool) -> None:
    async def scenario(harness: Coordination) -> None:
        open_transaction(harness)
        for epoch in range(5):
            assert harness.end((1000, epoch), is_commit=is_commit) == (1000, epoch + 1)
            assert harness.add((1000, epoch), ORDERS_0) is ErrorCode.PRODUCER_FENCED
            assert harness.add((1000, epoch + 1), ORDERS_0) is ErrorCode.NONE
        markers = harness.partitions.written[ORDERS_0]
        assert [marker.producer_epoch for marker in markers] == [1, 2, 3, 4, 5]

    play(scenario)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_retried_end_gets_the_same_response(is_commit: bool) -> None:
    async def scenario(harness: Coordination) -> None:
        open_transaction(harness)
        harness.partitions.is_holding = True
        assert harness.end(ME, is_commit=is_commit) == NEXT
        assert harness.end(ME, is_commit=is_commit) is ErrorCode.CONCURRENT_TRANSACTIONS
        harness.partitions.release()
        assert harness.end(ME, is_commit=is_commit) == NEXT
        assert harness.partitions.ends(ORDERS_0) == [is_commit]
        await harness.restart()
        assert harness.end(ME, is_commit=is_commit) == NEXT

    play(scenario)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_retry_cannot_change_the_end_of_a_transaction(is_commit: bool) -> None:
    async def scenario(harness: Coordination) -> None:
        open_transaction(harness)
        harness.partitions.is_holding = True
        harness.end(ME, is_commit=is_commit)
        assert harness.end(ME, is_commit=not is_commit) is ErrorCode.INVALID_TXN_STATE
        harness.partitions.release()
        assert harness.end(ME, is_commit=not is_commit) is ErrorCode.INVALID_TXN_STATE

    play(scenario)


def test_an_end_is_refused_while_the_last_one_is_being_completed() -> None:
    """Kafka fences a producer that starts and aborts faster than its markers are written."""

    async def scenario(harness: Coordination) -> None:
        open_transaction(harness)
        harness.partitions.is_holding = True
        harness.commit(ME)
        assert harness.commit(NEXT) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert harness.abort(NEXT) is ErrorCode.CONCURRENT_TRANSACTIONS

    play(scenario)


@pytest.mark.parametrize("last", [None, True, False])
def test_a_transaction_without_partitions_can_be_aborted_but_not_committed(last: bool | None) -> None:
    async def scenario(harness: Coordination) -> None:
        me = ME
        if last is None:
            harness.init()
        else:
            open_transaction(harness)
            harness.end(ME, is_commit=last)
            me = NEXT
        assert harness.commit(me) is ErrorCode.INVALID_TXN_STATE
        assert harness.abort(me) == (1000, me[1] + 1)
        transaction = harness.transaction()
        assert (transaction.state, transaction.partitions) == (State.COMPLETE_ABORT, ())
        assert transaction.start_ms == WALL_MS
        assert harness.abort(me) == (1000, me[1] + 1), "it is repeated"
        assert harness.commit(me) is ErrorCode.INVALID_TXN_STATE

    play(scenario)


@pytest.mark.parametrize("is_commit", [True, False])
def test_when_epochs_are_exhausted_an_end_gives_the_producer_a_new_id(is_commit: bool) -> None:
    async def scenario(harness: Coordination) -> None:
        me = (7, LAST_EPOCH)
        harness.put(Transaction(*me, TIMEOUT_MS, State.EMPTY, (), -1, WALL_MS))
        harness.add(me, ORDERS_0)
        harness.partitions.is_holding = True
        assert harness.end(me, is_commit=is_commit) == (1000, 0)
        assert harness.end(me, is_commit=is_commit) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert harness.add((1000, 0), ORDERS_0) is ErrorCode.CONCURRENT_TRANSACTIONS

        harness.partitions.release()
        (marker,) = harness.partitions.written[ORDERS_0]
        assert (marker.producer_id, marker.producer_epoch) == (7, LAST_EPOCH + 1)
        assert harness.end(me, is_commit=is_commit) == (1000, 0), "it is repeated"
        assert harness.end(me, is_commit=not is_commit) is ErrorCode.INVALID_TXN_STATE
        await harness.restart()
        assert harness.end(me, is_commit=is_commit) == (1000, 0)
        assert harness.add((1000, 0), ORDERS_0) is ErrorCode.NONE
        assert harness.end(me, is_commit=is_commit) is ErrorCode.INVALID_PRODUCER_ID_MAPPING

    play(scenario)


def test_a_producer_that_missed_the_response_to_its_end_may_reinitialize_with_its_old_epoch() -> None:
    async def scenario(harness: Coordination) -> None:
        open_transaction(harness)
        harness.commit(ME)
        assert harness.init(expected=ME) == NEXT

    play(scenario)


def test_a_client_may_change_its_transaction_version_between_transactions() -> None:
    async def scenario(harness: Coordination) -> None:
        open_transaction(harness)
        assert harness.commit(ME) == NEXT
        assert harness.add(NEXT, ORDERS_0, is_version_2=False) is ErrorCode.NONE
        assert harness.commit(NEXT, version=OLD) == NEXT
        assert harness.add(NEXT, ORDERS_0) is ErrorCode.NONE
        assert harness.commit(NEXT) == (1000, 2)
        versions = [marker.transaction_version for marker in harness.partitions.written[ORDERS_0]]
        assert versions == [2, 0, 2]

    play(scenario)


def test_a_refused_write_decides_nothing() -> None:
    async def scenario(harness: Coordination) -> None:
        open_transaction(harness)
        harness.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        assert harness.commit(ME) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert harness.partitions.attempts == []
        harness.log.refusal = None
        assert harness.abort(ME) == NEXT
        assert harness.partitions.ends(ORDERS_0) == [False]

    play(scenario)


@pytest.mark.parametrize(("transaction_version", "version"), [(0, 0), (1, 1), (2, 1)])
def test_the_clusters_transaction_version_decides_the_record_version(
    transaction_version: int, version: int
) -> None:
    async def scenario(harness: Coordination) -> None:
        open_transaction(harness, is_version_2=transaction_version == 2)
        harness.commit(ME, version=5 if transaction_version == 2 else OLD)
        assert harness.state() is State.COMPLETE_COMMIT
        assert harness.value_versions() == [version] * 4

    play(scenario, transaction_version=transaction_version)


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_unknown_epoch_cannot_end_the_transaction(is_commit: bool) -> None:
    """The epoch that fences the last one is the maximum. No client has it, but any client can guess it."""

    async def scenario(harness: Coordination) -> None:
        producer = (7, LAST_EPOCH + 1)
        harness.put(Transaction(*producer, 5_000, State.COMPLETE_ABORT, (), WALL_MS, WALL_MS, 2))
        harness.add(producer, ORDERS_0)
        assert harness.end(producer, is_commit=is_commit) == (1000, 0)

        (marker,) = harness.partitions.written[ORDERS_0]
        assert (marker.producer_id, marker.producer_epoch) == (7, LAST_EPOCH + 1)

    play(scenario)
