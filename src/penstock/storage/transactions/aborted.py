"""The transaction index of a segment, `<offset>.txnindex`: its aborted transactions, in the order of their markers.

Kafka's format, 34 bytes an entry, big-endian: version (int16, 0), producer id, first offset, last offset (that of the
marker, which is in this segment; the transaction may have begun in an earlier one), and the last stable offset after
the marker. The last two only grow from entry to entry. So a search begins at the first marker behind the fetch offset,
and ends at the first whose last stable offset is behind the fetched range.

As with the other indexes, the entries of the active segment are in memory (`MemoryTransactionIndex`) and are written
when it is sealed; those of other segments are searched in their files (`FileTransactionIndex`). A segment without
aborted transactions has no such file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from penstock.storage.errors import CorruptFile
from penstock.storage.pages import Readable

VERSION = 0
BLOCK_ENTRIES = 256  # searched together, and read from a file at once

_ENTRY = Struct(">hqqqq")
_FIRST_OFFSET = Struct(">10xq16x")
_LAST_OFFSET = Struct(">18xq8x")
_STABLE_OFFSET = Struct(">26xq")
ENTRY_BYTES = _ENTRY.size


class AbortedTransaction(NamedTuple):
    """An aborted transaction in a fetch response: skip the producer's records from here to its next marker."""

    producer_id: int
    first_offset: int


class AbortedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class MemoryTransactionIndex:
    """Columns instead of entries: 32 bytes each, however many aborts a segment has."""

    __slots__ = ("_block_firsts", "_first_offsets", "_last_offsets", "_producer_ids", "_stable_offsets")

    def __init__(self) -> None:
        self._producer_ids: array[int] = array("q")
        self._first_offsets: array[int] = array("q")
        self._last_offsets: array[int] = array("q")
        self._stable_offsets: array[int] = array("q")
        self._block_firsts: array[int] = array("q")
        """For every block of entries, the lowest first offset or something lower."""

    def __len__(self) -> int:
        return len(self._producer_ids)

    def entries(self) -> list[AbortedTxn]:
        columns = self._producer_ids, self._first_offsets, self._last_offsets, self._stable_offsets
        return [AbortedTxn(*fields) for fields in zip(*columns, strict=True)]

    def add(self, entry: AbortedTxn) -> None:
        assert not self or entry.last_offset > self._last_offsets[-1], "markers come in the order of the log"
        _note_first(self._block_firsts, len(self), entry.first_offset)
        self._producer_ids.append(entry.producer_id)
        self._first_offsets.append(entry.first_offset)
        self._last_offsets.append(entry.last_offset)
        self._stable_offsets.append(entry.last_stable_offset)

    def truncate(self, offset: int) -> None:
        """Remove those whose markers are at `offset` or above."""
        keep = bisect_left(self._last_offsets, offset)
        del self._producer_ids[keep:], self._first_offsets[keep:]
        del self._last_offsets[keep:], self._stable_offsets[keep:]
        del self._block_firsts[-(-keep // BLOCK_ENTRIES) :]

    def collect(self, start_offset: int, end_offset: int, found: list[AbortedTransaction]) -> bool:
        """Add those that may have records in the range to `found`; whether no later one can have any."""
        begin = bisect_left(self._last_offsets, start_offset)
        after = bisect_left(self._last_offsets, end_offset, begin)
        # Those that ended before the end of the range also began before it: no need to check each.
        columns = self._producer_ids[begin:after], self._first_offsets[begin:after]
        found.extend(map(AbortedTransaction._make, zip(*columns, strict=True)))
        decided = bisect_left(self._stable_offsets, end_offset, begin)
        for first, last in _blocks_before(self._block_firsts, after, min(decided + 1, len(self)), end_offset):
            found += [
                AbortedTransaction(self._producer_ids[slot], self._first_offsets[slot])
                for slot in range(first, last)
                if self._first_offsets[slot] < end_offset
            ]
        return decided < len(self)

    def encode(self) -> bytes:
        return b"".join([_ENTRY.pack(VERSION, *entry) for entry in self.entries()])

    @classmethod
    def decode(cls, data: bytes | bytearray) -> MemoryTransactionIndex:
        if len(data) % ENTRY_BYTES:
            raise CorruptFile("a transaction index ends in the middle of an entry")
        index = cls()
        for entry in decode_entries(data):
            index.add(entry)
        return index


class FileTransactionIndex:
    """The file of a sealed segment, searched on disk.

    It is opened for each search, which takes a few microseconds: one descriptor for every segment would be too many.
    """

    __slots__ = ("_block_firsts", "_open_file")

    def __init__(self, open_file: Callable[[], Readable]) -> None:
        self._open_file = open_file
        self._block_firsts: array[int] | None = None
        """As in `MemoryTransactionIndex`; read when a search first needs them."""

    def collect(self, start_offset: int, end_offset: int, found: list[AbortedTransaction]) -> bool:
        """As in `MemoryTransactionIndex`."""
        file, count = self._open()
        begin = _search(file, count, _LAST_OFFSET, start_offset)
        after = _search(file, count, _LAST_OFFSET, end_offset)
        decided = _search(file, count, _STABLE_OFFSET, end_offset)
        stretches = [(begin, after)]
        if after <= decided and after < count:
            firsts = self._find_firsts(file, count)
            stretches += _blocks_before(firsts, after, min(decided + 1, count), end_offset)
        for first, last in stretches:
            for slot in range(first, last, BLOCK_ENTRIES):
                found += [
                    AbortedTransaction(entry.producer_id, entry.first_offset)
                    for entry in decode_entries(_read(file, slot, min(last - slot, BLOCK_ENTRIES)))
                    if entry.first_offset < end_offset
                ]
        return decided < count

    def check(self, *, base_offset: int, is_whole: bool) -> None:
        """Raise CorruptFile unless the entries are plausible, which those of a torn or zeroed file are not. Without
        `is_whole` only the first and the last are checked."""
        file, count = self._open()
        step = BLOCK_ENTRIES if is_whole else max(1, count - 1)
        last_offset = base_offset - 1
        for slot in range(0, count, step):
            for entry in decode_entries(_read(file, slot, BLOCK_ENTRIES if is_whole else 1)):
                if entry.last_offset <= last_offset:
                    raise CorruptFile(f"{file.path} has a marker at {entry.last_offset} after {last_offset}")
                last_offset = entry.last_offset

    def _open(self) -> tuple[Readable, int]:
        file = self._open_file()
        count, rest = divmod(file.size(), ENTRY_BYTES)
        if rest:
            raise CorruptFile(f"{file.path} ends in the middle of an entry")
        return file, count

    def _find_firsts(self, file: Readable, count: int) -> array[int]:
        if self._block_firsts is None:
            blocks = [_read(file, slot, BLOCK_ENTRIES) for slot in range(0, count, BLOCK_ENTRIES)]
            self._block_firsts = array("q", [min(_FIRST_OFFSET.iter_unpack(block))[0] for block in blocks])
        return self._block_firsts


def _note_first(block_firsts: array[int], slot: int, first_offset: int) -> None:
    if slot % BLOCK_ENTRIES == 0:
        block_firsts.append(first_offset)
    elif first_offset < block_firsts[-1]:
        block_firsts[-1] = first_offset


def _blocks_before(
    block_firsts: array[int], slot: int, end: int, end_offset: int
) -> Iterator[tuple[int, int]]:
    """Ranges of entries from `slot` to `end`, some of which may have begun before `end_offset`.

    While one transaction stays open for long, many others may be aborted; later every fetch would have to check each
    of them.
    """
    while slot < end:
        following = min(end, slot - slot % BLOCK_ENTRIES + BLOCK_ENTRIES)
        if block_firsts[slot // BLOCK_ENTRIES] < end_offset:
            yield slot, following
        slot = following


def _search(file: Readable, count: int, key: Struct, target: int) -> int:
    """The first entry whose `key`, which only grows, is `target` or more."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if key.unpack(_read(file, middle, 1))[0] < target:
            low = middle + 1
        else:
            high = middle
    return low


def _read(file: Readable, slot: int, count: int) -> bytes | bytearray:
    return file.read(position=slot * ENTRY_BYTES, size=count * ENTRY_BYTES)


def decode_entries(data: bytes | bytearray) -> list[AbortedTxn]:
    """CorruptFile for an entry that no abort can have written."""
    entries = []
    for version, producer_id, first_offset, last_offset, stable_offset in _ENTRY.iter_unpack(data):
        if version != VERSION or not 0 <= first_offset < last_offset or producer_id < 0:
            raise CorruptFile(
                f"no transaction of producer {producer_id} from {first_offset} to {last_offset} (version {version})"
                " can have been aborted"
            )
        entries.append(AbortedTxn(producer_id, first_offset, last_offset, stable_offset))
    return entries
