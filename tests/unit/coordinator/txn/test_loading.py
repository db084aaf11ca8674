"""Another coordinator takes over, from a log that is cut after any of its records: what was decided happens, what was
not is still open, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from harness.transaction_shards import ORDERS_0, ORDERS_1, PAYMENTS_0, TIMEOUT_MS, Coordination, play
from penstock.coordinator.txn.transaction import State, TopicPartition
from penstock.protocol.errors import ErrorCode

ME = (1000, 0)

Story = Callable[[Coordination], None]


def committed(stage: Coordination) -> None:
    stage.init()
    stage.add(ME, ORDERS_0)
    stage.add(ME, ORDERS_1, PAYMENTS_0)
    stage.commit(ME)


def aborted(stage: Coordination) -> None:
    stage.init()
    stage.add(ME, ORDERS_0)
    stage.add(ME, ORDERS_1, PAYMENTS_0)
    stage.abort(ME)


def fenced(stage: Coordination) -> None:
    stage.init()
    stage.add(ME, ORDERS_0, ORDERS_1, PAYMENTS_0)
    stage.init()
    stage.init()


def kept(stage: Coordination) -> None:
    stage.init()
    stage.add(ME, ORDERS_0, ORDERS_1, PAYMENTS_0)
    stage.init(keep_prepared_txn=True)
    stage.commit((1000, 1))


STORIES: dict[Story, bool] = {committed: True, aborted: False, fenced: False, kept: True}
"""How each ends: True for a commit."""

RECORDS = 5
"""Of each story, at least."""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: str(story.__name__))
@pytest.mark.parametrize("cut", range(1, RECORDS + 1))
def test_from_every_record_on_the_transaction_ends_as_it_was_decided(story: Story, cut: int) -> None:
    async def scenario(stage: Coordination) -> None:
        story(stage)
        states = stage.states()
        stage.cut_log(cut)
        stage.partitions.written.clear()
        stage.partitions.attempts.clear()

        await stage.restart()
        last = states[min(cut, len(states)) - 1]
        if last in (State.PREPARE_COMMIT, State.PREPARE_ABORT):
            assert stage.state() is (State.COMPLETE_COMMIT if STORIES[story] else State.COMPLETE_ABORT)
            for partition in (ORDERS_0, ORDERS_1, PAYMENTS_0):
                assert stage.partitions.ends(partition) == [STORIES[story]]
                assert stage.partitions.written[partition][0].coordinator_epoch == 2
        else:
            assert stage.state() is last
            assert stage.partitions.attempts == []
            await asyncio.sleep(TIMEOUT_MS / 1000 + 1)
            assert stage.state() is (State.COMPLETE_ABORT if last is State.ONGOING else last)

    play(scenario)


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("heard", [(), (ORDERS_0,), (ORDERS_0, PAYMENTS_0), (ORDERS_1, ORDERS_0, PAYMENTS_0)])
def test_a_coordinator_that_dies_between_markers_is_followed_by_one_that_writes_all(
    heard: tuple[TopicPartition, ...], is_commit: bool
) -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init()
        stage.add(ME, ORDERS_0, ORDERS_1, PAYMENTS_0)
        stage.partitions.is_holding = True
        stage.end(ME, is_commit=is_commit)
        stage.log.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER  # so that nobody learns when all have heard
        for partition in heard:
            stage.partitions.release(partition)
        stage.log.refusal = None
        stage.partitions.held.clear()
        stage.partitions.is_holding = False

        await stage.restart()
        assert stage.state() is (State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT)
        for partition in (ORDERS_0, ORDERS_1, PAYMENTS_0):
            ends = stage.partitions.ends(partition)
            assert ends == [is_commit] * (2 if partition in heard else 1), (
                "told twice the same, never otherwise"
            )
            epochs = {marker.producer_epoch for marker in stage.partitions.written[partition]}
            assert epochs == {1}

    play(scenario)


def test_a_client_finds_its_way_after_its_coordinator_died_in_the_middle() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init()
        stage.add(ME, ORDERS_0)
        stage.partitions.is_holding = True
        stage.commit(ME)
        await stage.restart()
        assert stage.commit(ME) is ErrorCode.CONCURRENT_TRANSACTIONS
        stage.partitions.release()
        assert stage.commit(ME) == (1000, 1)
        assert stage.add((1000, 1), ORDERS_0) is ErrorCode.NONE

    play(scenario)


def test_many_transactions_that_were_being_ended_all_go_on() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.partitions.is_holding = True
        names = [f"t{number}" for number in range(500)]
        for number, name in enumerate(names):
            stage.init(name)
            stage.add((1000 + number, 0), ORDERS_0, transactional_id=name)
            stage.end((1000 + number, 0), is_commit=number % 2 == 0, transactional_id=name)
        stage.partitions.held.clear()
        stage.partitions.is_holding = False
        await stage.restart()
        await asyncio.sleep(1)
        ends = {marker.producer_id - 1000: marker.is_commit for marker in stage.partitions.written[ORDERS_0]}
        assert ends == {number: number % 2 == 0 for number in range(500)}
        assert {stage.state(name) for name in names} == {State.COMPLETE_COMMIT, State.COMPLETE_ABORT}

    play(scenario)


def test_what_expired_stays_forgotten() -> None:
    async def scenario(stage: Coordination) -> None:
        stage.init()
        await asyncio.sleep(9 * 24 * 3600)
        await stage.restart()
        assert stage.known() == []

    play(scenario)
