"""Logs to compact, a cleaner for them, and what a consumer sees of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from harness.storage import NOW_MS, Place, append, append_marker
from penstock.records import kernel
from penstock.records.batch import Compression, NewRecord, Record
from penstock.storage.cleaning.cleaner import LogCleaner
from penstock.storage.log import Log
from penstock.storage.settings import CleanerSettings


def make_cleaner(place: Place, **settings: Any) -> LogCleaner:
    return LogCleaner(
        [place.directory],
        workers=place.workers,
        clock=place.clock,
        settings=lambda: CleanerSettings(**settings),
    )


async def commit_everything(log: Log) -> None:
    await log.flush()
    log.high_watermark = log.end_offset


def records_of(log: Log) -> list[Record]:
    """All data records, aborted ones included, with their offsets."""
    found: list[Record] = []
    offset = log.start_offset
    while True:
        piece = log.read(offset, max_bytes=1 << 20, end_offset=log.end_offset, at_least_one=True)
        if piece is None:
            return found
        data = piece.read()
        position = 0
        for header in kernel.check_batches(data):
            if not header.is_control:
                found += [r for r in kernel.iterate_records(data, position) if r.offset >= offset]
            position += header.size_bytes
            following = header.next_offset
        offset = following


def table_of(log: Log) -> dict[bytes, bytes]:
    """The last value of each key, as a consumer of committed records that reads from the start builds it."""
    aborted = log.reader.aborted_transactions(log.start_offset, log.end_offset)
    starts = sorted((entry.first_offset, entry.producer_id) for entry in aborted)
    table: dict[bytes, bytes] = {}
    skipping: set[int] = set()
    offset = log.start_offset
    while piece := log.read(offset, max_bytes=1 << 20, end_offset=log.end_offset, at_least_one=True):
        data = piece.read()
        position = 0
        for header in kernel.check_batches(data):
            while starts and starts[0][0] <= header.last_offset:
                skipping.add(starts.pop(0)[1])
            if header.is_control:
                skipping.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipping):
                for record in kernel.iterate_records(data, position):
                    assert record.key is not None
                    if record.value is None:
                        table.pop(record.key, None)
                    else:
                        table[record.key] = record.value
            position += header.size_bytes
            offset = header.next_offset
    return table


class Writer:
    """Writes random updates, deletes and transactions, and knows the table that they make."""

    def __init__(
        self, seed: int, *, codecs: Sequence[Compression] = (Compression.NONE, *Compression)
    ) -> None:
        self.random = random.Random(seed)
        self.codecs = codecs
        self.table: dict[bytes, bytes] = {}
        self.sequences: dict[int, int] = {}
        self.number = 0

    def records(self, log: Log) -> list[NewRecord]:
        records = []
        for _ in range(self.random.randrange(1, 6)):
            self.number += 1
            key = b"key-%d" % self.random.randrange(12)
            value = None if self.random.random() < 0.2 else b"value-%d" % self.number
            records.append(NewRecord(NOW_MS + self.number, key, value))
        return records

    def apply(self, records: list[NewRecord]) -> None:
        for record in records:
            assert record.key is not None
            if record.value is None:
                self.table.pop(record.key, None)
            else:
                self.table[record.key] = record.value

    def write(self, log: Log) -> None:
        kind = self.random.choice(["plain", "plain", "idempotent", "commit", "abort"])
        codec = self.random.choice(self.codecs)
        records = self.records(log)
        if kind == "plain":
            append(log, kernel.build_batch(records, compression=codec))
            self.apply(records)
        elif kind == "idempotent":
            producer_id = 100 + self.random.randrange(3)
            sequence = self.sequences.get(producer_id, 0)
            batch = kernel.build_batch(
                records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, compression=codec
            )
            append(log, batch)
            self.sequences[producer_id] = sequence + len(records)
            self.apply(records)
        else:
            self.write_transaction(log, records, is_commit=kind == "commit")

    def write_transaction(self, log: Log, records: list[NewRecord], *, is_commit: bool) -> None:
        producer_id = 1 + self.random.randrange(3)
        sequence = self.sequences.get(producer_id, 0)
        batch = kernel.build_batch(
            records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True
        )
        guard = log.producers.start_verification(producer_id, 0, sequence, is_version_2=False, now_ms=NOW_MS)
        header = kernel.read_header(batch, 0)
        log.append(memoryview(batch), [header], leader_epoch=0, now_ms=NOW_MS, guard=guard)
        self.sequences[producer_id] = sequence + len(records)
        append_marker(log, producer_id, is_commit=is_commit)
        if is_commit:
            self.apply(records)
