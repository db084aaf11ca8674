"""Finds things in a log: the slice to send for an offset, the offset for a timestamp, the aborted transactions.

Nothing here changes the log. A slice never leaves the segment in which it starts, and always ends between two
batches. Most fetches continue where the last slice ended, so the positions of those offsets are remembered: such a
fetch reads neither an index nor the log. Truncation and compaction change the positions of offsets, and must call
`forget`.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.records import kernel
from penstock.records.batch import NO_TIMESTAMP, BatchHeader
from penstock.records.compression import DECOMPRESSED_BYTES_MAX
from penstock.runtime.network import FileSlice
from penstock.storage import pages, scan
from penstock.storage.layout import LOG_SUFFIX
from penstock.storage.log_state import LogState
from penstock.storage.segment import Segment
from penstock.storage.transactions.aborted import AbortedTransaction

HINTS_MAX = 64  # more than one partition usually has readers; all are forgotten when there are more


class TimestampedOffset(NamedTuple):
    offset: int
    timestamp_ms: int
    leader_epoch: int


class TimedBatch(NamedTuple):
    """A batch that may hold a record of `timestamp_ms` or later."""

    piece: FileSlice
    header: BatchHeader
    timestamp_ms: int
    start_offset: int

    def first_record(
        self, data: bytes | bytearray | None = None, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX
    ) -> TimestampedOffset | None:
        """The first record of `timestamp_ms` or later, from `start_offset` on; `data` is the batch, if already read.

        The only place where the log reads records: timestamps are stored per record. `TooLarge` if more than
        `limit_bytes` would be decompressed. It uses nothing but the file, so it may run in a worker.
        """
        if data is None:
            data = self.piece.read()
        for record in kernel.iterate_records(data, 0, limit_bytes=limit_bytes):
            if record.timestamp >= self.timestamp_ms and record.offset >= self.start_offset:
                return TimestampedOffset(record.offset, record.timestamp, self.header.leader_epoch)
        return None


class LogReader:
    __slots__ = ("_log", "_positions", "_segments")

    def __init__(self, log: LogState) -> None:
        self._log = log
        self._segments = log.segments
        self._positions: dict[int, int] = {}

    def forget(self) -> None:
        self._positions.clear()

    def slice(
        self,
        offset: int,
        *,
        max_bytes: int,
        end_offset: int,
        log_end_offset: int,
        at_least_one: bool,
        aborted: list[AbortedTransaction] | None = None,
    ) -> FileSlice | None:
        """Whole batches from the one that holds `offset`, below `end_offset`; None if there are none.

        At most `max_bytes`, except that with `at_least_one` the first batch may be larger (KIP-74). Aborted
        transactions that may have records in the slice are added to `aborted`.
        """
        wanted_offset = offset
        segments = self._segments
        slot = segments.slot_of(offset)
        while True:
            segment = segments[slot]
            segment_end_offset = segments.end_of(slot, log_end_offset=log_end_offset)
            limit = segment.size if end_offset >= segment_end_offset else self._position(segment, end_offset)
            position = self._position(segment, offset)
            if position < limit:
                break
            # Compaction may leave nothing between `offset` and the end of its segment.
            slot += 1
            offset = segment_end_offset
            if slot == len(segments) or offset >= end_offset:
                return None
        if limit - position <= max_bytes:
            if end_offset <= segment_end_offset:
                self._remember(end_offset, limit)
            if aborted is not None:
                self._collect_aborted(wanted_offset, min(end_offset, segment_end_offset), aborted)
            return segment.slice(position, limit - position)
        boundary, slice_end_offset = self._boundary(segment, position, max_bytes, limit=limit)
        if boundary == position:
            if not at_least_one:
                return None
            size, slice_end_offset = scan.batch_span(segment.reader(), position)
        else:
            size = boundary - position
        if aborted is not None:
            self._collect_aborted(wanted_offset, slice_end_offset, aborted)
        return segment.slice(position, size)

    def size_from(self, offset: int) -> int:
        """Bytes of all batches from the one that holds `offset` on."""
        segments = self._segments
        slot = segments.slot_of(offset)
        size = sum(segments[later].size for later in range(slot, len(segments)))
        with self._log.in_service("reading"):
            return size - self._position(segments[slot], offset)

    def has_segment_between(self, offset: int, end_offset: int) -> bool:
        """Whether a segment starts between `offset` and `end_offset`: a slice from `offset` ends before it then."""
        segments = self._segments
        return segments[segments.slot_of(end_offset - 1)].base_offset > offset

    def _boundary(self, segment: Segment, position: int, max_bytes: int, *, limit: int) -> tuple[int, int]:
        """Where the whole batches from `position` that fit into `max_bytes` end, and the offset that follows."""
        cut = position + max_bytes
        start = max(position, segment.lookup().position_before(cut))
        boundary, offset = scan.find_boundary(segment.reader(), cut, position=start, end=limit)
        self._remember(offset, boundary)
        return boundary, offset

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions that may have records in the range, in the order of their markers."""
        found: list[AbortedTransaction] = []
        with self._log.in_service("reading"):
            self._collect_aborted(start_offset, end_offset, found)
        return found

    def _collect_aborted(self, start_offset: int, end_offset: int, found: list[AbortedTransaction]) -> None:
        segments = self._segments
        for slot in range(segments.slot_of(start_offset), len(segments)):
            if segments[slot].collect_aborted(start_offset, end_offset, found):
                return

    def _position(self, segment: Segment, offset: int) -> int:
        if offset <= segment.base_offset:
            return 0
        position = self._positions.get(offset)
        if position is None:
            position = segment.position_of(offset)
            self._remember(offset, position)
        return position

    def _remember(self, offset: int, position: int) -> None:
        if len(self._positions) >= HINTS_MAX:
            self._positions.clear()
        self._positions[offset] = position

    def offset_for_timestamp(
        self, timestamp_ms: int, *, end_offset: int, limit_bytes: int = DECOMPRESSED_BYTES_MAX
    ) -> TimestampedOffset | None:
        """The first record below `end_offset` whose timestamp is `timestamp_ms` or later.

        `TooLarge` if more than `limit_bytes` would be decompressed: then search `batch_at_timestamp` in a worker.
        """
        start_offset = self._log.start_offset
        while batch := self._batch_at_timestamp(timestamp_ms, start_offset, end_offset):
            found = self._first_record(batch, limit_bytes)
            if found is not None:
                return found if found.offset < end_offset else None
            start_offset = batch.header.next_offset
        return None

    def max_timestamp(
        self, *, end_offset: int, limit_bytes: int = DECOMPRESSED_BYTES_MAX
    ) -> TimestampedOffset | None:
        """The first record with the latest timestamp; None if it is not below `end_offset` or no record has one."""
        batch = self.batch_of_max_timestamp()
        found = None if batch is None else self._first_record(batch, limit_bytes)
        return found if found is not None and found.offset < end_offset else None

    def batch_at_timestamp(self, timestamp_ms: int, *, from_offset: int) -> TimedBatch | None:
        """The first batch from `from_offset` on that may hold a record of `timestamp_ms` or later."""
        log = self._log
        return self._batch_at_timestamp(timestamp_ms, max(from_offset, log.start_offset), log.end_offset)

    def batch_of_max_timestamp(self) -> TimedBatch | None:
        """The first batch with the latest timestamp of all; None if no record has a timestamp."""
        with self._log.in_service("reading"):
            latest, segment = NO_TIMESTAMP, None
            for candidate in self._segments:
                timestamp_ms, _ = candidate.max_timestamp()
                if timestamp_ms > latest:
                    latest, segment = timestamp_ms, candidate
            if segment is None:
                return None
            start_offset = self._log.start_offset
            index = segment.lookup()
            position = index.position_at_offset(index.offset_at_time(latest))
            for at, header in scan.headers(segment.reader(), position=position, end=segment.size):
                if header.max_timestamp == latest and header.last_offset >= start_offset:
                    return TimedBatch(segment.slice(at, header.size_bytes), header, latest, start_offset)
            return None

    def segment_times(self) -> list[tuple[int, int]]:
        """Base offset and modification time of every segment, for ListOffsets v0."""
        disk = self._log.io.disk
        with self._log.in_service("reading"):
            return [(s.base_offset, disk.modified_ms(s.path(LOG_SUFFIX))) for s in self._segments]

    def _batch_at_timestamp(self, timestamp_ms: int, start_offset: int, end_offset: int) -> TimedBatch | None:
        with self._log.in_service("reading"):
            for segment in self._segments:
                if segment.max_timestamp()[0] < timestamp_ms:
                    continue
                index = segment.lookup()
                relative_offset = max(index.offset_at_time(timestamp_ms), start_offset - segment.base_offset)
                position = index.position_at_offset(relative_offset)
                for at, header in scan.headers(segment.reader(), position=position, end=segment.size):
                    if header.base_offset >= end_offset:
                        return None
                    if header.max_timestamp >= timestamp_ms and header.last_offset >= start_offset:
                        piece = segment.slice(at, header.size_bytes)
                        return TimedBatch(piece, header, timestamp_ms, start_offset)
            return None

    def _first_record(self, batch: TimedBatch, limit_bytes: int) -> TimestampedOffset | None:
        with self._log.in_service("reading"):
            return batch.first_record(pages.read_cached(batch.piece), limit_bytes=limit_bytes)
