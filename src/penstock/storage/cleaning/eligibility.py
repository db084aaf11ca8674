"""Decides which part of a log can be compacted, and whether it is worth it.

    log start ... first dirty offset ... end of the cleanable part ... log end
    |-- clean ---|------- dirty --------|-------- not yet ----------|

The clean part was compacted before. The dirty part is compacted next. What follows has to wait: the active segment,
records above the high watermark, records of open transactions, records younger than `min.compaction.lag.ms`, and
segments that are not synced yet.

Nothing here changes the log. Reads may raise `pages.ColdPages`.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.storage.log import Log
from penstock.storage.settings import NEVER


class Cleanable(NamedTuple):
    first_dirty_offset: int
    end_offset: int
    """Exclusive; the base offset of a segment."""
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """A record is older than `max.compaction.lag.ms`."""

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes)


def find_cleanable(log: Log, *, cleaned_offset: int, now_ms: int) -> Cleanable | None:
    """The part of `log` to compact; None if no segment can be. `cleaned_offset` is that of the checkpoint."""
    segments, settings = log.segments, log.settings
    first_dirty_offset = cleaned_offset
    if not log.start_offset <= cleaned_offset <= log.end_offset:
        first_dirty_offset = log.start_offset  # records before it were deleted, or the checkpoint is wrong
    limit = min(log.high_watermark, log.durability.scan_offset, segments.active.base_offset)
    first_unstable_offset = log.first_unstable_offset
    if first_unstable_offset is not None:
        limit = min(limit, first_unstable_offset)
    clean_bytes = dirty_bytes = 0
    end_offset = first_dirty_offset
    oldest_ms = NEVER
    for slot, segment in enumerate(segments):
        segment_end_offset = segments.end_of(slot, log_end_offset=log.end_offset)
        if segment_end_offset > limit:
            break
        if segment_end_offset <= first_dirty_offset:
            clean_bytes += segment.size
            continue
        lag_ms = settings.min_compaction_lag_ms
        if lag_ms > 0 and segment.retention_timestamp() > now_ms - lag_ms:
            break
        dirty_bytes += segment.size
        end_offset = segment_end_offset
        if settings.max_compaction_lag_ms < NEVER and segment.size > 0:
            first_ms = segment.first_batch_timestamp()
            if first_ms > 0:  # otherwise the batch has no timestamp
                oldest_ms = min(oldest_ms, first_ms)
    if dirty_bytes == 0:
        return None
    is_overdue = oldest_ms < NEVER and now_ms - oldest_ms > settings.max_compaction_lag_ms
    return Cleanable(first_dirty_offset, end_offset, clean_bytes, dirty_bytes, is_overdue)
