"""Threads for the few calls that block: fsync, recovery scans, cold reads.

Work handed over must not touch state that the event loop also touches; it takes what it needs as arguments and
returns a value. A simulation runs the work inline, at a moment of its choosing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Workers(Protocol):
    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Start `work` off the loop; the future carries its result or its exception."""
        ...

    def close(self) -> None:
        """Wait for what is under way and take no more."""
        ...


class ThreadWorkers:
    """A bounded pool of threads; its size is the setting `background.threads`."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="penstock-worker")

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        self._pool.shutdown(wait=True)
