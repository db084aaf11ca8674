"""What happens by itself: transactions that take too long, ids that nobody uses any more."""

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
def test_a_transaction_that_takes_too_long_is_rolled_back(transaction_version: int) -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init(timeout_ms=5_000)
        await pass_ms(4_000)
        stage.add(ME, ORDERS_0)
        await pass_ms(4_000)
        stage.add(ME, ORDERS_1)
        await pass_ms(900)
        assert stage.state() is State.ONGOING

        await pass_ms(200)
        assert stage.state() is State.COMPLETE_ABORT
        assert stage.partitions.ends(ORDERS_0) == stage.partitions.ends(ORDERS_1) == [False]
        assert stage.partitions.written[ORDERS_0][0].producer_epoch == 1
        assert stage.add(ME, ORDERS_0) is ErrorCode.PRODUCER_FENCED
        assert stage.commit(ME, version=4) is ErrorCode.PRODUCER_FENCED
        assert stage.init() == (1000, 2)

    play(scenario, transaction_version=transaction_version)


def test_the_log_says_whose_transaction_took_too_long(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init(timeout_ms=5_000)
        stage.add(ME, ORDERS_0)
        await pass_ms(5_100)
        stage.init()
        stage.add((1000, 2), ORDERS_0)
        stage.commit((1000, 2))
        await pass_ms(HOUR * 1000)

    with caplog.at_level("INFO", logger="penstock.coordinator.txn"):
        play(scenario)
    assert caplog.text.count("has been open for 5000 ms and is rolled back") == 1


def test_a_producer_that_took_too_long_may_abort_and_go_on_but_not_commit() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init(timeout_ms=5_000)
        stage.add(ME, ORDERS_0)
        stage.partitions.is_holding = True
        await pass_ms(5_100)
        assert stage.commit(ME) is ErrorCode.INVALID_TXN_STATE
        assert stage.abort(ME) is ErrorCode.CONCURRENT_TRANSACTIONS
        stage.partitions.release()
        assert stage.commit(ME) is ErrorCode.INVALID_TXN_STATE
        assert stage.abort(ME) == (1000, 1)
        assert stage.init(expected=ME) == (1000, 1)

    play(scenario)


@pytest.mark.parametrize("transaction_version", [0, 1])
def test_before_version_2_a_producer_that_took_too_long_is_locked_out_for_good(
    transaction_version: int,
) -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init(timeout_ms=5_000)
        stage.add(ME, ORDERS_0, is_version_2=False)
        await pass_ms(5_100)
        assert stage.abort(ME, version=4) is ErrorCode.PRODUCER_FENCED
        assert stage.init(expected=ME) is ErrorCode.PRODUCER_FENCED

    play(scenario, transaction_version=transaction_version)


def test_a_producer_that_took_too_long_with_its_last_epoch_has_to_begin_anew() -> None:
    async def scenario(stage: Coordination) -> None:
        me = (7, 32_766)
        stage.put(Transaction(*me, 5_000, State.EMPTY, (), -1, WALL_MS))
        stage.add(me, ORDERS_0)
        await pass_ms(5_100)
        assert stage.partitions.written[ORDERS_0][0].producer_epoch == 32_767
        assert stage.abort(me) is ErrorCode.PRODUCER_FENCED
        assert stage.init() == (1000, 0)

    play(scenario)


def test_each_transaction_has_its_own_time() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init(timeout_ms=5_000)
        for epoch in range(4):
            stage.add((1000, epoch), ORDERS_0)
            await pass_ms(3_000)
            assert stage.commit((1000, epoch)) == (1000, epoch + 1)
        await pass_ms(60_000)
        assert stage.state() is State.COMPLETE_COMMIT
        assert stage.partitions.ends(ORDERS_0) == [True] * 4

    play(scenario)


def test_a_transaction_that_is_loaded_has_the_time_that_was_left() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init(timeout_ms=5_000)
        stage.add(ME, ORDERS_0)
        await pass_ms(3_000)
        await stage.restart()
        await pass_ms(1_500)
        assert stage.state() is State.ONGOING
        await pass_ms(1_000)
        assert stage.state() is State.COMPLETE_ABORT

    play(scenario)


def test_a_transaction_whose_time_passed_without_a_coordinator_is_rolled_back_at_once() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init(timeout_ms=5_000)
        stage.add(ME, ORDERS_0)
        stage.coordinator.resigned(0)
        await pass_ms(60_000)
        await stage.restart()
        assert stage.state() is State.COMPLETE_ABORT

    play(scenario)


def test_a_clock_that_was_ahead_does_not_keep_a_transaction_open() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init(timeout_ms=5_000)
        stage.clock_offset_ms = 10 * DAY * 1000
        stage.add(ME, ORDERS_0)
        stage.clock_offset_ms = 0
        await stage.restart()
        await pass_ms(5_100)
        assert stage.state() is State.COMPLETE_ABORT

    play(scenario)


def test_a_timeout_that_the_log_refuses_comes_again() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init(timeout_ms=5_000)
        stage.add(ME, ORDERS_0)
        stage.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        await pass_ms(10_000)
        assert stage.state() is State.ONGOING
        stage.log.refusal = None
        await pass_ms(1_000)
        assert stage.state() is State.COMPLETE_ABORT
        assert stage.partitions.written[ORDERS_0][0].producer_epoch == 1

    play(scenario)


def test_an_id_is_forgotten_after_its_last_sign_of_life() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init("idle")
        stage.init("used")
        stage.add((1001, 0), ORDERS_0, transactional_id="used")
        await asyncio.sleep(4 * DAY)
        stage.add((1001, 2), ORDERS_0, transactional_id="used")
        stage.init("used")
        await asyncio.sleep(4 * DAY)
        assert stage.coordinator.describe("idle").error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert stage.coordinator.describe("used").error_code is ErrorCode.NONE
        assert stage.records()[-1] == ("idle", None)
        assert stage.init("idle", expected=(1000, 0)) == (1002, 0)
        await asyncio.sleep(8 * DAY)
        assert stage.known() == []

    play(scenario)


def test_an_id_whose_transaction_is_open_is_not_forgotten() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init("prepared", enable_2pc=True)
        stage.add((1000, 0), ORDERS_0, transactional_id="prepared")
        stage.partitions.is_holding = True
        stage.init("ending")
        stage.add((1001, 0), ORDERS_1, transactional_id="ending")
        stage.commit((1001, 0), transactional_id="ending")
        await asyncio.sleep(30 * DAY)
        assert stage.state("prepared") is State.ONGOING
        assert stage.state("ending") is State.PREPARE_COMMIT

    play(scenario, {"transaction.two.phase.commit.enable": "true"})


def test_many_ids_are_forgotten_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "IDS_AT_ONCE", 10)

    async def scenario(stage: Coordination) -> None:
        for number in range(45):
            stage.init(f"t{number}")
        await asyncio.sleep(7 * DAY + HOUR + 1)
        assert stage.known() == []
        assert stage.states().count(None) == 45
        assert len(stage.log.batches[0]) == 45 + 5

    play(scenario)


def test_how_long_and_how_often_are_settings() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init()
        await pass_ms(1_900)
        assert stage.known() == ["t"]
        await pass_ms(200)
        assert stage.known() == []

    play(
        scenario,
        {
            "transactional.id.expiration.ms": "1500",
            "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
        },
    )
