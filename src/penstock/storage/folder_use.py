"""Permission for a worker to use the files of a log's folder by name, until the log leaves the folder.

A worker may be in the middle of its work when the log is deleted, and a new log of the same name gets the folder. Files
that are open belong to the old log; a name belongs to the new one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.storage.errors import LogBusy


class FolderUse:
    __slots__ = ("_is_over", "_lock", "_name")

    def __init__(self, name: str) -> None:
        """`name` is that of the log."""
        self._name = name
        self._lock = threading.Lock()
        self._is_over = False

    @contextmanager
    def by_name(self) -> Iterator[None]:
        """For one operation on a name. LogBusy if the log has left the folder."""
        with self._lock:
            if self._is_over:
                raise LogBusy(f"{self._name} was deleted or moved to another directory")
            yield

    def end(self) -> None:
        """On the event loop, before the log leaves the folder; waits for an operation that has begun."""
        with self._lock:
            self._is_over = True
