"""Markers that are late, come in any order, fail, or find no partition."""

from __future__ import annotations

import asyncio

import pytest

from harness.transaction_shards import ORDERS_0, ORDERS_1, PAYMENTS_0, Coordination, play
from penstock.coordinator.txn.markers import RETRY_MS, RETRY_MS_MAX
from penstock.coordinator.txn.transaction import State
from penstock.protocol.errors import ErrorCode

ME = (1000, 0)
ALL = (ORDERS_0, ORDERS_1, PAYMENTS_0)


def end_transaction(stage: Coordination) -> None:
    stage.init()
    stage.add(ME, *ALL)
    assert stage.commit(ME) == (1000, 1)


def test_a_transaction_is_complete_when_the_last_partition_has_heard() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.partitions.is_holding = True
        end_transaction(stage)
        for partition in (PAYMENTS_0, ORDERS_0):
            stage.partitions.release(partition)
            assert stage.state() is State.PREPARE_COMMIT
        stage.partitions.release(ORDERS_1)
        assert stage.state() is State.COMPLETE_COMMIT

    play(scenario)


def test_only_what_failed_is_tried_again() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.partitions.errors = {
            ORDERS_0: ErrorCode.NOT_LEADER_OR_FOLLOWER,
            PAYMENTS_0: ErrorCode.KAFKA_STORAGE_ERROR,
        }
        end_transaction(stage)
        assert stage.state() is State.PREPARE_COMMIT

        del stage.partitions.errors[PAYMENTS_0]
        await asyncio.sleep(RETRY_MS / 1000 + 0.01)
        assert [partitions for _, partitions in stage.partitions.attempts] == [ALL, (ORDERS_0, PAYMENTS_0)]
        stage.partitions.errors.clear()
        await asyncio.sleep(2 * RETRY_MS / 1000 + 0.01)
        assert stage.state() is State.COMPLETE_COMMIT
        assert all(stage.partitions.ends(partition) == [True] for partition in ALL)

    play(scenario)


def test_a_partition_that_does_not_answer_holds_up_no_other() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.partitions.is_holding = True
        end_transaction(stage)
        stage.partitions.errors[ORDERS_0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        stage.partitions.release(ORDERS_0, ORDERS_1)
        stage.partitions.errors.clear()
        await asyncio.sleep(1)
        stage.partitions.release(ORDERS_0)
        assert stage.state() is State.PREPARE_COMMIT
        stage.partitions.release(PAYMENTS_0)
        assert stage.state() is State.COMPLETE_COMMIT

    play(scenario)


def test_a_partition_that_is_no_more_needs_no_marker() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.partitions.errors[ORDERS_0] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        end_transaction(stage)
        assert stage.state() is State.COMPLETE_COMMIT
        assert len(stage.partitions.attempts) == 1

    play(scenario)


@pytest.mark.parametrize(
    "error", [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH]
)
def test_a_marker_that_is_refused_for_good_is_never_taken_for_written_and_warned_of_once(
    error: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(stage: Coordination) -> None:
        stage.partitions.errors[ORDERS_0] = error
        end_transaction(stage)
        await asyncio.sleep(600)
        assert stage.state() is State.PREPARE_COMMIT
        assert stage.add((1000, 1), ORDERS_0) is ErrorCode.CONCURRENT_TRANSACTIONS
        # Seldom, in the end, so that a partition which is gone for long costs nothing.
        assert len(stage.partitions.attempts) < 600_000 / RETRY_MS_MAX + 10

    play(scenario)
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "another transactional id" in warning.getMessage()


def test_when_this_node_is_elected_again_markers_go_on_with_the_new_epoch() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.partitions.errors[ORDERS_0] = ErrorCode.TRANSACTION_COORDINATOR_FENCED
        end_transaction(stage)
        stage.elect()
        stage.partitions.errors.clear()
        await asyncio.sleep(1)
        assert stage.state() is State.COMPLETE_COMMIT
        assert [marker.coordinator_epoch for marker in stage.partitions.written[ORDERS_0]] == [2]

    play(scenario)


def test_what_comes_back_after_another_node_took_over_is_not_heard() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.partitions.is_holding = True
        end_transaction(stage)
        stage.coordinator.resigned(0)
        count = len(stage.records())
        stage.partitions.release()
        assert len(stage.records()) == count

    play(scenario)


def test_an_answer_that_comes_twice_counts_once() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.partitions.is_holding = True
        end_transaction(stage)
        stage.partitions.held *= 2
        stage.partitions.release()
        assert stage.states().count(State.COMPLETE_COMMIT) == 1

    play(scenario)


def test_when_the_log_does_not_take_the_last_record_it_is_written_later() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.partitions.is_holding = True
        end_transaction(stage)
        stage.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        stage.partitions.release()
        await asyncio.sleep(5)
        assert stage.state() is State.PREPARE_COMMIT
        stage.log.refusal = None
        await asyncio.sleep(1)
        assert stage.state() is State.COMPLETE_COMMIT
        assert len(stage.partitions.attempts) == 1

    play(scenario)


def test_markers_of_many_transactions_do_not_mix() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.partitions.is_holding = True
        names = [f"t{number}" for number in range(20)]
        for number, name in enumerate(names):
            me = (1000 + number, 0)
            assert stage.init(name) == me
            stage.add(me, ORDERS_0, transactional_id=name)
            stage.end(me, is_commit=number % 3 == 0, transactional_id=name)
        stage.partitions.held.reverse()
        stage.partitions.release()
        ends = {marker.producer_id - 1000: marker.is_commit for marker in stage.partitions.written[ORDERS_0]}
        assert ends == {number: number % 3 == 0 for number in range(20)}
        assert {stage.state(name) for name in names} == {State.COMPLETE_COMMIT, State.COMPLETE_ABORT}

    play(scenario)
