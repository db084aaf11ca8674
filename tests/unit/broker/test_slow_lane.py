"""The slow lane: one piece of work at a time, in order, even if callers disconnect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock.broker.slow_lane import SlowLane
from penstock.runtime import Lane


class ManualWorkers:
    """Runs work when the test calls for it."""

    def __init__(self) -> None:
        self.running: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    def run(self, work: Callable[[], Any], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.running.append((work, future))
        return future

    def close(self) -> None:
        pass

    async def finish_one(self) -> None:
        work, future = self.running.pop(0)
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def test_work_is_done_one_after_the_other() -> None:
    workers = ManualWorkers()
    lane = SlowLane(workers)

    results = [lane.run(lambda number=number: number, host="a") for number in range(3)]
    assert (len(workers.running), len(lane)) == (1, 2)
    for number in range(3):
        await workers.finish_one()
        assert [future.done() for future in results] == [each <= number for each in range(3)]

    assert [await future for future in results] == [0, 1, 2]
    assert workers.running == []


async def test_hosts_take_turns() -> None:
    workers = ManualWorkers()
    lane = SlowLane(workers)
    done: list[str] = []

    for name in ("a1", "a2", "a3", "b1", "b2", "c1"):
        lane.run(lambda name=name: done.append(name), host=name[0])
    for _ in range(6):
        await workers.finish_one()

    assert done == ["a1", "a2", "b1", "c1", "a3", "b2"]
    assert len(lane) == 0


async def test_a_failure_is_reported_to_its_caller_and_does_not_stop_others() -> None:
    workers = ManualWorkers()
    lane = SlowLane(workers)

    failing, fine = lane.run(lambda: 1 // 0, host="a"), lane.run(lambda: "fine", host="a")
    await workers.finish_one()
    await workers.finish_one()

    with pytest.raises(ZeroDivisionError):
        await failing
    assert await fine == "fine"


async def test_cancelled_work_is_not_started() -> None:
    workers = ManualWorkers()
    lane = SlowLane(workers)

    running, waiting, last = (lane.run(lambda number=number: number, host="a") for number in range(3))
    running.cancel()
    waiting.cancel()
    await workers.finish_one()  # running work is completed before the next starts

    assert len(workers.running) == 1
    await workers.finish_one()
    assert await last == 2
