"""Reading a segment as if nothing in it could be trusted, and saying what of it is good.

After an unclean stop a segment may end in half a batch, in zeroes, or in bytes that never were a batch. Every
batch is checked against its CRC, and the first one that is not whole ends the segment: what follows can not
be told from garbage. On the way the indexes are built anew, that of aborted transactions included, and epochs
and producers are shown every batch.

Blocking; runs in a worker, on files that nobody else uses yet.
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
from penstock.storage.index import LiveIndex
from penstock.storage.producer_state import ProducerState
from penstock.storage.segment import RELATIVE_OFFSET_MAX
from penstock.storage.transactions.batches import note_batch

CHUNK_BYTES = 4 << 20  # large enough that the CRC and not the system call is what takes the time

_LENGTH = Struct(">i")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What a start after an unclean stop found in one log."""

    partition: str
    scanned_segments: int = 0
    scanned_bytes: int = 0
    cut_bytes: int = 0
    """Bytes that were no whole batches, dropped segments included."""
    dropped_segments: int = 0
    end_offset: int = 0
    reason: str = ""
    """Why the tail was cut; empty if nothing was."""

    @property
    def is_cut(self) -> bool:
        return bool(self.reason)


@dataclass(frozen=True, slots=True)
class ScannedSegment:
    valid_bytes: int
    next_offset: int
    index: LiveIndex
    first_timestamp_ms: int
    reason: str
    """Why the scan ended before the file did; empty if it did not."""


def scan_segment(
    file: File,
    base_offset: int,
    *,
    interval: int,
    epochs: LeaderEpochs | None = None,
    producers: ProducerState | None = None,
) -> ScannedSegment:
    """Check every batch of a segment; epochs and producers are brought forward by those that are good."""
    size = file.size()
    index = LiveIndex()
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
                aborted = note_batch(producers, header, chunk, at, base_offset=header.base_offset)
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
    """A batch that is whole, but can not stand where it does; or less than a batch."""


def _batches(file: File, size: int) -> Iterator[tuple[memoryview, int]]:
    """Every stretch of bytes that claims to be a batch and is all there, as a chunk and a position in it."""
    chunk, start, position = memoryview(b""), 0, 0
    while position < size:
        at = position - start
        if at + HEADER_BYTES > len(chunk):
            chunk, start, at = memoryview(file.read(position=position, size=CHUNK_BYTES)), position, 0
        if len(chunk) < HEADER_BYTES:
            raise _Misplaced(f"{size - position} bytes are less than a batch")
        batch_bytes = _LENGTH.unpack_from(chunk, at + LENGTH_AT)[0] + LENGTH_BYTES
        if read_magic(chunk, at) != MAGIC or batch_bytes < HEADER_BYTES:
            raise _Misplaced("this is not a batch")
        if batch_bytes > size - position:
            raise _Misplaced(f"the batch has {batch_bytes} bytes, of which {size - position} are there")
        if at + batch_bytes > len(chunk):
            wanted = max(CHUNK_BYTES, batch_bytes)
            chunk, start, at = memoryview(file.read(position=position, size=wanted)), position, 0
        yield chunk, at
        position += batch_bytes


def _check_place(header: BatchHeader, *, base_offset: int, next_offset: int) -> None:
    if header.base_offset < next_offset:
        raise _Misplaced(f"the batch has offset {header.base_offset}, but {next_offset} comes next")
    if header.last_offset - base_offset > RELATIVE_OFFSET_MAX:
        raise _Misplaced(f"offset {header.last_offset} is too far from the segment's first")
