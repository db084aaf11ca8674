"""Threads for the calls that block, in lanes that cannot starve one another.

Work handed over must not touch state that the event loop also touches; it takes what it needs as arguments and
returns a value. A simulation runs the work inline, at a moment of its choosing.

Each lane has threads of its own. Ten consumers that read cold segments from a slow disk must not keep a producer
waiting for its fsync, and a long recovery or decompression must not keep either of them waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Protocol, TypeVar

T = TypeVar("T")


class Lane(Enum):
    SYNC = "sync"
    """fsync of logs and of the quorum's state: a client waits for it."""
    READ = "read"
    """Reads of pages that are not in the page cache: a client waits for them, but they may be many."""
    BACKGROUND = "background"
    """Everything else: recovery, checkpoints, deletion, copying between directories, decompression."""


class Workers(Protocol):
    def run(self, work: Callable[[], T], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[T]:
        """Start `work` off the loop; the future carries its result or its exception."""
        ...

    def close(self) -> None:
        """Wait for what is under way and take no more."""
        ...


class ThreadWorkers:
    """A bounded pool of threads for each lane. A pool starts a thread only when all of its others are busy."""

    def __init__(self, background_threads: int, *, read_threads: int | None = None) -> None:
        """The sizes are the settings `background.threads`, also for syncs, and `num.io.threads`."""
        sizes = {
            Lane.SYNC: background_threads,
            Lane.READ: read_threads or background_threads,
            Lane.BACKGROUND: background_threads,
        }
        self._pools = {
            lane: ThreadPoolExecutor(max_workers=size, thread_name_prefix=f"penstock-{lane.value}")
            for lane, size in sizes.items()
        }

    def run(self, work: Callable[[], T], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._pools[lane], work)

    def close(self) -> None:
        for pool in self._pools.values():
            pool.shutdown(wait=True)
