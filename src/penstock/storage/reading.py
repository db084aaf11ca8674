"""Finding things in a log: the slice to send for an offset, and the offset for a time.

A slice never leaves the segment it starts in and always ends between two batches. A reader that comes back
for the offset where its last slice ended is the common case, so the positions of such offsets are remembered,
and neither an index nor the log is read for it. Positions of offsets never change but by truncation, which
must call `forget`.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.records import kernel
from penstock.records.batch import NO_TIMESTAMP, BatchHeader
from penstock.records.compression import DECOMPRESSED_BYTES_MAX
from penstock.runtime.network import FileSlice
from penstock.storage import pages, scan
from penstock.storage.segment import Segment
from penstock.storage.segments import Segments
from penstock.storage.transactions.aborted import AbortedTransaction

HINTS_MAX = 64  # about as many readers of one partition as there ever are; past that, all are found anew


class TimestampedOffset(NamedTuple):
    offset: int
    timestamp_ms: int
    leader_epoch: int


class TimedBatch(NamedTuple):
    """A batch in which a record of some time is to be found."""

    piece: FileSlice
    header: BatchHeader
    timestamp_ms: int
    start_offset: int

    def first_record(
        self, data: bytes | bytearray | None = None, *, limit_bytes: int = DECOMPRESSED_BYTES_MAX
    ) -> TimestampedOffset | None:
        """The first record of that time or later, from `start_offset` on; `data` is the batch, if it was read already.

        The one place where the log looks into a batch: a client asked for a time, and times stand in records.
        `TooLarge` where more than `limit_bytes` would have to be decompressed. It touches nothing but the file, so it
        may run in a worker.
        """
        if data is None:
            data = self.piece.read()
        for record in kernel.iterate_records(data, 0, limit_bytes=limit_bytes):
            if record.timestamp >= self.timestamp_ms and record.offset >= self.start_offset:
                return TimestampedOffset(record.offset, record.timestamp, self.header.leader_epoch)
        return None


class Reader:
    __slots__ = ("_positions", "_segments")

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
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
        """Whole batches from the one that holds `offset`, below `end_offset`; None where there are none to
        give.

        `max_bytes` is kept, save that with `at_least_one` a first batch that is larger is given all the same
        (KIP-74). Transactions that were aborted and may have records in the slice are added to `aborted`.
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
                self.collect_aborted(wanted_offset, min(end_offset, segment_end_offset), aborted)
            return segment.slice(position, limit - position)
        boundary, slice_end_offset = self._boundary(segment, position, max_bytes, limit=limit)
        if boundary == position:
            if not at_least_one:
                return None
            size, slice_end_offset = scan.batch_span(segment.reader(), position)
        else:
            size = boundary - position
        if aborted is not None:
            self.collect_aborted(wanted_offset, slice_end_offset, aborted)
        return segment.slice(position, size)

    def size_from(self, offset: int) -> int:
        """Bytes of all batches from the one that holds `offset` on."""
        segments = self._segments
        slot = segments.slot_of(offset)
        size = sum(segments[later].size for later in range(slot, len(segments)))
        return size - self._position(segments[slot], offset)

    def _boundary(self, segment: Segment, position: int, max_bytes: int, *, limit: int) -> tuple[int, int]:
        """Where whole batches from `position` end that fit into `max_bytes`, and the offset of what follows."""
        cut = position + max_bytes
        start = max(position, segment.lookup().position_before(cut))
        boundary, offset = scan.find_boundary(segment.reader(), cut, position=start, end=limit)
        self._remember(offset, boundary)
        return boundary, offset

    def collect_aborted(self, start_offset: int, end_offset: int, found: list[AbortedTransaction]) -> None:
        """Add all aborted transactions that may have records in the range, in the order of their markers."""
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

    def batch_at_time(self, timestamp_ms: int, *, start_offset: int, end_offset: int) -> TimedBatch | None:
        """The first batch that may hold a record from `start_offset` on, below `end_offset`, whose time is
        `timestamp_ms` or later."""
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

    def batch_of_latest_time(self, *, start_offset: int) -> TimedBatch | None:
        """The first batch that has the latest time of all; None if nothing has a time."""
        latest, segment = NO_TIMESTAMP, None
        for candidate in self._segments:
            timestamp_ms, _ = candidate.max_timestamp()
            if timestamp_ms > latest:
                latest, segment = timestamp_ms, candidate
        if segment is None:
            return None
        index = segment.lookup()
        position = index.position_at_offset(index.offset_at_time(latest))
        for at, header in scan.headers(segment.reader(), position=position, end=segment.size):
            if header.max_timestamp == latest and header.last_offset >= start_offset:
                return TimedBatch(segment.slice(at, header.size_bytes), header, latest, start_offset)
        return None

    def offset_for_timestamp(
        self, timestamp_ms: int, *, start_offset: int, end_offset: int, limit_bytes: int
    ) -> TimestampedOffset | None:
        """The first record from `start_offset` on, below `end_offset`, whose time is `timestamp_ms` or later."""
        while batch := self.batch_at_time(timestamp_ms, start_offset=start_offset, end_offset=end_offset):
            found = batch.first_record(pages.read_cached(batch.piece), limit_bytes=limit_bytes)
            if found is not None:
                return found if found.offset < end_offset else None
            start_offset = batch.header.next_offset
        return None

    def max_timestamp(
        self, *, start_offset: int, end_offset: int, limit_bytes: int
    ) -> TimestampedOffset | None:
        """The first record that has the latest time; None if nothing has a time, or not below `end_offset`."""
        batch = self.batch_of_latest_time(start_offset=start_offset)
        if batch is None:
            return None
        found = batch.first_record(pages.read_cached(batch.piece), limit_bytes=limit_bytes)
        return found if found is not None and found.offset < end_offset else None
