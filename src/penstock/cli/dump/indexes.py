"""The indexes of a segment: their entries, and mismatches with the segment.

A node rebuilds a wrong index when it starts, but mismatches may be the first sign of a damaged disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple, TypeVar

from penstock.cli.dump.segments import SegmentFile, base_offset
from penstock.cli.failures import Refusal
from penstock.storage import snapshots
from penstock.storage.errors import CorruptFile
from penstock.storage.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, MemoryIndex
from penstock.storage.producer_state import Producer

_ABORTED = Struct(">hqqqq")


class OffsetEntry(NamedTuple):
    offset: int
    position: int


class TimestampEntry(NamedTuple):
    timestamp_ms: int
    offset: int


class AbortedTxn(NamedTuple):
    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


AnyEntry = TypeVar("AnyEntry", OffsetEntry, TimestampEntry)


class Mismatch(NamedTuple):
    """The value in the index, and the value in the log."""

    indexed: int
    found: int


class TimeProblems(NamedTuple):
    wrong_times: list[Mismatch]
    out_of_order: list[Mismatch]
    not_found: list[Mismatch]


def read_offset_index(path: str) -> list[OffsetEntry]:
    base = _base(path)
    index = MemoryIndex.decode(_whole_entries(path, OFFSET_ENTRY_BYTES), b"")
    entries = zip(index.offsets, index.positions, strict=True)
    return list(_until_empty((OffsetEntry(base + offset, position) for offset, position in entries), base))


def read_time_index(path: str) -> list[TimestampEntry]:
    base = _base(path)
    index = MemoryIndex.decode(b"", _whole_entries(path, TIME_ENTRY_BYTES))
    entries = zip(index.times, index.time_offsets, strict=True)
    return list(_until_empty((TimestampEntry(time, base + offset) for time, offset in entries), base))


def read_aborted_index(path: str) -> list[AbortedTxn]:
    return [AbortedTxn(*fields) for fields in _ABORTED.iter_unpack(_whole_entries(path, _ABORTED.size))]


def read_producer_snapshot(path: str) -> list[Producer]:
    """The producers of a snapshot, or `CorruptFile`."""
    with open(path, "rb") as file:
        return snapshots.decode(file.read())


def check_offset_index(path: str, entries: list[OffsetEntry]) -> list[Mismatch]:
    """Entries whose position is not that of the batch that ends at their offset."""
    mismatches: list[Mismatch] = []
    with SegmentFile(_sibling(path, ".log")) as segment:
        for entry in entries:
            batch = segment.batch_at(entry.position)
            found = batch.header.last_offset if batch is not None else -1
            if found != entry.offset:
                mismatches.append(Mismatch(entry.offset, found))
    return mismatches


def check_time_index(path: str, entries: list[TimestampEntry]) -> TimeProblems:
    """Entries whose time is not the latest of the batch that ends at their offset, and those in the wrong order."""
    problems = TimeProblems([], [], [])
    positions = (
        read_offset_index(_sibling(path, ".index")) if os.path.exists(_sibling(path, ".index")) else []
    )
    with SegmentFile(_sibling(path, ".log")) as segment:
        previous = -1
        for entry in entries:
            start = max((one.position for one in positions if one.offset <= entry.offset), default=0)
            found = next(
                (one for one in segment.batches(start) if one.header.last_offset >= entry.offset), None
            )
            if found is None or found.header.last_offset != entry.offset:
                problems.not_found.append(
                    Mismatch(entry.offset, -1 if found is None else found.header.last_offset)
                )
            else:
                latest = max((record.timestamp for record in segment.records(found)), default=-1)
                if latest != entry.timestamp_ms:
                    problems.wrong_times.append(Mismatch(entry.timestamp_ms, latest))
                if previous >= entry.timestamp_ms:
                    problems.out_of_order.append(Mismatch(entry.timestamp_ms, previous))
            previous = entry.timestamp_ms
    return problems


def check_sanity(path: str, entry_bytes: int) -> None:
    """The check that a node makes before it uses an index. Raises `CorruptFile`."""
    size = os.path.getsize(path)
    if size % entry_bytes:
        raise CorruptFile(f"{path} has {size} bytes, which is not a multiple of {entry_bytes}")


def _until_empty(entries: Iterator[AnyEntry], base: int) -> Iterator[AnyEntry]:
    """After a crash an index may end with zeros."""
    for number, entry in enumerate(entries):
        if number and entry.offset == base:
            return
        yield entry


def _whole_entries(path: str, size: int) -> bytes:
    with open(path, "rb") as file:
        data = file.read()
    return data[: len(data) // size * size]


def _sibling(path: str, suffix: str) -> str:
    return os.path.splitext(path)[0] + suffix


def _base(path: str) -> int:
    base = base_offset(path)
    if base is None:
        raise Refusal(f"{path}: a log file is named after its base offset, such as 00000000000000000000.log")
    return base
