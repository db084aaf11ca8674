"""Files and folders that are no longer used, removed a while later.

A consumer may still be sent a slice of a segment that retention just dropped, and an operator may want a
minute to change their mind: hence `file.delete.delay.ms`. What is still here when the node stops is removed
by the next start, by its name.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from penstock.runtime.disk import Disk
from penstock.storage.volume import Volume


class Trash:
    __slots__ = ("_timers", "_volume")

    def __init__(self, volume: Volume) -> None:
        self._volume = volume
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
            if self._volume.offline is None:
                work = self._volume.workers.run(lambda: remove(self._volume.disk))
                work.add_done_callback(self._finish)

        timer = asyncio.get_running_loop().call_later(delay_ms / 1000, start)
        self._timers.add(timer)

    def _finish(self, work: asyncio.Future[None]) -> None:
        error = None if work.cancelled() else work.exception()
        if isinstance(error, Exception):
            self._volume.fail(error, "removing deleted files")


def remove_files(disk: Disk, paths: Sequence[str]) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # its folder was deleted meanwhile
            disk.remove(path)


def remove_folder(disk: Disk, path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        disk.remove_tree(path)
