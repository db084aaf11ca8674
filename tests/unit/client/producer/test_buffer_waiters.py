"""Callers that wait for free bytes in the buffer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client import errors
from penstock.client.producer.buffer_waiters import BufferWaiters

BUFFER_BYTES = 800


@pytest.fixture
def intake() -> Any:
    return SimpleNamespace(available_bytes=0)


@pytest.fixture
def waiters(intake: Any) -> BufferWaiters:
    return BufferWaiters(intake, BUFFER_BYTES)


async def test_waiters_continue_in_order(waiters: BufferWaiters, intake: Any) -> None:
    large, small = waiters.add(500), waiters.add(1)
    assert large is not None
    assert small is not None

    intake.available_bytes = 200
    waiters.advance()
    assert (large.done(), small.done()) == (False, False)

    intake.available_bytes = 500
    waiters.advance()
    assert (large.done(), small.done(), bool(waiters)) == (True, True, False)


async def test_a_waiter_continues_when_a_larger_one_before_it_gives_up(
    waiters: BufferWaiters, intake: Any
) -> None:
    """It waited until the next response of a broker, although there was space for it."""
    large, small = waiters.add(500), waiters.add(1)
    assert large is not None
    assert small is not None
    intake.available_bytes = 200
    waiters.advance()

    waiters.remove(large)

    assert small.done()
    assert not waiters


async def test_closing_fails_all_waiters(waiters: BufferWaiters) -> None:
    waiter = waiters.add(1)
    assert waiter is not None

    waiters.close()

    assert isinstance(waiter.exception(), errors.ClientClosed)
