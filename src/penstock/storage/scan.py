"""Reads a log file from batch to batch by header, in chunks.

Only for bytes that are known to be whole batches (below a segment's size); damaged files are for `recovery`. A
position is where a batch starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from penstock.records.batch import HEADER, HEADER_BYTES, LENGTH_BYTES, BatchHeader
from penstock.storage.pages import Readable

LOOKUP_CHUNK_BYTES = 8192  # two index intervals: usually the first chunk has the wanted batch
REPLAY_CHUNK_BYTES = 1 << 20

_SPAN = Struct(">qi11xi")  # base offset, length, last offset delta: all that a search needs
SPAN_BYTES = _SPAN.size


def find_offset(file: Readable, offset: int, *, position: int, end: int) -> int:
    """Position of the first batch at or after `position` that reaches `offset`; `end` if none does."""
    chunk: bytes | bytearray = b""
    start = position
    while position < end:
        at = position - start
        if at + SPAN_BYTES > len(chunk):
            chunk, start, at = file.read(position=position, size=LOOKUP_CHUNK_BYTES), position, 0
        base_offset, length, last_offset_delta = _SPAN.unpack_from(chunk, at)
        if base_offset + last_offset_delta >= offset:
            return position
        position += length + LENGTH_BYTES
    return end


def find_boundary(file: Readable, limit: int, *, position: int, end: int) -> tuple[int, int]:
    """The last batch at or after `position` that starts at or before `limit`, and its base offset.

    Everything before it is whole batches and fits the limit, so this is where a slice can end.
    """
    chunk: bytes | bytearray = b""
    start = position
    while True:
        at = position - start
        if at + SPAN_BYTES > len(chunk):
            chunk, start, at = file.read(position=position, size=LOOKUP_CHUNK_BYTES), position, 0
        base_offset, length, _ = _SPAN.unpack_from(chunk, at)
        following = position + length + LENGTH_BYTES
        if following > limit or following >= end:
            return position, base_offset
        position = following


def batch_span(file: Readable, position: int) -> tuple[int, int]:
    """Size of the batch at `position`, and the offset after it."""
    base_offset, length, last_offset_delta = _SPAN.unpack(file.read(position=position, size=SPAN_BYTES))
    return length + LENGTH_BYTES, base_offset + last_offset_delta + 1


def headers(
    file: Readable, *, position: int, end: int, chunk_bytes: int = LOOKUP_CHUNK_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every batch from `position` to `end`."""
    chunk: bytes | bytearray = b""
    start = position
    while position < end:
        at = position - start
        if at + HEADER_BYTES > len(chunk):
            chunk, start, at = file.read(position=position, size=chunk_bytes), position, 0
        base_offset, length, *rest = HEADER.unpack_from(chunk, at)
        yield position, BatchHeader(base_offset, length + LENGTH_BYTES, *rest)
        position += length + LENGTH_BYTES
