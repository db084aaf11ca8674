"""Loading transactions from a log that ends after any of its records: prepared transactions are completed, and the
others stay open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from harness.transaction_shards import ORDERS_0, ORDERS_1, PAYMENTS_0, TIMEOUT_MS, Coordination, play
from penstock.coordinator.txn.transaction import State, TopicPartition
from penstock.protocol.errors import ErrorCode

ME = (1000, 0)

Story = Callable[[Coordination], None]


def committed(harness: Coordination) -> None:
    harness.init()
    harness.add(ME, ORDERS_0)
    harness.add(ME, ORDERS_1, PAYMENTS_0)
    harness.commit(ME)


def aborted(harness: Coordination) -> None:
    harness.init()
    harness.add(ME, ORDERS_0)
    harness.add(ME, ORDERS_1, PAYMENTS_0)
    harness.abort(ME)


def fenced(harness: Coordination) -> None:
    harness.init()
    harness.add(ME, ORDERS_0, ORDERS_1, PAYMENTS_0)
    harness.init()
    harness.init()


def kept(harness: Coordination) -> None:
    harness.init()
    harness.add(ME, ORDERS_0, ORDERS_1, PAYMENTS_0)
    harness.init(keep_prepared_txn=True)
    harness.commit((1000, 1))


STORIES: dict[Story, bool] = {committed: True, aborted: False, fenced: False, kept: True}
"""True: the transaction commits."""

RECORDS = 5
"""At least, in each scenario."""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: str(story.__name__))
@pytest.mark.parametrize("cut", range(1, RECORDS + 1))
def test_a_transaction_that_is_loaded_after_any_record_ends_as_decided(story: Story, cut: int) -> None:
    async def scenario(harness: Coordination) -> None:
        story(harness)
        states = harness.states()
        harness.cut_log(cut)
        harness.partitions.written.clear()
        harness.partitions.attempts.clear()

        await harness.restart()
        last = states[min(cut, len(states)) - 1]
        if last in (State.PREPARE_COMMIT, State.PREPARE_ABORT):
            assert harness.state() is (State.COMPLETE_COMMIT if STORIES[story] else State.COMPLETE_ABORT)
            for partition in (ORDERS_0, ORDERS_1, PAYMENTS_0):
                assert harness.partitions.ends(partition) == [STORIES[story]]
                assert harness.partitions.written[partition][0].coordinator_epoch == 2
        else:
            assert harness.state() is last
            assert harness.partitions.attempts == []
            await asyncio.sleep(TIMEOUT_MS / 1000 + 1)
            assert harness.state() is (State.COMPLETE_ABORT if last is State.ONGOING else last)

    play(scenario)


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize(
    "written", [(), (ORDERS_0,), (ORDERS_0, PAYMENTS_0), (ORDERS_1, ORDERS_0, PAYMENTS_0)]
)
def test_after_a_failure_between_markers_the_next_coordinator_writes_all_of_them(
    written: tuple[TopicPartition, ...], is_commit: bool
) -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.add(ME, ORDERS_0, ORDERS_1, PAYMENTS_0)
        harness.partitions.is_holding = True
        harness.end(ME, is_commit=is_commit)
        harness.log.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER  # so that the completion is not written
        for partition in written:
            harness.partitions.release(partition)
        harness.log.refusal = None
        harness.partitions.held.clear()
        harness.partitions.is_holding = False

        await harness.restart()
        assert harness.state() is (State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT)
        for partition in (ORDERS_0, ORDERS_1, PAYMENTS_0):
            ends = harness.partitions.ends(partition)
            assert ends == [is_commit] * (2 if partition in written else 1), (
                "every marker of a transaction is the same"
            )
            epochs = {marker.producer_epoch for marker in harness.partitions.written[partition]}
            assert epochs == {1}

    play(scenario)


def test_a_client_recovers_after_its_coordinator_failed_at_any_step() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        harness.add(ME, ORDERS_0)
        harness.partitions.is_holding = True
        harness.commit(ME)
        await harness.restart()
        assert harness.commit(ME) is ErrorCode.CONCURRENT_TRANSACTIONS
        harness.partitions.release()
        assert harness.commit(ME) == (1000, 1)
        assert harness.add((1000, 1), ORDERS_0) is ErrorCode.NONE

    play(scenario)


def test_many_prepared_transactions_are_all_completed_after_loading() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.partitions.is_holding = True
        names = [f"t{number}" for number in range(500)]
        for number, name in enumerate(names):
            harness.init(name)
            harness.add((1000 + number, 0), ORDERS_0, transactional_id=name)
            harness.end((1000 + number, 0), is_commit=number % 2 == 0, transactional_id=name)
        harness.partitions.held.clear()
        harness.partitions.is_holding = False
        await harness.restart()
        await asyncio.sleep(1)
        ends = {
            marker.producer_id - 1000: marker.is_commit for marker in harness.partitions.written[ORDERS_0]
        }
        assert ends == {number: number % 2 == 0 for number in range(500)}
        assert {harness.state(name) for name in names} == {State.COMPLETE_COMMIT, State.COMPLETE_ABORT}

    play(scenario)


def test_expired_ids_stay_removed_after_loading() -> None:
    async def scenario(harness: Coordination) -> None:
        harness.init()
        await asyncio.sleep(9 * 24 * 3600)
        await harness.restart()
        assert harness.known() == []

    play(scenario)
