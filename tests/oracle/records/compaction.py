"""Compaction in plain Python: the reference for `penstock.records.compaction`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from oracle.records.batches import append_record, check_batch, finish_batch, iterate_records
from oracle.records.varint import wrap_int64
from penstock.records.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_MASK,
    HEADER_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    Record,
    TimestampType,
)
from penstock.records.compaction import Decision

Decide = Callable[[BatchHeader, memoryview], Decision]


@dataclass
class Offsets:
    """The last offset of each key."""

    capacity: int
    last: dict[bytes, int] = field(default_factory=dict)
    latest_offset: int = -1

    def add(self, data: bytes, *, start_offset: int, decide: Decide) -> bool:
        """False if it is full."""
        position = 0
        while position < len(data):
            header = check_batch(data, position)
            batch = memoryview(data)[position : position + header.size_bytes]
            position += header.size_bytes
            if header.last_offset < start_offset:
                continue
            is_ignored = header.is_control
            if header.is_control or header.is_transactional:
                is_ignored |= decide(header, batch).discards_records
            for record in [] if is_ignored else iterate_records(batch):
                if record.key is None or record.offset < start_offset:
                    continue
                if record.key not in self.last and len(self.last) >= self.capacity:
                    return False
                self.last[record.key] = self.latest_offset = record.offset
            self.latest_offset = header.last_offset
        return True


@dataclass(kw_only=True)
class Filter:
    offsets: Offsets
    now_ms: int
    delete_retention_ms: int
    kept_offsets: Collection[int]

    def filter(self, data: bytes, decide: Decide) -> bytes:
        output = bytearray()
        position = 0
        while position < len(data):
            header = check_batch(data, position)
            output += self._filter_batch(
                header, memoryview(data)[position : position + header.size_bytes], decide
            )
            position += header.size_bytes
        return bytes(output)

    def _filter_batch(self, header: BatchHeader, batch: memoryview, decide: Decide) -> bytes:
        decision = Decision(False, False, False)
        if header.is_control or header.is_transactional:
            decision = decide(header, batch)
        records = list(iterate_records(batch))
        retained = [record for record in records if self._stays(header, record)]
        if decision.discards_records:
            retained = []
        if not retained:
            keeps_empty = decision.keeps_empty or header.last_offset in self.kept_offsets
            return _empty(header) if keeps_empty else b""
        has_tombstones = any(record.value is None for record in retained)
        sets_horizon = header.delete_horizon_ms is None and (
            has_tombstones or decision.marks_empty_transaction
        )
        if len(retained) == len(records) and not sets_horizon:
            return bytes(batch)
        horizon_ms = self.now_ms + self.delete_retention_ms if sets_horizon else header.delete_horizon_ms
        return _rebuilt(header, retained, horizon_ms)

    def _stays(self, header: BatchHeader, record: Record) -> bool:
        if header.is_control or record.offset > self.offsets.latest_offset:
            return True
        if record.key is None or record.offset < self.offsets.last.get(record.key, -1):
            return False
        horizon_ms = header.delete_horizon_ms
        return record.value is not None or horizon_ms is None or self.now_ms < horizon_ms


def _empty(header: BatchHeader) -> bytes:
    return bytes(
        finish_batch(
            bytearray(HEADER_BYTES),
            header._replace(
                attributes=header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_MASK),
                base_timestamp=NO_TIMESTAMP,
                record_count=0,
            ),
            None,
        )
    )


def _rebuilt(header: BatchHeader, records: list[Record], horizon_ms: int | None) -> bytes:
    base_timestamp = records[0].timestamp if horizon_ms is None else horizon_ms
    out = bytearray(HEADER_BYTES)
    for record in records:
        append_record(
            out,
            wrap_int64(record.timestamp - base_timestamp),
            record.offset - header.base_offset,
            record.key,
            record.value,
            record.headers,
        )
    max_timestamp = max(NO_TIMESTAMP, *(record.timestamp for record in records))
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        max_timestamp = header.max_timestamp
    return bytes(
        finish_batch(
            out,
            header._replace(
                attributes=header.attributes | (0 if horizon_ms is None else DELETE_HORIZON_MASK),
                base_timestamp=base_timestamp,
                max_timestamp=max_timestamp,
                record_count=len(records),
            ),
            None,
        )
    )
