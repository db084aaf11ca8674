"""The state of a `log.Log` on which its parts work: `LogReader`, `Durability` and `LogTruncation`.

A protocol, so that the parts need not import the log that owns them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from penstock.storage.directory_io import DirectoryIO
from penstock.storage.epochs import LeaderEpochs
from penstock.storage.errors import StorageError
from penstock.storage.producer_state import ProducerState
from penstock.storage.segments import Segments
from penstock.storage.settings import LogSettings


class LogState(Protocol):
    io: DirectoryIO
    folder: str
    segments: Segments
    epochs: LeaderEpochs
    producers: ProducerState
    settings: LogSettings
    start_offset: int
    end_offset: int
    high_watermark: int
    refusal: Callable[[], StorageError] | None

    def in_service(self, doing: str) -> AbstractContextManager[None]: ...
