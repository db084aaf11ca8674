"""When a process dies, everything that it started ends, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from simulator.loop import VirtualLoop, run_virtual
from simulator.process import PROCESS, Died, Process


def run(main: Callable[[VirtualLoop], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualLoop()
    run_virtual(loop, main(loop))


def kill(loop: VirtualLoop, process: Process) -> None:
    process.die()
    loop.drop_process(process)


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


def test_nothing_of_a_dead_process_runs_not_even_its_clean_up() -> None:
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


def test_code_that_a_death_unwinds_cannot_start_anything() -> None:
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


def test_other_processes_continue() -> None:
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


def test_dead_tasks_are_collected_without_warnings(recwarn: Any) -> None:
    errors: list[dict[str, Any]] = []

    async def main(loop: VirtualLoop) -> None:
        loop.set_exception_handler(lambda _, context: errors.append(context))
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
        loop.create_task(stubborn(), context=process.context)  # never reaches its first step
        loop.create_task(
            follow(stubborn()), context=process.context
        )  # nor does the coroutine that it would await
        kill(loop, process)

    run(main)

    assert errors == []
    assert len(recwarn) == 0


def test_timers_of_a_paused_process_fire_late_and_in_order() -> None:
    async def main(loop: VirtualLoop) -> None:
        process = Process("one")
        done: list[tuple[str, float]] = []

        def note(name: str) -> None:
            done.append((name, loop.time()))

        async def work() -> None:
            loop.call_later(3, note, "third")
            loop.call_later(1, note, "first")
            loop.call_later(2, note, "second")
            await asyncio.sleep(9)
            note("on time")

        loop.create_task(work(), context=process.context)
        await asyncio.sleep(0.5)
        loop.pause_process(process)
        await asyncio.sleep(5)
        assert done == []
        loop.resume_process(process)
        await asyncio.sleep(5)

        assert done == [("first", 5.5), ("second", 5.5), ("third", 5.5), ("on time", 9.0)]

    run(main)


def test_a_process_can_be_paused_while_its_callbacks_are_due() -> None:
    async def main(loop: VirtualLoop) -> None:
        process = Process("one")
        done: list[str] = []

        loop.call_soon(loop.pause_process, process)
        loop.call_soon(done.append, "of the paused process", context=process.context)
        loop.call_soon(done.append, "of another")
        await asyncio.sleep(1)
        assert done == ["of another"]
        loop.resume_process(process)
        await asyncio.sleep(1)

        assert done == ["of another", "of the paused process"]

    run(main)


def test_a_dead_process_does_not_stay_paused() -> None:
    async def main(loop: VirtualLoop) -> None:
        process, other = Process("one"), Process("other")
        done: list[str] = []
        loop.pause_process(process)
        loop.call_soon(done.append, "of the dead", context=process.context)
        kill(loop, process)
        loop.pause_process(other)
        loop.call_soon(done.append, "of the other", context=other.context)
        loop.resume_process(other)
        await asyncio.sleep(1)

        assert done == ["of the other"]

    run(main)
