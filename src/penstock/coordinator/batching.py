"""Building the record batches of one write to a coordinator's log."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.coordinator.serde import EncodedRecord
from penstock.records import kernel
from penstock.records.batch import Compression, NewRecord, RecordRows

BATCH_BYTES = 900_000
"""Larger writes are split into batches of about this size. The log may refuse a single record that is larger."""

MEASURED_AFTER_MAX = 1_000
"""Up to this many records are built into one batch before measuring them, which costs as much: bench `commits50`."""


def build_batches(records: list[EncodedRecord | RecordRows], *, compression: Compression) -> bytearray:
    """One or more batches, concatenated."""
    count = sum([len(each.key_numbers) if isinstance(each, RecordRows) else 1 for each in records])
    if count <= MEASURED_AFTER_MAX:
        batch = kernel.build_batch(records, compression=compression)
        if len(batch) <= BATCH_BYTES or count == 1:
            return batch
    batches = bytearray()
    for piece in _split(records):
        batches += kernel.build_batch(piece, compression=compression)
    return batches


def _split(records: list[EncodedRecord | RecordRows]) -> Iterator[list[EncodedRecord | NewRecord]]:
    piece: list[EncodedRecord | NewRecord] = []
    piece_bytes = 0
    for each in records:
        for record in each.records() if isinstance(each, RecordRows) else [each]:
            _, key, value, _ = record
            record_bytes = len(key or b"") + len(value or b"")
            if piece and piece_bytes + record_bytes > BATCH_BYTES:
                yield piece
                piece, piece_bytes = [], 0
            piece.append(record)
            piece_bytes += record_bytes
    yield piece
