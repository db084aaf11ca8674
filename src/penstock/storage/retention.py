"""Decides which of a log's oldest segments to delete: by time, by size, or because they are before the log start
offset.

Segments are deleted whole and from the front, never past the high watermark. The active segment may be among them if
it has records; the log rolls first then.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.storage.segment import Segment
from penstock.storage.segments import Segments
from penstock.storage.settings import LogSettings


def expired_count(
    segments: Segments,
    settings: LogSettings,
    *,
    start_offset: int,
    end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> tuple[int, str]:
    """The number of segments to delete, and the rule that applied to the last of them."""
    count = _count(
        segments, 0, end_offset, high_watermark, lambda segment, end: end <= start_offset and end < end_offset
    )
    reason = "they are before the log start offset"
    if not settings.delete:
        return count, reason
    if settings.retention_bytes >= 0:
        excess = (
            segments.size_bytes() - settings.retention_bytes - sum(s.size for s in list(segments)[:count])
        )

        def is_too_much(segment: Segment, _: int) -> bool:
            nonlocal excess
            excess -= segment.size
            return excess >= 0

        by_size = _count(segments, count, end_offset, high_watermark, is_too_much)
        if by_size > count:
            count, reason = by_size, f"the log is larger than retention.bytes={settings.retention_bytes}"
    if settings.retention_ms >= 0:
        oldest_ms = now_ms - settings.retention_ms
        by_time = _count(
            segments, count, end_offset, high_watermark, lambda s, _: s.retention_timestamp() < oldest_ms
        )
        if by_time > count:
            count, reason = by_time, f"they are older than retention.ms={settings.retention_ms}"
    return count, reason


def _count(
    segments: Segments,
    first: int,
    end_offset: int,
    high_watermark: int,
    may_go: Callable[[Segment, int], bool],
) -> int:
    """The number to delete: those before `first`, and all after it up to the first that `may_go` keeps."""
    count = first
    while count < len(segments):
        segment = segments[count]
        segment_end_offset = segments.end_of(count, log_end_offset=end_offset)
        is_empty_active = segment is segments.active and segment.size == 0
        if is_empty_active or segment_end_offset > high_watermark or not may_go(segment, segment_end_offset):
            break
        count += 1
    return count
