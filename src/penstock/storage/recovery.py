"""Recovers a segment after an unclean shutdown: finds its valid batches and rebuilds its indexes.

The segment may end in an incomplete batch, in zeroes, or in garbage. Every batch is checked against its CRC, and the
first invalid one ends the segment. On the way all indexes are rebuilt, the transaction index included, and leader
epochs and producer state are updated.

Blocking; runs in a worker, on files that are not in use yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

from penstock.records import kernel
from penstock.records.batch import (
    HEADER_BYTES,
    LENGTH_AT,
    LENGTH_BYTES,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    read_magic,
)
from penstock.records.errors import RecordsError
from penstock.runtime.disk import File
from penstock.storage.epochs import LeaderEpochs
from penstock.storage.index import MemoryIndex
from penstock.storage.producer_state import ProducerState
from penstock.storage.segment import RELATIVE_OFFSET_MAX

CHUNK_BYTES = 4 << 20  # large enough that the CRC takes the time, not the system call

_LENGTH = Struct(">i")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """The result of recovering one log."""

    partition: str
    scanned_segments: int = 0
    scanned_bytes: int = 0
    cut_bytes: int = 0
    """Bytes of invalid batches and of dropped segments."""
    dropped_segments: int = 0
    end_offset: int = 0
    reason: str = ""
    """Why the log was truncated; empty if it was not."""

    @property
    def is_cut(self) -> bool:
        return bool(self.reason)


@dataclass(frozen=True, slots=True)
class ScannedSegment:
    """The valid part of a segment, and the index of its batches."""

    valid_bytes: int
    next_offset: int
    index: MemoryIndex
    first_timestamp_ms: int
    reason: str
    """Why the scan ended before the end of the file; empty if it did not."""


def scan_segment(
    file: File,
    base_offset: int,
    *,
    interval: int,
    epochs: LeaderEpochs | None = None,
    producers: ProducerState | None = None,
) -> ScannedSegment:
    """Check every batch of a segment; valid ones update `epochs` and `producers`."""
    size = file.size()
    index = MemoryIndex()
    next_offset, position, unindexed = base_offset, 0, 0
    latest, latest_offset, first_timestamp = NO_TIMESTAMP, base_offset, NO_TIMESTAMP
    reason = ""
    try:
        for chunk, at in _batches(file, size):
            header = kernel.check_batch(chunk, at)
            _check_place(header, base_offset=base_offset, next_offset=next_offset)
            if position == 0:
                first_timestamp = header.max_timestamp
            if header.max_timestamp > latest:
                latest, latest_offset = header.max_timestamp, header.last_offset
            if unindexed > interval:
                index.add(header.last_offset - base_offset, position)
                index.add_time(latest, latest_offset - base_offset)
                unindexed = 0
            if epochs is not None and header.leader_epoch > epochs.latest:
                epochs.assign(header.leader_epoch, header.base_offset)
            if producers is not None and header.producer_id >= 0:
                aborted = producers.replay(header, chunk, at)
                if aborted is not None:
                    index.add_aborted(aborted)
            unindexed += header.size_bytes
            position += header.size_bytes
            next_offset = header.next_offset
    except (RecordsError, _Misplaced) as error:
        reason = f"byte {position}: {error}"
    index.add_time(latest, latest_offset - base_offset)
    return ScannedSegment(position, next_offset, index, first_timestamp, reason)


class _Misplaced(Exception):
    """A valid batch in a wrong place, or an incomplete batch."""


def _batches(file: File, size: int) -> Iterator[tuple[memoryview, int]]:
    """Every complete range of bytes that claims to be a batch, as a chunk and a position in it."""
    chunk, start, position = memoryview(b""), 0, 0
    while position < size:
        at = position - start
        if at + HEADER_BYTES > len(chunk):
            chunk, start, at = memoryview(file.read(position=position, size=CHUNK_BYTES)), position, 0
        if len(chunk) < HEADER_BYTES:
            raise _Misplaced(f"{size - position} bytes are less than a batch header")
        batch_bytes = _LENGTH.unpack_from(chunk, at + LENGTH_AT)[0] + LENGTH_BYTES
        if read_magic(chunk, at) != MAGIC or batch_bytes < HEADER_BYTES:
            raise _Misplaced("this is not a batch")
        if batch_bytes > size - position:
            raise _Misplaced(f"the batch has {batch_bytes} bytes, but only {size - position} are left")
        if at + batch_bytes > len(chunk):
            wanted = max(CHUNK_BYTES, batch_bytes)
            chunk, start, at = memoryview(file.read(position=position, size=wanted)), position, 0
        yield chunk, at
        position += batch_bytes


def _check_place(header: BatchHeader, *, base_offset: int, next_offset: int) -> None:
    if header.base_offset < next_offset:
        raise _Misplaced(f"the batch has offset {header.base_offset}, expected {next_offset}")
    if header.last_offset - base_offset > RELATIVE_OFFSET_MAX:
        raise _Misplaced(f"offset {header.last_offset} is too far from the base offset of the segment")
