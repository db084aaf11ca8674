"""Deletes files and folders after `file.delete.delay.ms`.

The delay is for consumers that are still being sent a slice of a deleted segment, and for operators who change their
mind. Files that are left when the node stops are deleted by the next start, which knows them by name.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from penstock.runtime.disk import Disk
from penstock.storage.directory_io import DirectoryIO


class DelayedDeletion:
    __slots__ = ("_io", "_timers")

    def __init__(self, io: DirectoryIO) -> None:
        self._io = io
        self._timers: set[asyncio.TimerHandle] = set()

    def remove_files_later(self, paths: Sequence[str], delay_ms: int) -> None:
        self._later(lambda disk: remove_files(disk, paths), delay_ms)

    def remove_folder_later(self, path: str, delay_ms: int) -> None:
        self._later(lambda disk: remove_folder(disk, path), delay_ms)

    def close(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _later(self, remove: Callable[[Disk], None], delay_ms: int) -> None:
        def start() -> None:
            self._timers.discard(timer)
            if self._io.offline is None:
                work = self._io.workers.run(lambda: remove(self._io.disk))
                work.add_done_callback(self._finish)

        timer = asyncio.get_running_loop().call_later(delay_ms / 1000, start)
        self._timers.add(timer)

    def _finish(self, work: asyncio.Future[None]) -> None:
        error = None if work.cancelled() else work.exception()
        if isinstance(error, Exception):
            self._io.fail(error, "removing deleted files")


def remove_files(disk: Disk, paths: Sequence[str]) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # its folder was deleted meanwhile
            disk.remove(path)


def remove_folder(disk: Disk, path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        disk.remove_tree(path)
