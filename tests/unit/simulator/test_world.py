"""A run that is interrupted from outside says so: it is not taken for a broken promise of the node."""

from __future__ import annotations

import asyncio

import pytest

from simulator.simulation import Simulation


class TimeLimit(BaseException):
    """Like the exception of pytest's time limit, which is raised wherever the code happens to be."""


def test_the_time_limit_of_a_test_was_taken_for_a_bug_that_the_simulation_found() -> None:
    def interrupted() -> None:
        raise TimeLimit

    async def scenario(simulation: Simulation) -> None:
        asyncio.get_running_loop().call_soon(interrupted)
        await asyncio.Event().wait()

    with pytest.raises(TimeLimit):
        Simulation(1).run(scenario)


def test_the_time_limit_ends_a_run_that_it_meets_in_a_task() -> None:
    async def interrupted() -> None:
        raise TimeLimit

    async def scenario(simulation: Simulation) -> None:
        task = asyncio.ensure_future(interrupted())
        await asyncio.sleep(1)
        del task

    with pytest.raises(TimeLimit):
        Simulation(1).run(scenario)
