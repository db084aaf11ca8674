"""The thread of sync clients: results and errors come back, nothing is left behind, and nothing waits forever."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from harness.waiting import wait_until
from penstock.client import errors
from penstock.client.background import Background


@pytest.fixture
def background() -> Iterator[Background]:
    background = Background("test-background")
    yield background
    background.close()


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "test-background"]


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def fail() -> None:
    raise errors.Disconnected("gone")


async def count_tasks() -> int:
    return len(asyncio.all_tasks())


def test_no_thread_is_started_before_the_first_call() -> None:
    Background("test-background")
    assert threads() == []


def test_the_result_of_a_coroutine_is_returned(background: Background) -> None:
    assert background.call(lambda: double(21)) == 42
    assert len(threads()) == 1


def test_its_exception_is_raised(background: Background) -> None:
    with pytest.raises(errors.Disconnected, match="gone"):
        background.call(fail)


def test_a_timeout_of_the_coroutine_is_not_the_callers(background: Background) -> None:
    async def give_up() -> None:
        raise errors.TimedOut("by itself")

    with pytest.raises(errors.TimedOut, match="by itself"):
        background.call(give_up, timeout_s=60)


@pytest.mark.parametrize("moment", range(12))
def test_ctrl_c_at_the_start_of_a_call_leaves_no_coroutine(background: Background, moment: int) -> None:
    """Python checks for signals at the start of a function: here Ctrl-C comes at the first such moment, the second,
    ..."""
    background.call(lambda: double(1))  # the thread runs
    begun = 0

    def interrupt(frame: object, event: str, argument: object) -> None:
        nonlocal begun
        if event == "call":
            begun += 1
            if begun > moment:
                sys.setprofile(None)
                raise KeyboardInterrupt

    def call() -> None:
        sys.setprofile(interrupt)
        try:
            background.call(asyncio.Event().wait)
        finally:
            sys.setprofile(None)

    with pytest.raises(KeyboardInterrupt):
        call()
    gc.collect()  # a coroutine that never ran would warn here, and warnings are errors
    assert background.call(count_tasks) == 1, "only the task that counts"


def test_a_timed_out_call_is_cancelled(background: Background) -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(errors.TimedOut):
        background.call(wait, timeout_s=0.01)  # on a busy machine it may not even have started
    assert background.call(count_tasks) == 1, "only the task that counts"


def test_ctrl_c_cancels_the_callers_coroutine(background: Background) -> None:
    ended = threading.Event()

    async def interrupt_and_wait() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(KeyboardInterrupt):
        background.call(interrupt_and_wait)
    assert ended.is_set()
    assert background.call(lambda: double(1)) == 2


def test_ctrl_c_that_does_not_wake_the_caller_is_noticed_later(background: Background) -> None:
    # As if it came just before the lock is waited for: another thread takes the signal.
    async def interrupt_and_wait() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        background.call(interrupt_and_wait)
    assert background.call(lambda: double(1)) == 2


def test_ctrl_c_during_the_handover_cancels_the_call(
    background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = threading.Event()
    ended_in: list[str] = []
    post = background._post

    def post_and_be_interrupted(callback: Any, *arguments: Any) -> None:
        post(callback, *arguments)
        assert started.wait(60)
        raise KeyboardInterrupt

    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended_in.append(threading.current_thread().name)

    monkeypatch.setattr(background, "_post", post_and_be_interrupted)
    with pytest.raises(KeyboardInterrupt):
        background.call(wait)
    assert ended_in == ["test-background"]


def test_ctrl_c_before_the_handover_leaves_nothing(
    background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_interrupted(callback: Any, *arguments: Any) -> None:
        raise KeyboardInterrupt

    background.call(lambda: double(1))
    monkeypatch.setattr(background, "_post", be_interrupted)
    with pytest.raises(KeyboardInterrupt):
        background.call(lambda: double(1))


def test_a_call_from_its_own_thread_is_rejected(background: Background) -> None:
    async def call_again() -> None:
        background.call(lambda: double(1))

    with pytest.raises(errors.IllegalState, match="its own thread"):
        background.call(call_again)


def test_it_cannot_be_closed_from_its_own_thread(background: Background) -> None:
    async def close() -> None:
        background.close()

    with pytest.raises(errors.IllegalState, match="its own thread"):
        background.call(close)


def test_posted_functions_run_on_the_thread(background: Background) -> None:
    ran_in: list[str] = []
    background.post(lambda: ran_in.append(threading.current_thread().name))
    background.call(lambda: double(1))
    assert ran_in == ["test-background"]


def test_closing_ends_the_thread_and_may_be_repeated(background: Background) -> None:
    background.call(lambda: double(1))
    background.close()
    assert threads() == []
    background.close()


def test_a_closed_one_rejects_calls(background: Background) -> None:
    background.close()
    with pytest.raises(errors.ClientClosed):
        background.call(lambda: double(1))
    with pytest.raises(errors.ClientClosed):
        background.post(print)


def test_closing_wakes_a_caller_in_another_thread(background: Background) -> None:
    is_waiting = threading.Event()
    seen: list[BaseException] = []

    async def wait() -> None:
        is_waiting.set()
        await asyncio.Event().wait()

    def call() -> None:
        try:
            background.call(wait)
        except errors.ClientClosed as error:
            seen.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    assert is_waiting.wait(60)
    background.close()
    caller.join(60)
    assert len(seen) == 1


def test_garbage_collection_ends_the_thread() -> None:
    background = Background("test-background")
    background.call(lambda: double(1))
    del background
    gc.collect()
    wait_until(lambda: threads() == [], "the thread ends")


def test_it_is_rejected_in_a_forked_child(background: Background) -> None:
    background.call(lambda: double(1))
    child = os.fork()
    if child == 0:
        try:
            background.call(lambda: double(1))
        except errors.UsedAfterFork:
            background.close()  # it must neither hang nor end the parent's
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert background.call(lambda: double(3)) == 6
