"""The batches in which records of one write stand in a coordinator's log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat

from penstock.records import kernel
from penstock.records.batch import Compression

BATCH_BYTES = 900_000
"""Records of one write that are larger together are cut into batches of about this size. A record that is larger by
itself is left to the log, which may refuse it."""

MEASURED_AFTER_MAX = 1_000
"""So many records are made into a batch before anybody looks at their size, which costs as much: bench `commits50`."""

_NewRecord = tuple[int, bytes, bytes | None, tuple[()]]
"""Timestamp, key, value, and no headers."""


def build_batches(
    keys: list[bytes], values: list[bytes | None], *, timestamp_ms: int, compression: Compression
) -> bytearray:
    """Batches of records with these keys and values, one after the other."""
    if len(keys) <= MEASURED_AFTER_MAX:
        batch = kernel.build_batch(_records(keys, values, timestamp_ms), compression=compression)
        if len(batch) <= BATCH_BYTES or len(keys) == 1:
            return batch
    batches = bytearray()
    for piece in _cut(_records(keys, values, timestamp_ms)):
        batches += kernel.build_batch(piece, compression=compression)
    return batches


def _records(keys: list[bytes], values: list[bytes | None], timestamp_ms: int) -> Iterator[_NewRecord]:
    return zip(repeat(timestamp_ms), keys, values, repeat(()))


def _cut(records: Iterable[_NewRecord]) -> Iterator[list[_NewRecord]]:
    piece: list[_NewRecord] = []
    piece_bytes = 0
    for record in records:
        _, key, value, _ = record
        record_bytes = len(key) if value is None else len(key) + len(value)
        if piece and piece_bytes + record_bytes > BATCH_BYTES:
            yield piece
            piece, piece_bytes = [], 0
        piece.append(record)
        piece_bytes += record_bytes
    yield piece
