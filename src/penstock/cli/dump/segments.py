"""Batches and records of one file.

A batch that fails its checks is reported as invalid, and reading continues after it. If a length is invalid, the rest
of the file is reported as garbage. Nothing is repaired or hidden.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from types import TracebackType
from typing import NamedTuple, Self

from penstock.records import kernel
from penstock.records.batch import HEADER_BYTES, BatchHeader, Record
from penstock.records.errors import RecordsError

LOG_SUFFIX = ".log"
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
DECOMPRESSED_BYTES_MAX = 1 << 30
EVERYTHING = (1 << 31) - 1

_LENGTH = Struct(">8xi")
_LENGTH_AT_END = 12  # bytes of a batch that its length does not include
_CHECKPOINT_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class DumpedBatch(NamedTuple):
    header: BatchHeader
    position: int
    is_valid: bool


class SegmentFile:
    """A file of batches, open for reading."""

    def __init__(self, path: str, *, bytes_max: int = EVERYTHING) -> None:
        self.path = path
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else None
        self._view = memoryview(self._map)[:bytes_max] if self._map is not None else memoryview(b"")
        self.garbage_bytes = 0
        """Bytes after the last batch; set when `batches` is exhausted."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(BufferError):  # an unfinished iterator still holds it, and releases it later
            self._view.release()
            if self._map is not None:
                self._map.close()

    def batches(self, position: int = 0) -> Iterator[DumpedBatch]:
        """The batches from this position on."""
        view = self._view
        while len(view) - position >= HEADER_BYTES:
            size = _LENGTH_AT_END + _LENGTH.unpack_from(view, position)[0]
            if size < HEADER_BYTES or size > len(view) - position:
                break
            yield self._read(position)
            position += size
        self.garbage_bytes = len(view) - position

    def batch_at(self, position: int) -> DumpedBatch | None:
        return next(self.batches(position), None) if 0 <= position < len(self._view) else None

    def records(self, batch: DumpedBatch) -> Iterator[Record]:
        """The records of a valid batch."""
        return iter(kernel.iterate_records(self._view, batch.position, limit_bytes=DECOMPRESSED_BYTES_MAX))

    def _read(self, position: int) -> DumpedBatch:
        try:
            return DumpedBatch(kernel.check_batch(self._view, position), position, is_valid=True)
        except RecordsError:
            return DumpedBatch(kernel.read_header(self._view, position), position, is_valid=False)


def describe_origin(path: str) -> str | None:
    """The base offset or snapshot id in the name of a file, as a sentence; None if there is none."""
    name = os.path.basename(path)
    if name == BOOTSTRAP_CHECKPOINT:
        return "KRaft bootstrap snapshot"
    if match := _CHECKPOINT_NAME.fullmatch(name):
        return f"Snapshot end offset: {int(match[1])}, epoch: {int(match[2])}"
    offset = base_offset(path)
    return None if offset is None else f"Log starting offset: {offset}"


def base_offset(path: str) -> int | None:
    """The base offset of a segment, from the name of one of its files."""
    digits = os.path.basename(path).partition(".")[0]
    return int(digits) if digits.isdecimal() else None


def sequence_of(record: Record, header: BatchHeader) -> int:
    """The sequence number of a record, which wraps at 31 bits; -1 if it has none."""
    if header.base_sequence < 0:
        return -1
    return (header.base_sequence + record.offset - header.base_offset) & 0x7FFF_FFFF
