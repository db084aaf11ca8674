"""One partition's log: segments in a directory, appended to at the end, read anywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from penstock.records.batch import BatchHeader
from penstock.runtime.network import FileSlice
from penstock.storage.settings import LogSettings


class AppendInfo(NamedTuple):
    """Where batches went; for a duplicate, where they went the first time."""

    first_offset: int
    last_offset: int
    append_time_ms: int
    """-1 unless the batches carry LogAppendTime."""
    log_start_offset: int
    is_duplicate: bool


class TimestampedOffset(NamedTuple):
    offset: int
    timestamp_ms: int
    leader_epoch: int


class Log:
    directory: str
    """The partition's own folder, e.g. `/data/orders-0`."""
    topic: str
    partition: int
    topic_id: bytes
    settings: LogSettings
    start_offset: int
    end_offset: int
    recovery_point: int
    durable_end_offset: int
    high_watermark: int
    """Set by the partition's owner; retention and the high-watermark checkpoint read it. Restored at start.
    """
    on_durable: Callable[[], None] | None
    """Called after `durable_end_offset` moved by a flush, or when the directory went offline meanwhile."""

    def append(
        self, batches: memoryview, headers: list[BatchHeader], *, leader_epoch: int, now_ms: int
    ) -> AppendInfo: ...
    def append_as_follower(self, batches: memoryview, *, now_ms: int) -> AppendInfo: ...
    def read(
        self, offset: int, *, max_bytes: int, end_offset: int, at_least_one: bool
    ) -> FileSlice | None: ...
    def offset_for_timestamp(self, timestamp_ms: int, *, end_offset: int) -> TimestampedOffset | None: ...
    def max_timestamp(self, *, end_offset: int) -> TimestampedOffset | None: ...
    def latest_epoch(self) -> int | None: ...
    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]: ...
    def advance_start(self, offset: int) -> None: ...
    def truncate(self, offset: int) -> None: ...
    def truncate_fully(self, start_offset: int) -> None: ...
    def enforce_retention(self, now_ms: int, *, high_watermark: int) -> int: ...
    async def flush(self) -> None: ...
    def size_bytes(self) -> int: ...
