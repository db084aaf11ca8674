"""Markers that are late, out of order, fail, or find no partition."""

from __future__ import annotations

import asyncio

import pytest

from harness.transaction_shards import ORDERS_0, ORDERS_1, PAYMENTS_0, Coordination, play
from penstock.coordinator.txn.markers import RETRY_MS, RETRY_MS_MAX
from penstock.coordinator.txn.transaction import State
from penstock.protocol.errors import ErrorCode

ME = (1000, 0)
ALL = (ORDERS_0, ORDERS_1, PAYMENTS_0)


def end_transaction(harness: Coordination) -> None:
    harness.init()
    harness.add(ME, *ALL)
    assert harness.commit(ME) == (1000, 1)


def test_a_transaction_is_complete_when_the_last_partition_has_its_marker() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.partitions.is_holding = True
        end_transaction(harness)
        for partition in (PAYMENTS_0, ORDERS_0):
            harness.partitions.release(partition)
            assert harness.state() is State.PREPARE_COMMIT
        harness.partitions.release(ORDERS_1)
        assert harness.state() is State.COMPLETE_COMMIT

    play(scenario)


def test_only_failed_markers_are_retried() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.partitions.errors = {
            ORDERS_0: ErrorCode.NOT_LEADER_OR_FOLLOWER,
            PAYMENTS_0: ErrorCode.KAFKA_STORAGE_ERROR,
        }
        end_transaction(harness)
        assert harness.state() is State.PREPARE_COMMIT

        del harness.partitions.errors[PAYMENTS_0]
        await asyncio.sleep(RETRY_MS / 1000 + 0.01)
        assert [partitions for _, partitions in harness.partitions.attempts] == [ALL, (ORDERS_0, PAYMENTS_0)]
        harness.partitions.errors.clear()
        await asyncio.sleep(2 * RETRY_MS / 1000 + 0.01)
        assert harness.state() is State.COMPLETE_COMMIT
        assert all(harness.partitions.ends(partition) == [True] for partition in ALL)

    play(scenario)


def test_a_partition_that_does_not_respond_does_not_delay_the_others() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.partitions.is_holding = True
        end_transaction(harness)
        harness.partitions.errors[ORDERS_0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        harness.partitions.release(ORDERS_0, ORDERS_1)
        harness.partitions.errors.clear()
        await asyncio.sleep(1)
        harness.partitions.release(ORDERS_0)
        assert harness.state() is State.PREPARE_COMMIT
        harness.partitions.release(PAYMENTS_0)
        assert harness.state() is State.COMPLETE_COMMIT

    play(scenario)


def test_a_deleted_partition_needs_no_marker() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.partitions.errors[ORDERS_0] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        end_transaction(harness)
        assert harness.state() is State.COMPLETE_COMMIT
        assert len(harness.partitions.attempts) == 1

    play(scenario)


@pytest.mark.parametrize(
    "error", [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH]
)
def test_a_permanently_refused_marker_is_retried_and_logged_once(
    error: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(harness: Coordination) -> None:
        harness.partitions.errors[ORDERS_0] = error
        end_transaction(harness)
        await asyncio.sleep(600)
        assert harness.state() is State.PREPARE_COMMIT
        assert harness.add((1000, 1), ORDERS_0) is ErrorCode.CONCURRENT_TRANSACTIONS
        # With a long backoff in the end, so that a partition that is offline for long costs little.
        assert len(harness.partitions.attempts) < 600_000 / RETRY_MS_MAX + 10

    play(scenario)
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "another transactional id" in warning.getMessage()


def test_after_another_election_markers_have_the_new_epoch() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.partitions.errors[ORDERS_0] = ErrorCode.TRANSACTION_COORDINATOR_FENCED
        end_transaction(harness)
        harness.elect()
        harness.partitions.errors.clear()
        await asyncio.sleep(1)
        assert harness.state() is State.COMPLETE_COMMIT
        assert [marker.coordinator_epoch for marker in harness.partitions.written[ORDERS_0]] == [2]

    play(scenario)


def test_marker_results_after_resignation_are_ignored() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.partitions.is_holding = True
        end_transaction(harness)
        harness.coordinator.resigned(0)
        count = len(harness.records())
        harness.partitions.release()
        assert len(harness.records()) == count

    play(scenario)


def test_a_marker_result_that_is_reported_twice_counts_once() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.partitions.is_holding = True
        end_transaction(harness)
        harness.partitions.held *= 2
        harness.partitions.release()
        assert harness.states().count(State.COMPLETE_COMMIT) == 1

    play(scenario)


def test_a_completion_that_the_log_refuses_is_retried() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.partitions.is_holding = True
        end_transaction(harness)
        harness.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        harness.partitions.release()
        await asyncio.sleep(5)
        assert harness.state() is State.PREPARE_COMMIT
        harness.log.refusal = None
        await asyncio.sleep(1)
        assert harness.state() is State.COMPLETE_COMMIT
        assert len(harness.partitions.attempts) == 1

    play(scenario)


def test_markers_of_many_transactions_do_not_mix() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.partitions.is_holding = True
        names = [f"t{number}" for number in range(20)]
        for number, name in enumerate(names):
            me = (1000 + number, 0)
            assert harness.init(name) == me
            harness.add(me, ORDERS_0, transactional_id=name)
            harness.end(me, is_commit=number % 3 == 0, transactional_id=name)
        harness.partitions.held.reverse()
        harness.partitions.release()
        ends = {
            marker.producer_id - 1000: marker.is_commit for marker in harness.partitions.written[ORDERS_0]
        }
        assert ends == {number: number % 3 == 0 for number in range(20)}
        assert {harness.state(name) for name in names} == {State.COMPLETE_COMMIT, State.COMPLETE_ABORT}

    play(scenario)


def test_a_refused_marker_is_written_as_soon_as_leaders_change() -> None:
    """It waited for its backoff of up to five seconds, long after the new leader was elected."""

    async def scenario(harness: Coordination) -> None:
        harness.partitions.errors[ORDERS_0] = ErrorCode.LEADER_NOT_AVAILABLE
        end_transaction(harness)
        await asyncio.sleep(60)
        assert harness.state() is State.PREPARE_COMMIT

        harness.partitions.errors.clear()
        harness.leaders_changed()
        await asyncio.sleep(0.001)
        assert harness.state() is State.COMPLETE_COMMIT

    play(scenario)


def test_a_marker_that_fails_for_long_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(harness: Coordination) -> None:
        harness.partitions.errors[ORDERS_0] = ErrorCode.LEADER_NOT_AVAILABLE
        end_transaction(harness)
        await asyncio.sleep(0.5)
        assert "cannot be written" not in caplog.text
        await asyncio.sleep(60)

    caplog.set_level("INFO")
    play(scenario)
    assert caplog.text.count("cannot be written") == 1
