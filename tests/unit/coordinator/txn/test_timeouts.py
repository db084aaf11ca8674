"""Timeouts of transactions, and expiration of transactional ids."""

from __future__ import annotations

import asyncio

import pytest

from harness.transaction_shards import ORDERS_0, ORDERS_1, WALL_MS, Coordination, play
from penstock.coordinator.txn import expiry
from penstock.coordinator.txn.transaction import State, Transaction
from penstock.protocol.errors import ErrorCode

ME = (1000, 0)
HOUR = 3600
DAY = 24 * HOUR


async def pass_ms(duration_ms: int) -> None:
    await asyncio.sleep(duration_ms / 1000)


@pytest.mark.parametrize("transaction_version", [0, 1, 2])
def test_a_transaction_that_times_out_is_aborted(transaction_version: int) -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init(timeout_ms=5_000)
        await pass_ms(4_000)
        harness.add(ME, ORDERS_0)
        await pass_ms(4_000)
        harness.add(ME, ORDERS_1)
        await pass_ms(900)
        assert harness.state() is State.ONGOING

        await pass_ms(200)
        assert harness.state() is State.COMPLETE_ABORT
        assert harness.partitions.ends(ORDERS_0) == harness.partitions.ends(ORDERS_1) == [False]
        assert harness.partitions.written[ORDERS_0][0].producer_epoch == 1
        assert harness.add(ME, ORDERS_0) is ErrorCode.PRODUCER_FENCED
        assert harness.commit(ME, version=4) is ErrorCode.PRODUCER_FENCED
        assert harness.init() == (1000, 2)

    play(scenario, transaction_version=transaction_version)


def test_a_timeout_is_logged_with_the_transactional_id(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init(timeout_ms=5_000)
        harness.add(ME, ORDERS_0)
        await pass_ms(5_100)
        harness.init()
        harness.add((1000, 2), ORDERS_0)
        harness.commit((1000, 2))
        await pass_ms(HOUR * 1000)

    with caplog.at_level("INFO", logger="penstock.coordinator.txn"):
        play(scenario)
    assert caplog.text.count("it has been open for 5000 ms") == 1


def test_after_a_timeout_a_producer_may_abort_and_go_on_but_not_commit() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init(timeout_ms=5_000)
        harness.add(ME, ORDERS_0)
        harness.partitions.is_holding = True
        await pass_ms(5_100)
        assert harness.commit(ME) is ErrorCode.INVALID_TXN_STATE
        assert harness.abort(ME) is ErrorCode.CONCURRENT_TRANSACTIONS
        harness.partitions.release()
        assert harness.commit(ME) is ErrorCode.INVALID_TXN_STATE
        assert harness.abort(ME) == (1000, 1)
        assert harness.init(expected=ME) == (1000, 1)

    play(scenario)


@pytest.mark.parametrize("transaction_version", [0, 1])
def test_before_version_2_a_producer_is_fenced_for_good_after_a_timeout(
    transaction_version: int,
) -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init(timeout_ms=5_000)
        harness.add(ME, ORDERS_0, is_version_2=False)
        await pass_ms(5_100)
        assert harness.abort(ME, version=4) is ErrorCode.PRODUCER_FENCED
        assert harness.init(expected=ME) is ErrorCode.PRODUCER_FENCED

    play(scenario, transaction_version=transaction_version)


def test_after_a_timeout_with_its_last_epoch_a_producer_has_to_reinitialize() -> None:
    async def scenario(harness: Coordination) -> None:
        me = (7, 32_766)
        harness.put(Transaction(*me, 5_000, State.EMPTY, (), -1, WALL_MS))
        harness.add(me, ORDERS_0)
        await pass_ms(5_100)
        assert harness.partitions.written[ORDERS_0][0].producer_epoch == 32_767
        assert harness.abort(me) is ErrorCode.PRODUCER_FENCED
        assert harness.init() == (1000, 0)

    play(scenario)


def test_each_transaction_has_its_own_timeout() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init(timeout_ms=5_000)
        for epoch in range(4):
            harness.add((1000, epoch), ORDERS_0)
            await pass_ms(3_000)
            assert harness.commit((1000, epoch)) == (1000, epoch + 1)
        await pass_ms(60_000)
        assert harness.state() is State.COMPLETE_COMMIT
        assert harness.partitions.ends(ORDERS_0) == [True] * 4

    play(scenario)


def test_a_loaded_transaction_has_the_rest_of_its_timeout() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init(timeout_ms=5_000)
        harness.add(ME, ORDERS_0)
        await pass_ms(3_000)
        await harness.restart()
        await pass_ms(1_500)
        assert harness.state() is State.ONGOING
        await pass_ms(1_000)
        assert harness.state() is State.COMPLETE_ABORT

    play(scenario)


def test_a_transaction_that_timed_out_before_loading_is_aborted_at_once() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init(timeout_ms=5_000)
        harness.add(ME, ORDERS_0)
        harness.coordinator.resigned(0)
        await pass_ms(60_000)
        await harness.restart()
        assert harness.state() is State.COMPLETE_ABORT

    play(scenario)


def test_a_clock_that_was_ahead_does_not_keep_a_transaction_open() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init(timeout_ms=5_000)
        harness.clock_offset_ms = 10 * DAY * 1000
        harness.add(ME, ORDERS_0)
        harness.clock_offset_ms = 0
        await harness.restart()
        await pass_ms(5_100)
        assert harness.state() is State.COMPLETE_ABORT

    play(scenario)


def test_a_timeout_that_the_log_refuses_is_retried() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init(timeout_ms=5_000)
        harness.add(ME, ORDERS_0)
        harness.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        await pass_ms(10_000)
        assert harness.state() is State.ONGOING
        harness.log.refusal = None
        await pass_ms(1_000)
        assert harness.state() is State.COMPLETE_ABORT
        assert harness.partitions.written[ORDERS_0][0].producer_epoch == 1

    play(scenario)


def test_an_id_expires_after_its_last_use() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init("idle")
        harness.init("used")
        harness.add((1001, 0), ORDERS_0, transactional_id="used")
        await asyncio.sleep(4 * DAY)
        harness.add((1001, 2), ORDERS_0, transactional_id="used")
        harness.init("used")
        await asyncio.sleep(4 * DAY)
        assert harness.coordinator.describe("idle").error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert harness.coordinator.describe("used").error_code is ErrorCode.NONE
        assert harness.records()[-1] == ("idle", None)
        assert harness.init("idle", expected=(1000, 0)) == (1002, 0)
        await asyncio.sleep(8 * DAY)
        assert harness.known() == []

    play(scenario)


def test_an_id_with_an_open_transaction_does_not_expire() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init("prepared", enable_2pc=True)
        harness.add((1000, 0), ORDERS_0, transactional_id="prepared")
        harness.partitions.is_holding = True
        harness.init("ending")
        harness.add((1001, 0), ORDERS_1, transactional_id="ending")
        harness.commit((1001, 0), transactional_id="ending")
        await asyncio.sleep(30 * DAY)
        assert harness.state("prepared") is State.ONGOING
        assert harness.state("ending") is State.PREPARE_COMMIT

    play(scenario, {"transaction.two.phase.commit.enable": "true"})


def test_many_ids_expire_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "IDS_AT_ONCE", 10)

    async def scenario(harness: Coordination) -> None:
        for number in range(45):
            harness.init(f"t{number}")
        await asyncio.sleep(7 * DAY + HOUR + 1)
        assert harness.known() == []
        assert harness.states().count(None) == 45
        assert len(harness.log.batches[0]) == 45 + 5

    play(scenario)


def test_retention_and_check_interval_are_settings() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        await pass_ms(1_900)
        assert harness.known() == ["t"]
        await pass_ms(200)
        assert harness.known() == []

    play(
        scenario,
        {
            "transactional.id.expiration.ms": "1500",
            "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
        },
    )
