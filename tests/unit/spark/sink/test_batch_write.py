"""Exactly-once batch writes: the driver dies between any two steps, and a rerun or an operator finishes the write."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from harness.sink_simulation import ROWS, SINK, Clock, Job, World
from penstock.spark.errors import BadOption
from penstock.spark.options import Options, Use
from penstock.spark.sink import messages
from penstock.spark.sink.batch_write import BatchWrite
from penstock.spark.sink.decision import (
    Claim,
    Decision,
    Ledger,
    SinkStopped,
    Superseded,
    TaskAttempt,
    TaskOutput,
    TaskResult,
    check_same_write,
    claim_for,
    given_up_by,
    of_json,
)
from penstock.spark.sink.foreach_batch import ForeachBatchWriter
from penstock.spark.sink.protocol import abort_write, finish

BROKERS = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "out"}


def calm_job(world: World, run: str) -> Job:
    return Job(world, run, batches=1, task_failures=0.0, speculation=0.0)


def assert_whole(world: World) -> None:
    assert world.committed == Counter(ROWS)
    assert not world.open


async def killed_after(steps: int, *, survivors: float, seed: int = 1) -> tuple[World, Clock, bool]:
    """A write whose driver dies after so many requests reached the broker; returns whether it had ended before."""
    world = World(random.Random(seed), times_out=False)
    world.is_calm = True
    turns = Clock(world, seed)
    job = calm_job(world, "run0")
    living = job.start()
    await turns.pass_by(steps)
    has_ended = living.done()
    job.lose(1.0 - survivors)
    return world, turns, has_ended


@pytest.mark.parametrize("survivors", [0.0, 0.5, 1.0])
def test_a_rerun_finishes_a_write_whose_driver_died_between_any_two_steps(survivors: float) -> None:
    async def scenario(steps: int) -> tuple[bool, bool]:
        world, turns, has_ended = await killed_after(steps, survivors=survivors)
        is_partial = 0 < len(world.committed) < len(ROWS)
        for number in range(1, 4):  # surviving tasks of the first job may claim once more
            error = await turns.finish(calm_job(world, f"run{number}").start())
            if error is None:
                break
            assert isinstance(error, Superseded)
        while world.pending:
            world.happen()
        assert await turns.finish(calm_job(world, "last").start()) is None
        assert_whole(world)
        return has_ended, is_partial

    steps, partial_count = 0, 0
    while True:
        has_ended, is_partial = asyncio.run(scenario(steps))
        partial_count += is_partial
        steps += 1
        if has_ended:
            break
    assert steps > 20
    assert partial_count > 0  # otherwise no driver died between two EndTxn requests


def test_an_operator_finishes_a_write_whose_driver_died_between_any_two_steps() -> None:
    async def scenario(steps: int) -> tuple[bool, bool]:
        world, turns, has_ended = await killed_after(steps, survivors=0.0)
        while world.pending:
            world.happen()
        finishing = asyncio.ensure_future(finish(world, SINK, prefix="penstock"))
        assert await turns.finish(finishing) is None
        is_decided = finishing.result().decision is not None
        assert world.committed == (Counter(ROWS) if is_decided else Counter())
        assert not world.open

        # An aborted write may be run again; a committed one is not written twice.
        assert await turns.finish(calm_job(world, "run1").start()) is None
        assert_whole(world)
        return has_ended, is_decided

    steps, outcomes = 0, set()
    while True:
        has_ended, is_decided = asyncio.run(scenario(steps))
        outcomes.add(is_decided)
        steps += 1
        if has_ended:
            break
    assert outcomes == {False, True}


def test_a_driver_that_is_still_alive_cannot_decide_after_its_write_was_finished() -> None:
    async def scenario(steps: int) -> bool:
        world = World(random.Random(steps), times_out=False)
        world.is_calm = True
        turns = Clock(world, steps)
        job = calm_job(world, "run0")
        living = job.start()
        await turns.pass_by(steps)
        finishing = asyncio.ensure_future(finish(world, SINK, prefix="penstock"))
        assert await turns.finish(finishing) is None
        is_committed = finishing.result().decision is not None
        has_held = finishing.result().holder != ""
        error = await turns.finish(living)
        while world.pending:
            world.happen()
        if is_committed or error is None:
            assert_whole(world)
        elif has_held:
            assert isinstance(error, SinkStopped)
            assert not world.committed
            assert not world.open
        return error is None and is_committed

    outcomes = [asyncio.run(scenario(steps)) for steps in range(60)]
    assert set(outcomes) == {False, True}


@pytest.mark.parametrize("block", range(4))
def test_rows_of_a_write_are_committed_once_after_any_crash(block: int) -> None:
    async def simulate(seed: int) -> None:
        rng = random.Random(seed)
        world = World(rng, times_out=False)
        turns = Clock(world, seed)
        jobs: list[Job] = []
        for number in range(rng.randint(1, 5)):
            job = Job(world, f"run{number}", batches=1)
            jobs.append(job)
            living = job.start()
            await turns.pass_by(rng.randrange(100))
            fate = rng.random()
            if fate < 0.5:
                job.lose(0.7)
            elif fate < 0.7:
                await turns.finish(living)
            if rng.random() < 0.2:
                asyncio.ensure_future(finish(world, SINK, prefix="penstock")).add_done_callback(
                    lambda each: each.cancelled() or each.exception()
                )
        for job in jobs:
            for task in job.tasks:
                task.cancel()
        world.is_calm = True
        await turns.pass_by(200)
        for number in range(10):
            error = await turns.finish(calm_job(world, f"later{number}").start())
            if error is None:
                break
            assert isinstance(error, SinkStopped), f"seed {seed}: {error!r}"
        while world.pending:
            world.happen()
        assert await turns.finish(calm_job(world, "final").start()) is None, f"seed {seed}"
        assert_whole(world)

    for seed in range(block * 50, block * 50 + 50):
        asyncio.run(simulate(seed))


def test_a_write_that_failed_after_its_decision_is_committed_by_its_abort() -> None:
    """A batch job may never be run again, so a decision must not wait for a rerun."""

    async def scenario() -> None:
        world = World(random.Random(3), times_out=False)
        world.is_calm = True
        turns = Clock(world, 3)
        job = calm_job(world, "run0")
        living = job.start()
        while world.ledger.decision is None:
            await turns.pass_by(1)
        living.cancel()
        aborting = asyncio.ensure_future(abort_write(world, SINK, "run0", prefix="penstock"))
        assert await turns.finish(aborting) is None
        assert_whole(world)

    asyncio.run(scenario())


# -- tasks that start after their job was aborted


def calm_world(seed: int) -> tuple[World, Clock]:
    world = World(random.Random(seed), times_out=False)
    world.is_calm = True
    return world, Clock(world, seed)


def test_a_task_that_starts_after_its_job_was_aborted_leaves_no_transaction_open() -> None:
    """No task had claimed the sink before the abort. The late task left a prepared transaction without a timeout."""

    async def scenario() -> None:
        world, turns = calm_world(1)
        job = calm_job(world, "run0")
        assert await turns.finish(asyncio.ensure_future(job.abort())) is None

        error = await turns.finish(job.start_late_task())

        assert isinstance(error, SinkStopped)
        assert not world.open
        assert await turns.finish(calm_job(world, "run1").start()) is None
        assert_whole(world)

    asyncio.run(scenario())


def test_a_job_that_is_cancelled_before_it_writes_does_not_take_the_write_from_another_job() -> None:
    """A user starts the same write twice and cancels the second job while its tasks wait for an executor."""

    async def scenario() -> None:
        world, turns = calm_world(2)
        first = calm_job(world, "run0")
        living = first.start()
        while world.ledger.holder != "run0":
            await turns.pass_by(1)

        second = calm_job(world, "run1")
        assert await turns.finish(asyncio.ensure_future(second.abort())) is None
        error = await turns.finish(second.start_late_task())

        assert isinstance(error, SinkStopped)
        assert await turns.finish(living) is None
        assert_whole(world)

    asyncio.run(scenario())


@pytest.mark.parametrize("earlier", ["none", "failed", "writing"])
def test_a_task_that_claims_the_sink_while_its_job_is_aborted_leaves_no_transaction_open(
    earlier: str,
) -> None:
    async def scenario(seed: int) -> bool:
        world, turns = calm_world(seed)
        first = calm_job(world, "run0")
        if earlier != "none":
            living = first.start()
            while world.ledger.holder != "run0":
                await turns.pass_by(1)
            if earlier == "failed":
                await turns.finish(first.cancel())
                for task in first.tasks:
                    await turns.finish(task)
        job = calm_job(world, "run1")
        late = job.start_late_task()
        await turns.pass_by(seed % 8)
        assert await turns.finish(asyncio.ensure_future(job.abort())) is None
        await turns.finish(late)

        assert not world.left_by("run1"), f"seed {seed}"
        if earlier == "writing":  # it may have lost the write to the late task, but nothing more
            error = await turns.finish(living)
            assert error is None or isinstance(error, Superseded), f"seed {seed}: {error!r}"
        has_claimed = any(of_json(value).run == "run1" for _, _, value in world.log)
        assert await turns.finish(calm_job(world, "run2").start()) is None, f"seed {seed}"
        assert_whole(world)
        return has_claimed

    assert {asyncio.run(scenario(seed)) for seed in range(200)} == {False, True}


@pytest.mark.parametrize("block", range(4))
def test_cancelled_jobs_leave_nothing_open_when_their_tasks_have_ended(block: int) -> None:
    """Several jobs with one writeId run at once. Each is cancelled at some time, and its tasks continue."""

    async def simulate(seed: int) -> None:
        rng = random.Random(seed)
        world = World(rng, times_out=False)
        turns = Clock(world, seed)
        jobs: list[Job] = []
        for number in range(rng.randint(1, 4)):
            job = Job(world, f"run{number}", batches=1, task_failures=0.0)
            job.start()
            jobs.append(job)
            await turns.pass_by(rng.randrange(60))
        world.is_calm = True
        for job in rng.sample(jobs, len(jobs)):
            if rng.random() < 0.5:
                job.start_late_task()
            await turns.pass_by(rng.randrange(10))
            assert await turns.finish(job.cancel()) is None
            job.start_late_task()
        for job in jobs:
            for task in job.tasks:
                await turns.finish(task)
        while world.pending:
            world.happen()

        assert not world.open, f"seed {seed}: left open: {world.open}"
        assert world.committed in (Counter(), Counter(ROWS)), f"seed {seed}"
        assert await turns.finish(calm_job(world, "last").start()) is None, f"seed {seed}"
        assert_whole(world)

    for seed in range(block * 100, block * 100 + 100):
        asyncio.run(simulate(seed))


# -- what identifies a write


def test_jobs_with_one_write_id_are_runs_of_one_sink() -> None:
    one, two = BatchWrite.of("daily"), BatchWrite.of("daily")

    assert one.sink == two.sink == "write:daily"
    assert one.run != two.run
    assert one.is_named
    assert one.task_attempt(partition=3, attempt=1) == TaskAttempt("write:daily", one.run, 0, 3, 1)


def test_jobs_without_a_write_id_share_nothing() -> None:
    one, two = BatchWrite.of(None), BatchWrite.of(None)

    assert one.sink != two.sink
    assert not one.is_named


def test_a_write_id_means_exactly_once() -> None:
    options = Options.read(BROKERS | {"writeId": "daily"}, Use.BATCH_WRITE)

    assert options.is_exactly_once(is_stream=False)
    with pytest.raises(BadOption, match="writeId needs guarantee=exactly-once"):
        Options.read(BROKERS | {"writeId": "daily", "guarantee": "at-least-once"}, Use.BATCH_WRITE)


def test_a_stream_has_no_write_id() -> None:
    with pytest.raises(BadOption, match="identified by its checkpoint"):
        Options.read(BROKERS | {"writeId": "daily"}, Use.STREAM_WRITE)
    with pytest.raises(BadOption, match="give to_topics a name"):
        ForeachBatchWriter(BROKERS | {"writeId": "daily"}, name=None)
    with pytest.raises(BadOption, match="reserved for batch writes"):
        ForeachBatchWriter(BROKERS, name="write:daily")


def test_other_rows_under_the_id_of_a_committed_write_are_rejected_and_not_dropped() -> None:
    decided = Decision("write:daily", "a", 0, (TaskOutput(0, 3, None), TaskOutput(1, 4, None)))

    def done(decided: Decision | None) -> TaskResult:
        return TaskResult(
            TaskAttempt("write:daily", "b", 0, 0), 5, True, frozenset(), frozenset(), 0, None, decided, None
        )

    check_same_write([done(None)], rows=9)
    check_same_write([done(decided)], rows=7)
    with pytest.raises(SinkStopped, match=r"'daily' was already committed, with 7 rows; this job has 9 rows"):
        check_same_write([done(decided)], rows=9)


def test_a_write_that_another_job_took_over_is_named_by_its_id() -> None:
    ledger = Ledger("write:daily", "a").after(0, Claim("write:daily", "b", "a"))

    with pytest.raises(Superseded, match="another job with the same writeId"):
        claim_for(ledger, "a", "penstock")


def test_giving_up_a_write_of_another_job_ends_only_the_own_run() -> None:
    ledger = Ledger("write:daily", "a").after(0, Claim("write:daily", given_up_by("b"), replaces="b"))

    assert ledger.holder == "a"
    with pytest.raises(SinkStopped, match="'daily' failed or was cancelled"):
        claim_for(ledger, "b", "penstock")


def test_messages_name_a_write_by_its_id_and_a_query_by_its_id() -> None:
    assert messages.named("write:daily") == "batch write 'daily'"
    assert messages.named("7f1c") == "query 7f1c"
    reported = messages.aborted_after_decision("write:daily", batch=0, transactions=["t"])
    assert "again with writeId=daily" in reported
