"""Transactions that somebody else decides over (KIP-939): they outlive their producer, and wait as long as it takes."""

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


def prepare(stage: Coordination) -> None:
    """Of Kafka's view nothing happens when a client prepares: the transaction is open."""
    assert stage.init(enable_2pc=True) == ME
    assert stage.add(ME, ORDERS_0, ORDERS_1) is ErrorCode.NONE


def come_back(stage: Coordination) -> object:
    return stage.init(enable_2pc=True, keep_prepared_txn=True)


def test_it_has_to_be_enabled() -> None:
    async def scenario(stage: Coordination) -> None:
        assert stage.init(enable_2pc=True) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert stage.init() == ME

    play(scenario)


def test_a_prepared_transaction_never_times_out() -> None:
    async def scenario(stage: Coordination) -> None:
        prepare(stage)
        await asyncio.sleep(20 * DAY)
        await stage.restart()
        await asyncio.sleep(20 * DAY)
        assert stage.state() is State.ONGOING
        assert stage.transaction().timeout_ms == NEVER_MS
        assert stage.commit(ME) == (1000, 1)

    play(scenario, ENABLED)


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("crash_count", [1, 3])
def test_who_comes_back_learns_which_transaction_is_open_and_ends_it(
    crash_count: int, is_commit: bool
) -> None:
    async def scenario(stage: Coordination) -> None:
        prepare(stage)
        for crash in range(1, crash_count + 1):
            assert come_back(stage) == (1000, crash, *ME)
        me = (1000, crash_count)
        assert stage.partitions.attempts == []

        assert stage.end(me, is_commit=is_commit) == (1000, crash_count + 1)
        (marker,) = stage.partitions.written[ORDERS_0]
        assert (marker.is_commit, marker.producer_id) == (is_commit, 1000)
        assert marker.producer_epoch == crash_count + 1, "above that of the records"
        assert stage.end(me, is_commit=is_commit) == (1000, crash_count + 1), "it is repeated"
        assert stage.end(me, is_commit=not is_commit) is ErrorCode.INVALID_TXN_STATE
        assert stage.add((1000, crash_count + 1), ORDERS_0) is ErrorCode.NONE

    play(scenario, ENABLED)


def test_who_was_there_before_can_neither_end_nor_write() -> None:
    async def scenario(stage: Coordination) -> None:
        prepare(stage)
        come_back(stage)
        come_back(stage)
        for stale in (ME, (1000, 1)):
            assert stage.commit(stale) is ErrorCode.PRODUCER_FENCED
            assert stage.commit(stale, version=4) is ErrorCode.PRODUCER_FENCED
            assert stage.add(stale, ORDERS_0) is ErrorCode.PRODUCER_FENCED
            assert stage.add(stale, ORDERS_0, verify_only=True) is ErrorCode.PRODUCER_FENCED
        assert stage.state() is State.ONGOING

    play(scenario, ENABLED)


def test_who_comes_back_cannot_write_before_it_has_ended_what_is_open() -> None:
    async def scenario(stage: Coordination) -> None:
        prepare(stage)
        come_back(stage)
        me = (1000, 1)
        assert stage.add(me, ORDERS_0) is ErrorCode.INVALID_TXN_STATE
        assert stage.add(me, ORDERS_0, verify_only=True) is ErrorCode.INVALID_TXN_STATE
        assert stage.add(me, ORDERS_0, is_version_2=False) is ErrorCode.INVALID_TXN_STATE

    play(scenario, ENABLED)


def test_without_an_open_transaction_it_is_an_ordinary_begin() -> None:
    async def scenario(stage: Coordination) -> None:
        assert come_back(stage) == (1000, 0)
        stage.add(ME, ORDERS_0)
        stage.commit(ME)
        assert come_back(stage) == (1000, 2)

    play(scenario, ENABLED)


@pytest.mark.parametrize("is_kept", [False, True])
def test_an_operator_rolls_a_forgotten_one_back_by_beginning_anew(is_kept: bool) -> None:
    async def scenario(stage: Coordination) -> None:
        prepare(stage)
        if is_kept:
            come_back(stage)
        assert stage.init() is ErrorCode.CONCURRENT_TRANSACTIONS
        assert stage.partitions.ends(ORDERS_0) == stage.partitions.ends(ORDERS_1) == [False]
        client_epoch = 1 if is_kept else 0
        assert stage.partitions.written[ORDERS_0][0].producer_epoch == client_epoch + 1
        assert stage.init() == (1000, client_epoch + 2)
        assert stage.commit((1000, client_epoch)) is ErrorCode.PRODUCER_FENCED
        assert stage.transaction().timeout_ms == TIMEOUT_MS

    play(scenario, ENABLED)


def test_while_it_is_being_ended_nobody_comes_back() -> None:
    async def scenario(stage: Coordination) -> None:
        prepare(stage)
        stage.partitions.is_holding = True
        stage.commit(ME)
        assert come_back(stage) is ErrorCode.CONCURRENT_TRANSACTIONS
        stage.partitions.release()
        assert come_back(stage) == (1000, 2)

    play(scenario, ENABLED)


@pytest.mark.parametrize("is_commit", [True, False])
def test_it_survives_a_change_of_coordinator_at_every_step(is_commit: bool) -> None:
    async def scenario(stage: Coordination) -> None:
        prepare(stage)
        await stage.restart()
        assert come_back(stage) == (1000, 1, *ME)
        await stage.restart()
        assert stage.commit(ME) is ErrorCode.PRODUCER_FENCED
        stage.partitions.is_holding = True
        assert stage.end((1000, 1), is_commit=is_commit) == (1000, 2)
        stage.partitions.release(ORDERS_1)
        await stage.restart()
        assert stage.end((1000, 1), is_commit=is_commit) is ErrorCode.CONCURRENT_TRANSACTIONS
        stage.partitions.release()
        assert set(stage.partitions.ends(ORDERS_0)) == {is_commit}
        await stage.restart()
        assert stage.end((1000, 1), is_commit=is_commit) == (1000, 2)
        assert stage.add((1000, 2), ORDERS_0) is ErrorCode.NONE

    play(scenario, ENABLED)


def open_at(stage: Coordination, epoch: int) -> None:
    stage.put(Transaction(7, epoch, NEVER_MS, State.ONGOING, (ORDERS_0,), WALL_MS, WALL_MS, client_version=2))


@pytest.mark.parametrize("is_commit", [True, False])
def test_epochs_that_are_used_up_on_coming_back_give_the_client_another_id(is_commit: bool) -> None:
    async def scenario(stage: Coordination) -> None:
        open_at(stage, LAST_EPOCH)
        assert come_back(stage) == (1000, 0, 7, LAST_EPOCH)
        assert come_back(stage) == (1000, 1, 7, LAST_EPOCH)
        assert stage.commit((7, LAST_EPOCH)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        await stage.restart()
        stage.partitions.is_holding = True
        assert stage.end((1000, 1), is_commit=is_commit) == (1000, 2)
        assert stage.end((1000, 1), is_commit=is_commit) is ErrorCode.CONCURRENT_TRANSACTIONS
        stage.partitions.release()
        (marker,) = stage.partitions.written[ORDERS_0]
        assert (marker.producer_id, marker.producer_epoch) == (7, LAST_EPOCH + 1)
        await stage.restart()
        assert stage.end((1000, 1), is_commit=is_commit) == (1000, 2), "it is repeated"
        assert stage.add((1000, 2), ORDERS_0) is ErrorCode.NONE

    play(scenario, ENABLED)


@pytest.mark.parametrize("is_commit", [True, False])
def test_epochs_that_are_used_up_at_the_end_give_the_client_another_id(is_commit: bool) -> None:
    async def scenario(stage: Coordination) -> None:
        open_at(stage, LAST_EPOCH - 1)
        assert come_back(stage) == (7, LAST_EPOCH, 7, LAST_EPOCH - 1)
        stage.partitions.is_holding = True
        assert stage.end((7, LAST_EPOCH), is_commit=is_commit) == (1000, 0)
        await stage.restart()
        assert stage.end((7, LAST_EPOCH), is_commit=is_commit) is ErrorCode.CONCURRENT_TRANSACTIONS
        stage.partitions.release()
        assert {marker.producer_epoch for marker in stage.partitions.written[ORDERS_0]} == {LAST_EPOCH}
        assert stage.end((7, LAST_EPOCH), is_commit=is_commit) == (1000, 0), "it is repeated"

    play(scenario, ENABLED)


def test_epochs_can_be_used_up_twice_in_one_transaction() -> None:
    async def scenario(stage: Coordination) -> None:
        open_at(stage, LAST_EPOCH)
        assert come_back(stage) == (1000, 0, 7, LAST_EPOCH)
        stage.put(stage.transaction()._replace(next_producer_epoch=LAST_EPOCH))
        stage.partitions.is_holding = True
        assert stage.commit((1000, LAST_EPOCH)) == (1001, 0)
        await stage.restart()
        assert stage.commit((1000, LAST_EPOCH)) is ErrorCode.CONCURRENT_TRANSACTIONS
        stage.partitions.release()
        (marker, *_) = stage.partitions.written[ORDERS_0]
        assert (marker.producer_id, marker.producer_epoch) == (7, LAST_EPOCH + 1)
        assert stage.commit((1000, LAST_EPOCH)) == (1001, 0), "it is repeated"
        assert stage.add((1001, 0), ORDERS_0) is ErrorCode.NONE

    play(scenario, ENABLED)


def test_a_transaction_may_be_kept_without_giving_up_its_timeout() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init(timeout_ms=5_000)
        stage.add(ME, ORDERS_0)
        await asyncio.sleep(4)
        assert stage.init(timeout_ms=5_000, keep_prepared_txn=True) == (1000, 1, *ME)
        await asyncio.sleep(4)
        assert stage.state() is State.ONGOING
        await stage.restart()
        await asyncio.sleep(2)
        assert stage.state() is State.COMPLETE_ABORT
        assert stage.commit((1000, 1)) is ErrorCode.INVALID_TXN_STATE

    play(scenario)


def test_a_client_that_says_who_it_is_must_be_the_last_one() -> None:
    async def scenario(stage: Coordination) -> None:
        prepare(stage)
        assert stage.init(expected=(1000, 5), keep_prepared_txn=True) is ErrorCode.PRODUCER_FENCED
        assert stage.init(expected=ME, keep_prepared_txn=True) == (1000, 1, *ME)
        assert stage.init(expected=ME, keep_prepared_txn=True) == (1000, 1, *ME), "it is repeated"
        assert stage.init(expected=(1000, 1), keep_prepared_txn=True) == (1000, 2, *ME)
        assert stage.init(expected=ME, keep_prepared_txn=True) is ErrorCode.PRODUCER_FENCED
        assert stage.init(keep_prepared_txn=True) == (1000, 3, *ME)
        assert stage.init(expected=(1000, 1), keep_prepared_txn=True) is ErrorCode.PRODUCER_FENCED

    play(scenario, ENABLED)


@pytest.mark.parametrize("transaction_version", [0, 1])
def test_an_old_transaction_version_keeps_and_ends_too(transaction_version: int) -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init(enable_2pc=True)
        stage.add(ME, ORDERS_0, is_version_2=False)
        assert come_back(stage) == (1000, 1, *ME)
        await stage.restart()
        assert stage.commit(ME, version=4) is ErrorCode.PRODUCER_FENCED
        assert stage.commit((1000, 1), version=4) == (1000, 1)
        assert stage.partitions.written[ORDERS_0][0].producer_epoch == 1

    play(scenario, ENABLED, transaction_version=transaction_version)
