"""The disk, workers and clock of one log directory, and whether it is offline.

A disk that failed once is not used again: after a failed write or sync it is unknown what is on it (Linux drops the
pages that it could not write, and the next fsync succeeds). So the first error takes the whole directory offline, with
one message, until the node is restarted.
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


class DirectoryIO:
    __slots__ = (
        "checkpoint_writes",
        "clock",
        "disk",
        "offline",
        "on_offline",
        "open_files",
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
        open_files: OpenFiles,
    ) -> None:
        self.path = path
        self.disk = disk
        self.workers = workers
        self.clock = clock
        self.random = rng
        self.open_files = open_files
        self.offline: DirectoryOffline | None = None
        self.on_offline: list[Callable[[], None]] = []
        """Called once, on the event loop, after `offline` was set."""
        self.checkpoint_writes: Callable[[], list[Callable[[], None]]] = list
        """Functions that write the recovery points and log start offsets of the directory, to be run in a worker; set
        by the directory."""

    def fail(self, error: BaseException, doing: str) -> DirectoryOffline:
        """Take the directory offline because of `error` while `doing` something; returns the exception to raise.

        Only on the event loop: an OSError in a worker travels through its future to the caller.
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
        """A new exception with the reason; raising one again and again would accumulate tracebacks."""
        assert self.offline is not None
        return DirectoryOffline(self.path, self.offline.reason)


def _reason(error: BaseException, doing: str) -> str:
    """The error, with its name and that of the file."""
    if not isinstance(error, OSError):
        return str(error)
    message = error.strerror or str(error)
    if error.errno is not None:
        message += f" ({errno.errorcode.get(error.errno, error.errno)})"
    if isinstance(error.filename, str) and error.filename not in doing:
        doing += f", in {error.filename}"
    return f"{message} while {doing}"


class HoldsFiles(Protocol):
    def release_files(self) -> None: ...


class OpenFiles:
    """Limits the number of open files, however many partitions and segments there are.

    The holder that opened its files longest ago releases them first, and opens them again when needed. That is cheaper
    than bookkeeping on every read. A slice keeps its file open by itself, so one that is being sent is not affected.
    """

    __slots__ = ("_holders", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # Logs are loaded in several threads; each of these calls is atomic.
        self._holders: OrderedDict[HoldsFiles, None] = OrderedDict()

    def opened(self, holder: HoldsFiles) -> None:
        self._holders[holder] = None
        if len(self._holders) > self.limit:
            oldest, _ = self._holders.popitem(last=False)
            oldest.release_files()

    def released(self, holder: HoldsFiles) -> None:
        """It released its files itself, perhaps for good: do not keep it alive."""
        self._holders.pop(holder, None)
