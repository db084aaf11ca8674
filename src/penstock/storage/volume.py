"""What the logs of one directory share, and whether the directory still serves.

A disk that failed once is not asked again: after a failed write or sync nobody can say what is on it (Linux
drops the pages that it could not write, and the next fsync succeeds). So the first error takes the whole
directory out of service, with one message, until the node is started anew.
"""

from __future__ import annotations

import errno
import logging
import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from penstock.runtime.clock import Clock
from penstock.runtime.disk import Disk
from penstock.runtime.workers import Workers
from penstock.storage.errors import DirectoryOffline

logger = logging.getLogger(__name__)


class Volume:
    __slots__ = (
        "checkpoint_writes",
        "clock",
        "descriptors",
        "disk",
        "offline",
        "on_offline",
        "path",
        "random",
        "workers",
    )

    def __init__(
        self,
        path: str,
        *,
        disk: Disk,
        workers: Workers,
        clock: Clock,
        rng: random.Random,
        descriptors: Descriptors,
    ) -> None:
        self.path = path
        self.disk = disk
        self.workers = workers
        self.clock = clock
        self.random = rng
        self.descriptors = descriptors
        self.offline: DirectoryOffline | None = None
        self.on_offline: list[Callable[[], None]] = []
        """Called once, on the event loop, after `offline` was set."""
        self.checkpoint_writes: Callable[[], list[Callable[[], None]]] = list
        """How to write the recovery points and start offsets of all logs in the directory, in a worker; set by the
        directory."""

    def fail(self, error: BaseException, doing: str) -> DirectoryOffline:
        """Take the directory out of service because of `error` while `doing` something; returns what to
        raise.

        Only on the event loop: work in a thread lets its OSError travel through the future to the one that
        started it.
        """
        if self.offline is None:
            self.offline = DirectoryOffline(self.path, _reason(error, doing))
            logger.error(
                "%s; its partitions stay offline until the disk is repaired and the node restarted",
                self.offline,
            )
            for notify in self.on_offline:
                notify()
        return self.offline

    def read_failed(self, error: OSError, path: str) -> None:
        """For `FileSlice`: a file of this directory could not be read."""
        self.fail(error, f"reading {path}")

    def refusal(self) -> DirectoryOffline:
        """A new exception that says why; one raised again and again would drag its tracebacks along."""
        assert self.offline is not None
        return DirectoryOffline(self.path, self.offline.reason)


def _reason(error: BaseException, doing: str) -> str:
    """What happened, with the name of the error and of the file."""
    if not isinstance(error, OSError):
        return str(error)
    words = error.strerror or str(error)
    if error.errno is not None:
        words += f" ({errno.errorcode.get(error.errno, error.errno)})"
    if isinstance(error.filename, str) and error.filename not in doing:
        doing += f", in {error.filename}"
    return f"{words} while {doing}"


class HoldsFiles(Protocol):
    def release_files(self) -> None: ...


class Descriptors:
    """Keeps the number of open files bounded, however many partitions and segments there are.

    Whoever opened longest ago lets go first, and opens again when it must: cheaper than bookkeeping on every
    read, and as a slice keeps its file open by itself, never in the way of one that is still being sent.
    """

    __slots__ = ("_holders", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # Logs are loaded in several threads, and each call of this is atomic.
        self._holders: OrderedDict[HoldsFiles, None] = OrderedDict()

    def opened(self, holder: HoldsFiles) -> None:
        self._holders[holder] = None
        if len(self._holders) > self.limit:
            oldest, _ = self._holders.popitem(last=False)
            oldest.release_files()

    def released(self, holder: HoldsFiles) -> None:
        """It has let go by itself, perhaps for good: do not keep it alive."""
        self._holders.pop(holder, None)
