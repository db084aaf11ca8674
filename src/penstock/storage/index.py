"""The two sparse indexes of a segment: offset to position, and timestamp to offset.

On disk they have Kafka's formats: 8 bytes an entry (offset, position) and 12 bytes (timestamp, offset), big-endian,
with offsets relative to the base offset. Both columns of both indexes only grow, so either can be searched by either
column.

`MemoryIndex` belongs to the active segment: four arrays in memory, where an entry costs two appends and a lookup is
one `bisect`. It is written to disk when its segment is sealed or closed. `FileIndex` searches the files and keeps
nothing in memory. An index can always be rebuilt from the log.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from struct import Struct
from typing import Literal, NamedTuple, Protocol

from penstock.records.batch import NO_TIMESTAMP
from penstock.storage.errors import CorruptFile
from penstock.storage.pages import Readable
from penstock.storage.transactions.aborted import AbortedTxn, MemoryTransactionIndex

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
BLOCK_ENTRIES = 512  # read at once when a binary search has come this close


# One column of an entry each; the other is padding, so that `size` is the whole entry.
_OFFSET_KEY = Struct(">i4x")
_POSITION_KEY = Struct(">4xi")
_TIME_KEY = Struct(">q4x")


class TimeEntry(NamedTuple):
    timestamp_ms: int
    relative_offset: int


class SegmentIndex(Protocol):
    def position_at_offset(self, relative_offset: int) -> int:
        """Position of the last indexed batch that ends at or before `relative_offset`; 0 if none."""
        ...

    def position_before(self, position: int) -> int:
        """Position of the last indexed batch that starts at or before `position`; 0 if none."""
        ...

    def offset_at_time(self, timestamp_ms: int) -> int:
        """Relative offset of the last entry not later than `timestamp_ms`; 0 if none."""
        ...

    def last_time(self) -> TimeEntry:
        """The latest timestamp and its relative offset; (-1, 0) if none."""
        ...


class MemoryIndex:
    __slots__ = ("aborted", "offsets", "positions", "time_offsets", "times")

    def __init__(self) -> None:
        self.aborted: MemoryTransactionIndex | None = None
        """Aborted transactions; None until there is one."""
        self.offsets: array[int] = array("i")
        self.positions: array[int] = array("i")
        self.times: array[int] = array("q")
        self.time_offsets: array[int] = array("i")

    @classmethod
    def decode(cls, offset_entries: bytes | bytearray, time_entries: bytes | bytearray) -> MemoryIndex:
        if len(offset_entries) % OFFSET_ENTRY_BYTES or len(time_entries) % TIME_ENTRY_BYTES:
            raise CorruptFile("an index ends in the middle of an entry")
        index = cls()
        words = _from_big_endian("i", offset_entries)
        index.offsets, index.positions = words[0::2], words[1::2]
        halves = array("i", time_entries)
        time_words = array("i", bytes(len(halves) // 3 * 8))
        time_words[0::2], time_words[1::2] = halves[0::3], halves[1::3]
        index.times = _from_big_endian("q", time_words.tobytes())
        index.time_offsets = _from_big_endian("i", halves[2::3].tobytes())
        return index

    def encode_offsets(self) -> bytes:
        words = array("i", bytes(len(self.offsets) * OFFSET_ENTRY_BYTES))
        words[0::2], words[1::2] = self.offsets, self.positions
        return _to_big_endian(words)

    def encode_times(self) -> bytes:
        time_words = array("i", _to_big_endian(self.times))
        words = array("i", bytes(len(self.times) * TIME_ENTRY_BYTES))
        words[0::3], words[1::3] = time_words[0::2], time_words[1::2]
        words[2::3] = array("i", _to_big_endian(self.time_offsets))
        return words.tobytes()

    def add(self, relative_offset: int, position: int) -> None:
        self.offsets.append(relative_offset)
        self.positions.append(position)

    def add_time(self, timestamp_ms: int, relative_offset: int) -> None:
        """Add a new latest timestamp; one that is not later than the last is ignored."""
        if timestamp_ms > (self.times[-1] if self.times else NO_TIMESTAMP):
            self.times.append(timestamp_ms)
            self.time_offsets.append(relative_offset)

    def add_aborted(self, entry: AbortedTxn) -> None:
        if self.aborted is None:
            self.aborted = MemoryTransactionIndex()
        self.aborted.add(entry)

    def position_at_offset(self, relative_offset: int) -> int:
        slot = bisect_right(self.offsets, relative_offset)
        return self.positions[slot - 1] if slot else 0

    def position_before(self, position: int) -> int:
        slot = bisect_right(self.positions, position)
        return self.positions[slot - 1] if slot else 0

    def offset_at_time(self, timestamp_ms: int) -> int:
        slot = bisect_right(self.times, timestamp_ms)
        return self.time_offsets[slot - 1] if slot else 0

    def last_time(self) -> TimeEntry:
        return TimeEntry(self.times[-1], self.time_offsets[-1]) if self.times else TimeEntry(NO_TIMESTAMP, 0)

    def last_time_before(self, relative_offset: int) -> TimeEntry:
        """The last entry that `truncate` would leave; (-1, 0) if none."""
        keep = bisect_right(self.time_offsets, relative_offset - 1)
        if keep == 0:
            return TimeEntry(NO_TIMESTAMP, 0)
        return TimeEntry(self.times[keep - 1], self.time_offsets[keep - 1])

    def truncate(self, relative_offset: int) -> None:
        """Remove the entries of batches whose last offset is `relative_offset` or more."""
        keep = bisect_right(self.offsets, relative_offset - 1)
        del self.offsets[keep:], self.positions[keep:]
        keep = bisect_right(self.time_offsets, relative_offset - 1)
        del self.times[keep:], self.time_offsets[keep:]


class FileIndex:
    """The index files of a sealed segment, searched on disk: about ten small reads a lookup, and no memory."""

    __slots__ = ("_offset_count", "_offset_file", "_time_count", "_time_file")

    def __init__(self, offset_file: Readable, time_file: Readable) -> None:
        self._offset_file = offset_file
        self._time_file = time_file
        self._offset_count, rest = divmod(offset_file.size(), OFFSET_ENTRY_BYTES)
        self._time_count, time_rest = divmod(time_file.size(), TIME_ENTRY_BYTES)
        if rest or time_rest:
            raise CorruptFile(f"{(offset_file if rest else time_file).path} ends in the middle of an entry")

    def position_at_offset(self, relative_offset: int) -> int:
        block = _block(self._offset_file, self._offset_count, _OFFSET_KEY, relative_offset)
        return MemoryIndex.decode(block, b"").position_at_offset(relative_offset)

    def position_before(self, position: int) -> int:
        block = _block(self._offset_file, self._offset_count, _POSITION_KEY, position)
        return MemoryIndex.decode(block, b"").position_before(position)

    def offset_at_time(self, timestamp_ms: int) -> int:
        block = _block(self._time_file, self._time_count, _TIME_KEY, timestamp_ms)
        return MemoryIndex.decode(b"", block).offset_at_time(timestamp_ms)

    def last_time(self) -> TimeEntry:
        last = max(0, self._time_count - 1) * TIME_ENTRY_BYTES
        entry = self._time_file.read(position=last, size=TIME_ENTRY_BYTES)
        return MemoryIndex.decode(b"", entry).last_time()

    def check(self, *, log_bytes: int) -> None:
        """Raise CorruptFile unless the last entries are plausible, which those of a torn or zeroed file are not."""
        last = max(0, self._offset_count - 1) * OFFSET_ENTRY_BYTES
        entry = MemoryIndex.decode(self._offset_file.read(position=last, size=OFFSET_ENTRY_BYTES), b"")
        if any(position <= 0 or position >= log_bytes for position in entry.positions):
            raise CorruptFile(f"its last entry points to {entry.positions[0]} of {log_bytes} bytes")
        if any(offset <= 0 for offset in entry.offsets):
            raise CorruptFile("its last entry is empty")
        if self._time_count > 1 and self.last_time() == (0, 0):
            raise CorruptFile("its last time is empty")


def _block(file: Readable, count: int, key: Struct, target: int) -> bytes | bytearray:
    """The entries around the last one whose `key` is not above `target`: binary search until few are left, then read
    those."""
    low, high = 0, count
    while high - low > BLOCK_ENTRIES:
        middle = (low + high) // 2
        entry = file.read(position=middle * key.size, size=key.size)
        if key.unpack(entry)[0] <= target:
            low = middle
        else:
            high = middle
    return file.read(position=low * key.size, size=(high - low) * key.size)


def _to_big_endian(values: array[int]) -> bytes:
    if sys.byteorder == "big":
        return values.tobytes()
    swapped = values[:]
    swapped.byteswap()
    return swapped.tobytes()


def _from_big_endian(code: Literal["i", "q"], data: bytes | bytearray) -> array[int]:
    values: array[int] = array(code, data)
    if sys.byteorder == "little":
        values.byteswap()
    return values
