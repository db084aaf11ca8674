"""A limit on bytes per second."""

from __future__ import annotations

import asyncio

import pytest

from penstock.storage.throttle import WAIT_S_MAX, Throttle
from simulator.loop import VirtualLoop, run_virtual


@pytest.mark.parametrize(("rate", "seconds"), [(1_000, 9), (100, 90), (10_000, 0.9)])
def test_the_rate_is_kept(rate: int, seconds: float) -> None:
    loop = VirtualLoop()

    async def copy() -> float:
        throttle = Throttle(lambda: rate, loop.time)
        began_s = loop.time()
        for _ in range(10):
            await throttle.take(1000)
        return loop.time() - began_s

    assert run_virtual(loop, copy()) == pytest.approx(seconds, rel=0.01)


def test_a_raised_rate_applies_at_once() -> None:
    loop = VirtualLoop()
    rates = [1]

    async def copy() -> float:
        throttle = Throttle(lambda: rates[0], loop.time)
        await throttle.take(1 << 20)
        loop.call_later(10, lambda: rates.__setitem__(0, 1 << 40))
        await throttle.take(1 << 20)
        return loop.time()

    began_s = loop.time()
    assert run_virtual(loop, copy()) - began_s <= 10 + WAIT_S_MAX


def test_a_rate_of_0_stops_everything_until_it_is_raised() -> None:
    loop = VirtualLoop()
    rates = [0]

    async def copy() -> bool:
        throttle = Throttle(lambda: rates[0], loop.time)
        taking = asyncio.ensure_future(throttle.take(10))
        await asyncio.sleep(1000)
        was_stopped = not taking.done()
        rates[0] = 10
        await taking
        return was_stopped

    assert run_virtual(loop, copy())


def test_unused_bandwidth_is_lost() -> None:
    now_s = [0.0]
    throttle = Throttle(lambda: 100, lambda: now_s[0])
    now_s[0] = 1000.0
    assert throttle.wait_s() == 0

    throttle._allowance -= 201  # one second's worth, and another second's

    assert throttle.wait_s() == pytest.approx(1.0, abs=0.02)
