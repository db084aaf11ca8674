"""Background tasks that fail are logged, counted and started again, on a virtual clock."""

from __future__ import annotations

import asyncio
import logging

import pytest

from penstock.runtime.supervisor import STEADY_MS, Supervisor
from simulator.loop import VirtualLoop, run_virtual


def test_periodic_work_that_fails_once_continues_and_the_failure_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rounds: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        supervisor = Supervisor()

        async def work() -> None:
            rounds.append(loop.time())
            if len(rounds) == 2:
                raise ValueError("disk of straw")

        began = loop.time()
        task = supervisor.repeat("retention", work, interval_ms=10_000, initial_delay_ms=5_000)
        await asyncio.sleep(40)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        assert [round(moment - began) for moment in rounds] == [5, 15, 16, 26, 36]
        assert supervisor.restarts == {"retention": 1}

    run_virtual(VirtualLoop(), main())
    (logged,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "'retention' failed: disk of straw; restarting it in 1000 ms" in logged.getMessage()
    assert logged.exc_info is not None


def test_a_task_that_always_fails_neither_spins_nor_stops() -> None:
    async def main() -> None:
        supervisor = Supervisor()

        async def work() -> None:
            raise RuntimeError

        task = supervisor.run("sync", work)
        await asyncio.sleep(3600)
        assert not task.done()
        assert 60 <= supervisor.restarts["sync"] <= 70
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    run_virtual(VirtualLoop(), main())


def test_a_task_that_ran_for_long_is_restarted_quickly() -> None:
    starts: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        supervisor = Supervisor()

        async def work() -> None:
            starts.append(loop.time())
            if len(starts) > 5:
                await asyncio.sleep(STEADY_MS / 1000)
            raise RuntimeError

        task = supervisor.run("sync", work)
        await asyncio.sleep(STEADY_MS / 1000 * 1.5)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert round(starts[6] - starts[5] - STEADY_MS / 1000, 3) == 1.0

    run_virtual(VirtualLoop(), main())
