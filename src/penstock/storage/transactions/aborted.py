"""Aborted transactions of a segment, in the order of their markers: what `<offset>.txnindex` holds.

Kafka's format, 34 bytes an entry, big-endian: version (int16, 0), producer id, first offset, last offset (that
of the marker, which stands in this segment; the transaction may have begun in an earlier one), and the last
stable offset as it was after the marker. The last two only grow from entry to entry. So a search begins at the
first marker that the reader has not passed, and ends where all that the reader will get was decided.

A segment without aborted transactions has no such file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from struct import Struct
from typing import NamedTuple

from penstock.storage.errors import CorruptFile

VERSION = 0

_ENTRY = Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size


class AbortedTransaction(NamedTuple):
    """What a reader of committed data is told: skip the producer's records from here to its next marker."""

    producer_id: int
    first_offset: int


class AbortedEntry(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedTransactions:
    """The entries of one segment, in memory."""

    __slots__ = ("_first_offsets", "_last_offsets", "_producers", "_stable_offsets")

    def __init__(self) -> None:
        self._producers: array[int] = array("q")
        self._first_offsets: array[int] = array("q")
        self._last_offsets: array[int] = array("q")
        self._stable_offsets: array[int] = array("q")

    def __len__(self) -> int:
        return len(self._producers)

    def entries(self) -> list[AbortedEntry]:
        columns = self._producers, self._first_offsets, self._last_offsets, self._stable_offsets
        return [AbortedEntry(*fields) for fields in zip(*columns, strict=True)]

    def add(self, entry: AbortedEntry) -> None:
        assert not self or entry.last_offset > self._last_offsets[-1], "markers come in the order of the log"
        self._producers.append(entry.producer_id)
        self._first_offsets.append(entry.first_offset)
        self._last_offsets.append(entry.last_offset)
        self._stable_offsets.append(entry.last_stable_offset)

    def truncate(self, offset: int) -> None:
        """Forget those whose markers are at `offset` or above."""
        keep = bisect_left(self._last_offsets, offset)
        del self._producers[keep:], self._first_offsets[keep:]
        del self._last_offsets[keep:], self._stable_offsets[keep:]

    def collect(self, start_offset: int, end_offset: int, found: list[AbortedTransaction]) -> bool:
        """Add those that have records in the range to `found`; whether later segments can not hold any more."""
        for slot in range(bisect_left(self._last_offsets, start_offset), len(self._last_offsets)):
            if self._first_offsets[slot] < end_offset:
                found.append(AbortedTransaction(self._producers[slot], self._first_offsets[slot]))
            if self._stable_offsets[slot] >= end_offset:
                return True
        return False

    def encode(self) -> bytes:
        return b"".join([_ENTRY.pack(VERSION, *entry) for entry in self.entries()])

    @classmethod
    def decode(cls, data: bytes, *, base_offset: int) -> AbortedTransactions:
        """CorruptFile if it can not be the index of the segment that begins at `base_offset`."""
        if len(data) % ENTRY_BYTES:
            raise CorruptFile("an index of aborted transactions ends in the middle of an entry")
        index = cls()
        last_offset, stable_offset = base_offset - 1, 0
        for version, *fields in _ENTRY.iter_unpack(data):
            entry = AbortedEntry(*fields)
            if version != VERSION:
                raise CorruptFile(f"an aborted transaction has version {version}, not {VERSION}")
            if entry.last_offset <= last_offset or entry.last_stable_offset < stable_offset:
                raise CorruptFile("aborted transactions are not in the order of their markers")
            if not 0 <= entry.first_offset < entry.last_offset:
                raise CorruptFile(f"an aborted transaction ends at {entry.last_offset}, before it begins")
            last_offset, stable_offset = entry.last_offset, entry.last_stable_offset
            index.add(entry)
        return index
