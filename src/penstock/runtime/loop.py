"""The event loop of a process: uvloop where it can be had, tuned for a program that holds much and frees little."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# Collections are rarer than Python's default of 700: bench "one-record latency, p99.9".
YOUNG_OBJECTS_MAX = 50_000


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end on the best loop there is."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def new_loop() -> asyncio.AbstractEventLoop:
    """The best loop there is, not running yet; uvloop is imported only now."""
    try:
        import uvloop
    except ImportError:  # no wheel for this platform; the standard loop does the same, more slowly
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def settle_memory() -> None:
    """Call once when start-up is over: what exists now will stay, so the collector need not look at it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX, 20, 20)
