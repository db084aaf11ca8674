"""Two-phase commit (KIP-939): prepared transactions outlive their producer and have no timeout."""

from __future__ import annotations

import asyncio

import pytest

from harness.transaction_shards import ORDERS_0, ORDERS_1, TIMEOUT_MS, WALL_MS, Coordination, play
from penstock.coordinator.txn.transaction import NEVER_MS, State, Transaction
from penstock.protocol.errors import ErrorCode

ENABLED = {"transaction.two.phase.commit.enable": "true"}
ME = (1000, 0)
LAST_EPOCH = 32_766
DAY = 24 * 3600


def prepare(harness: Coordination) -> None:
    """Preparing changes nothing in the coordinator: the transaction stays open."""
    assert harness.init(enable_2pc=True) == ME
    assert harness.add(ME, ORDERS_0, ORDERS_1) is ErrorCode.NONE


def come_back(harness: Coordination) -> object:
    return harness.init(enable_2pc=True, keep_prepared_txn=True)


def test_two_phase_commit_has_to_be_enabled() -> None:
    async def scenario(harness: Coordination) -> None:
        assert harness.init(enable_2pc=True) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert harness.init() == ME

    play(scenario)


def test_a_prepared_transaction_never_times_out() -> None:
    async def scenario(harness: Coordination) -> None:
        prepare(harness)
        await asyncio.sleep(20 * DAY)
        await harness.restart()
        await asyncio.sleep(20 * DAY)
        assert harness.state() is State.ONGOING
        assert harness.transaction().timeout_ms == NEVER_MS
        assert harness.commit(ME) == (1000, 1)

    play(scenario, ENABLED)


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("crash_count", [1, 3])
def test_a_producer_that_resumes_gets_the_open_transaction_and_ends_it(
    crash_count: int, is_commit: bool
) -> None:
    async def scenario(harness: Coordination) -> None:
        prepare(harness)
        for crash in range(1, crash_count + 1):
            assert come_back(harness) == (1000, crash, *ME)
        me = (1000, crash_count)
        assert harness.partitions.attempts == []

        assert harness.end(me, is_commit=is_commit) == (1000, crash_count + 1)
        (marker,) = harness.partitions.written[ORDERS_0]
        assert (marker.is_commit, marker.producer_id) == (is_commit, 1000)
        assert marker.producer_epoch == crash_count + 1, "above that of the records"
        assert harness.end(me, is_commit=is_commit) == (1000, crash_count + 1), "it is repeated"
        assert harness.end(me, is_commit=not is_commit) is ErrorCode.INVALID_TXN_STATE
        assert harness.add((1000, crash_count + 1), ORDERS_0) is ErrorCode.NONE

    play(scenario, ENABLED)


def test_the_previous_producer_can_neither_end_nor_write() -> None:
    async def scenario(harness: Coordination) -> None:
        prepare(harness)
        come_back(harness)
        come_back(harness)
        for stale in (ME, (1000, 1)):
            assert harness.commit(stale) is ErrorCode.PRODUCER_FENCED
            assert harness.commit(stale, version=4) is ErrorCode.PRODUCER_FENCED
            assert harness.add(stale, ORDERS_0) is ErrorCode.PRODUCER_FENCED
            assert harness.add(stale, ORDERS_0, verify_only=True) is ErrorCode.PRODUCER_FENCED
        assert harness.state() is State.ONGOING

    play(scenario, ENABLED)


def test_a_producer_that_resumes_cannot_write_before_it_has_ended_the_open_transaction() -> None:
    async def scenario(harness: Coordination) -> None:
        prepare(harness)
        come_back(harness)
        me = (1000, 1)
        assert harness.add(me, ORDERS_0) is ErrorCode.INVALID_TXN_STATE
        assert harness.add(me, ORDERS_0, verify_only=True) is ErrorCode.INVALID_TXN_STATE
        assert harness.add(me, ORDERS_0, is_version_2=False) is ErrorCode.INVALID_TXN_STATE

    play(scenario, ENABLED)


def test_without_an_open_transaction_keep_prepared_has_no_effect() -> None:
    async def scenario(harness: Coordination) -> None:
        assert come_back(harness) == (1000, 0)
        harness.add(ME, ORDERS_0)
        harness.commit(ME)
        assert come_back(harness) == (1000, 2)

    play(scenario, ENABLED)


@pytest.mark.parametrize("is_kept", [False, True])
def test_an_operator_aborts_a_forgotten_transaction_with_init_producer_id(is_kept: bool) -> None:
    async def scenario(harness: Coordination) -> None:
        prepare(harness)
        if is_kept:
            come_back(harness)
        assert harness.init() is ErrorCode.CONCURRENT_TRANSACTIONS
        assert harness.partitions.ends(ORDERS_0) == harness.partitions.ends(ORDERS_1) == [False]
        client_epoch = 1 if is_kept else 0
        assert harness.partitions.written[ORDERS_0][0].producer_epoch == client_epoch + 1
        assert harness.init() == (1000, client_epoch + 2)
        assert harness.commit((1000, client_epoch)) is ErrorCode.PRODUCER_FENCED
        assert harness.transaction().timeout_ms == TIMEOUT_MS

    play(scenario, ENABLED)


def test_a_transaction_that_is_being_completed_cannot_be_resumed() -> None:
    async def scenario(harness: Coordination) -> None:
        prepare(harness)
        harness.partitions.is_holding = True
        harness.commit(ME)
        assert come_back(harness) is ErrorCode.CONCURRENT_TRANSACTIONS
        harness.partitions.release()
        assert come_back(harness) == (1000, 2)

    play(scenario, ENABLED)


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_prepared_transaction_survives_a_change_of_coordinator_at_every_step(is_commit: bool) -> None:
    async def scenario(harness: Coordination) -> None:
        prepare(harness)
        await harness.restart()
        assert come_back(harness) == (1000, 1, *ME)
        await harness.restart()
        assert harness.commit(ME) is ErrorCode.PRODUCER_FENCED
        harness.partitions.is_holding = True
        assert harness.end((1000, 1), is_commit=is_commit) == (1000, 2)
        harness.partitions.release(ORDERS_1)
        await harness.restart()
        assert harness.end((1000, 1), is_commit=is_commit) is ErrorCode.CONCURRENT_TRANSACTIONS
        harness.partitions.release()
        assert set(harness.partitions.ends(ORDERS_0)) == {is_commit}
        await harness.restart()
        assert harness.end((1000, 1), is_commit=is_commit) == (1000, 2)
        assert harness.add((1000, 2), ORDERS_0) is ErrorCode.NONE

    play(scenario, ENABLED)


def open_at(harness: Coordination, epoch: int) -> None:
    harness.put(
        Transaction(7, epoch, NEVER_MS, State.ONGOING, (ORDERS_0,), WALL_MS, WALL_MS, client_version=2)
    )


@pytest.mark.parametrize("is_commit", [True, False])
def test_resuming_with_exhausted_epochs_gives_the_client_a_new_producer_id(is_commit: bool) -> None:
    async def scenario(harness: Coordination) -> None:
        open_at(harness, LAST_EPOCH)
        assert come_back(harness) == (1000, 0, 7, LAST_EPOCH)
        assert come_back(harness) == (1000, 1, 7, LAST_EPOCH)
        assert harness.commit((7, LAST_EPOCH)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        await harness.restart()
        harness.partitions.is_holding = True
        assert harness.end((1000, 1), is_commit=is_commit) == (1000, 2)
        assert harness.end((1000, 1), is_commit=is_commit) is ErrorCode.CONCURRENT_TRANSACTIONS
        harness.partitions.release()
        (marker,) = harness.partitions.written[ORDERS_0]
        assert (marker.producer_id, marker.producer_epoch) == (7, LAST_EPOCH + 1)
        await harness.restart()
        assert harness.end((1000, 1), is_commit=is_commit) == (1000, 2), "it is repeated"
        assert harness.add((1000, 2), ORDERS_0) is ErrorCode.NONE

    play(scenario, ENABLED)


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_with_exhausted_epochs_gives_the_client_a_new_producer_id(is_commit: bool) -> None:
    async def scenario(harness: Coordination) -> None:
        open_at(harness, LAST_EPOCH - 1)
        assert come_back(harness) == (7, LAST_EPOCH, 7, LAST_EPOCH - 1)
        harness.partitions.is_holding = True
        assert harness.end((7, LAST_EPOCH), is_commit=is_commit) == (1000, 0)
        await harness.restart()
        assert harness.end((7, LAST_EPOCH), is_commit=is_commit) is ErrorCode.CONCURRENT_TRANSACTIONS
        harness.partitions.release()
        assert {marker.producer_epoch for marker in harness.partitions.written[ORDERS_0]} == {LAST_EPOCH}
        assert harness.end((7, LAST_EPOCH), is_commit=is_commit) == (1000, 0), "it is repeated"

    play(scenario, ENABLED)


def test_epochs_can_be_exhausted_twice_in_one_transaction() -> None:
    async def scenario(harness: Coordination) -> None:
        open_at(harness, LAST_EPOCH)
        assert come_back(harness) == (1000, 0, 7, LAST_EPOCH)
        harness.put(harness.transaction()._replace(next_producer_epoch=LAST_EPOCH))
        harness.partitions.is_holding = True
        assert harness.commit((1000, LAST_EPOCH)) == (1001, 0)
        await harness.restart()
        assert harness.commit((1000, LAST_EPOCH)) is ErrorCode.CONCURRENT_TRANSACTIONS
        harness.partitions.release()
        (marker, *_) = harness.partitions.written[ORDERS_0]
        assert (marker.producer_id, marker.producer_epoch) == (7, LAST_EPOCH + 1)
        assert harness.commit((1000, LAST_EPOCH)) == (1001, 0), "it is repeated"
        assert harness.add((1001, 0), ORDERS_0) is ErrorCode.NONE

    play(scenario, ENABLED)


def test_a_prepared_transaction_may_be_kept_with_a_timeout() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init(timeout_ms=5_000)
        harness.add(ME, ORDERS_0)
        await asyncio.sleep(4)
        assert harness.init(timeout_ms=5_000, keep_prepared_txn=True) == (1000, 1, *ME)
        await asyncio.sleep(4)
        assert harness.state() is State.ONGOING
        await harness.restart()
        await asyncio.sleep(2)
        assert harness.state() is State.COMPLETE_ABORT
        assert harness.commit((1000, 1)) is ErrorCode.INVALID_TXN_STATE

    play(scenario)


def test_a_client_that_sends_its_identity_must_be_the_current_producer() -> None:
    async def scenario(harness: Coordination) -> None:
        prepare(harness)
        assert harness.init(expected=(1000, 5), keep_prepared_txn=True) is ErrorCode.PRODUCER_FENCED
        assert harness.init(expected=ME, keep_prepared_txn=True) == (1000, 1, *ME)
        assert harness.init(expected=ME, keep_prepared_txn=True) == (1000, 1, *ME), "it is repeated"
        assert harness.init(expected=(1000, 1), keep_prepared_txn=True) == (1000, 2, *ME)
        assert harness.init(expected=ME, keep_prepared_txn=True) is ErrorCode.PRODUCER_FENCED
        assert harness.init(keep_prepared_txn=True) == (1000, 3, *ME)
        assert harness.init(expected=(1000, 1), keep_prepared_txn=True) is ErrorCode.PRODUCER_FENCED

    play(scenario, ENABLED)


@pytest.mark.parametrize("transaction_version", [0, 1])
def test_prepared_transactions_work_with_an_old_transaction_version_too(transaction_version: int) -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init(enable_2pc=True)
        harness.add(ME, ORDERS_0, is_version_2=False)
        assert come_back(harness) == (1000, 1, *ME)
        await harness.restart()
        assert harness.commit(ME, version=4) is ErrorCode.PRODUCER_FENCED
        assert harness.commit((1000, 1), version=4) == (1000, 1)
        assert harness.partitions.written[ORDERS_0][0].producer_epoch == 1

    play(scenario, ENABLED, transaction_version=transaction_version)
