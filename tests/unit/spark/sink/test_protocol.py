"""Crashes at every step, zombies, late requests: see `harness.sink_simulation`.

A driver that was given up may continue next to its successor. Runs are retired when they are over, or before, or not
at all. In the end every row of the input must have been committed once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from typing import Any

import pytest

from harness.sink_simulation import SINK, Clock, Driver, World
from penstock.spark.sink.decision import SinkStopped, TaskAttempt, decide, of_json


async def simulate(seed: int, *, times_out: bool) -> World:
    rng = random.Random(seed)
    world = World(rng, times_out=times_out)
    turns = Clock(world, seed)
    drivers: list[Driver] = []
    for number in range(rng.randint(1, 6)):
        driver = Driver(world, f"run{number}", batches=rng.randint(1, 5))
        drivers.append(driver)
        living = driver.start()
        await turns.pass_by(rng.randrange(120))
        fate = rng.random()
        if fate < 0.5:  # the driver dies; some of its tasks live on
            driver.lose(0.7)
        elif fate < 0.7:
            await turns.finish(living)
        # otherwise it continues next to the next one
        if rng.random() < 0.5:  # of any run that is over, or seems to be
            over = rng.choice(drivers)
            over._spawn(over.retire())
    # The last run is undisturbed after a while: all others die, and no more transactions time out.
    await turns.pass_by(rng.randrange(100))
    for driver in drivers:
        for task in driver.tasks:
            task.cancel()
    world.times_out, world.is_calm = False, True
    number = len(drivers)
    while True:
        last = Driver(world, f"run{number}", batches=2, task_failures=0.0)
        error = await turns.finish(last.start())
        if error is None:
            break
        assert isinstance(error, SinkStopped), f"seed {seed}: {error!r}"
        number += 1
        assert number < len(drivers) + 6, f"seed {seed}: it never recovers, last by {error!r}"
    while world.pending:
        world.happen()
    final = Driver(world, "final", batches=1, task_failures=0.0, speculation=0.0)
    assert await turns.finish(final.start()) is None
    return world


def check(world: World, seed: int) -> None:
    wrong = {row: world.committed[row] for row in range(world.row_count) if world.committed[row] != 1}
    assert not wrong, f"seed {seed}: rows and how often they were committed: {wrong}"
    assert set(world.committed) <= set(range(world.row_count))
    assert not world.open, f"seed {seed}: left open: {world.open}"


@pytest.mark.parametrize("block", range(4))
@pytest.mark.parametrize("times_out", [False, True])
def test_rows_are_committed_once_after_any_crash(block: int, times_out: bool) -> None:
    recalls = 0
    for seed in range(block * 50, block * 50 + 50):
        world = asyncio.run(simulate(seed, times_out=times_out))
        check(world, seed)
        recalls += world.recalls
    assert recalls > 50  # otherwise their rows are not visible


async def stop(seed: int) -> None:
    """A query is stopped somewhere in its batches while some of its tasks continue. It is retired twice: at once,
    and when all its tasks have ended. Only then is it started again."""
    rng = random.Random(seed)
    world = World(rng, times_out=False)
    turns = Clock(world, seed)
    driver = Driver(world, "run0", batches=5)
    driver.start()
    await turns.pass_by(rng.randrange(150))
    driver.lose(0.5)
    driver.task_failures, world.is_calm = 0.0, True  # from here on no writing task is killed
    has_held = any(of_json(value).run == "run0" for _, _, value in world.log)

    assert await turns.finish(asyncio.ensure_future(driver.retire())) is None
    alive = [task for task in driver.tasks if not task.done()]
    for task in alive:
        await turns.finish(task)
    while world.pending:
        world.happen()
    if has_held:  # otherwise a task may have claimed the sink afterwards
        assert not world.left_by("run0"), f"seed {seed}: left open by tasks that went on"
    assert await turns.finish(asyncio.ensure_future(driver.retire())) is None

    assert not world.open, f"seed {seed}: left open: {world.open}"
    last = -1 if world.ledger.decision is None else world.ledger.decision.batch
    decided = {row for batch in range(last + 1) for row in world.rows_of(batch)}
    assert set(world.committed) == decided, f"seed {seed}: what is decided is committed, and nothing else"
    assert (
        await turns.finish(Driver(world, "run1", batches=2, task_failures=0.0, speculation=0.0).start())
        is None
    )
    check(world, seed)


@pytest.mark.parametrize("block", range(4))
def test_a_stopped_run_leaves_nothing_open(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        asyncio.run(stop(seed))


def test_a_run_that_starts_while_it_is_retired_loses_no_decision() -> None:
    """A transaction that it opened between two reads was aborted, although it was decided by then."""

    class Hasty(World):
        """Responds at once; but before it lists open transactions, the run decides its first batch."""

        has_begun = False

        def ask(self, operation: Callable[[], Any]) -> asyncio.Future[Any]:
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            answer.set_result(operation())
            return answer

        async def open_ids(self, sink: str, prefixes: Collection[str]) -> list[str]:
            if not self.has_begun:
                self.has_begun = True
                done = await driver._attempt(TaskAttempt(SINK, "run0", 0, 0), [1, 2])
                await self.append(decide([done], 0))
            return await super().open_ids(sink, prefixes)

    world = Hasty(random.Random(0), times_out=False)
    world.is_calm = True
    driver = Driver(world, "run0", batches=1, task_failures=0.0, speculation=0.0)

    asyncio.run(driver.retire())

    assert not world.outcomes
