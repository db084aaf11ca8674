"""A process that dies takes with it everything that it started, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.testing.loop import VirtualLoop, run_virtual
from penstock.testing.process import PROCESS, Died, Process


def run(main: Callable[[VirtualLoop], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualLoop()
    run_virtual(loop, main(loop))


def kill(loop: VirtualLoop, process: Process) -> None:
    process.die()
    loop.bury(process)


def test_tasks_timers_and_callbacks_belong_to_the_process_that_made_them() -> None:
    async def main(loop: VirtualLoop) -> None:
        process = Process("one")
        owners: list[Process | None] = []

        def note() -> None:
            owners.append(PROCESS.get())

        async def work() -> None:
            note()
            loop.call_soon(note)
            loop.call_later(1, note)
            await asyncio.create_task(inner())

        async def inner() -> None:
            await asyncio.sleep(2)
            note()

        await loop.create_task(work(), context=process.context)
        note()

        assert owners == [process] * 4 + [None]

    run(main)


def test_nothing_of_a_dead_process_runs_not_even_its_cleaning_up() -> None:
    async def main(loop: VirtualLoop) -> None:
        process = Process("one")
        done: list[str] = []
        gate: asyncio.Future[None] = loop.create_future()

        async def work() -> None:
            loop.call_later(1, done.append, "a timer")
            try:
                await gate
            finally:
                done.append("cleaning up")

        loop.create_task(work(), context=process.context)
        await asyncio.sleep(0)
        kill(loop, process)
        gate.set_result(None)
        await asyncio.sleep(10)

        assert done == []
        assert process.death.done()

    run(main)


def test_code_that_is_unwound_by_a_death_can_start_nothing() -> None:
    async def main(loop: VirtualLoop) -> None:
        process = Process("one")
        done: list[str] = []

        async def work() -> None:
            try:
                kill(loop, process)
                raise Died
            finally:
                loop.call_soon(done.append, "a callback")
                loop.call_later(1, done.append, "a timer")

        loop.set_exception_handler(lambda *_: None)
        loop.create_task(work(), context=process.context)
        await asyncio.sleep(10)

        assert done == []

    run(main)


def test_others_live_on() -> None:
    async def main(loop: VirtualLoop) -> None:
        one, other = Process("one"), Process("other")
        done: list[str] = []

        async def work(name: str) -> None:
            await asyncio.sleep(1)
            done.append(name)

        for process in (one, other):
            loop.create_task(work(process.name), context=process.context)
        own = asyncio.create_task(work("ours"))
        await asyncio.sleep(0.5)
        kill(loop, one)
        await own

        assert done == ["other", "ours"]

    run(main)


def test_dead_tasks_leave_without_a_word(recwarn: Any) -> None:
    complaints: list[dict[str, Any]] = []

    async def main(loop: VirtualLoop) -> None:
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        process = Process("one")

        async def stubborn() -> None:
            while True:
                try:
                    await asyncio.sleep(1)
                except BaseException:
                    await asyncio.sleep(1)
                    raise

        async def follow(other: Coroutine[Any, Any, None]) -> None:
            await other

        loop.create_task(stubborn(), context=process.context)
        await asyncio.sleep(0.5)
        loop.create_task(stubborn(), context=process.context)  # never gets to its first step
        loop.create_task(
            follow(stubborn()), context=process.context
        )  # nor does what it would have waited for
        kill(loop, process)

    run(main)

    assert complaints == []
    assert len(recwarn) == 0
