"""Threads for blocking calls, in lanes that cannot starve one another.

The work must not touch state of the event loop: it gets arguments and returns a value. A simulation runs the work
inline, at a moment of its choice.

Each lane has its own threads. Ten consumers that read cold segments from a slow disk must not delay a producer's fsync,
and a long recovery or decompression must not delay either of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Protocol, TypeVar

T = TypeVar("T")


CLEANING_THREADS_MAX = 8  # the log cleaner uses `log.cleaner.threads` of them


class Lane(Enum):
    SYNC = "sync"
    """fsync of logs and of the quorum's state: a client waits for it."""
    READ = "read"
    """Reads of pages that are not in the page cache: a client waits for them, and there may be many."""
    BACKGROUND = "background"
    """Everything else: recovery, checkpoints, deletion, copying between directories, decompression."""
    CLEANING = "cleaning"
    """Log compaction: long, and nobody waits for it."""


class Workers(Protocol):
    def run(self, work: Callable[[], T], *, lane: Lane = Lane.BACKGROUND) -> asyncio.Future[T]:
        """Run `work` in a thread; the future gets its result or exception."""
        ...

    def close(self) -> None:
        """Accept no more work and wait for the running work."""
        ...


class ThreadWorkers:
    """A bounded thread pool per lane. A pool starts a thread only when all its threads are busy."""

    def __init__(self, background_threads: int, *, read_threads: int | None = None) -> None:
        """The pool sizes are `background.threads` (also for the sync lane) and `num.io.threads`."""
        sizes = {
            Lane.SYNC: background_threads,
            Lane.READ: read_threads or background_threads,
            Lane.BACKGROUND: background_threads,
            Lane.CLEANING: CLEANING_THREADS_MAX,
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
