"""The batches in which records of one write stand in a coordinator's log."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.coordinator.framing import EncodedRecord
from penstock.records import kernel
from penstock.records.batch import Compression, NewRecord, RecordRows

BATCH_BYTES = 900_000
"""Records of one write that are larger together are cut into batches of about this size. A record that is larger by
itself is left to the log, which may refuse it."""

MEASURED_AFTER_MAX = 1_000
"""So many records are made into a batch before anybody looks at their size, which costs as much: bench `commits50`."""


def build_batches(records: list[EncodedRecord | RecordRows], *, compression: Compression) -> bytearray:
    """Batches of these records, one after the other."""
    count = sum([len(each.key_numbers) if isinstance(each, RecordRows) else 1 for each in records])
    if count <= MEASURED_AFTER_MAX:
        batch = kernel.build_batch(records, compression=compression)
        if len(batch) <= BATCH_BYTES or count == 1:
            return batch
    batches = bytearray()
    for piece in _cut(records):
        batches += kernel.build_batch(piece, compression=compression)
    return batches


def _cut(records: list[EncodedRecord | RecordRows]) -> Iterator[list[EncodedRecord | NewRecord]]:
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
