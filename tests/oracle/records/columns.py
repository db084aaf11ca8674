"""Records in Arrow's memory layout, in plain Python: the reference for `_columns.pyx`."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any

from oracle.records.batches import parse_records, read_header, read_payload
from oracle.records.varint import wrap_int64
from penstock.records.arrow_layout import (
    LISTED_HEADERS,
    OFFSET_MAX,
    RAW_HEADERS,
    BytesColumn,
    Columns,
    NumberColumn,
)
from penstock.records.batch import NO_TIMESTAMP, Buffer, TimestampType
from penstock.records.compression import DECOMPRESSED_BYTES_MAX
from penstock.records.errors import TooLarge

COLUMN_BYTES_MAX = 2**31 - 1  # offsets into a column's data are signed 32-bit numbers
INT64_MAX = 2**63 - 1
_INT32 = Struct("<i")
_INT64 = Struct("<q")


class ColumnBuilder:
    """Collects the records of batches, row by row; `take` returns them and starts again."""

    def __init__(
        self, header_format: int = LISTED_HEADERS, allocate: Callable[[int], Any] | None = None
    ) -> None:
        """`allocate` is ignored: the reference always fills bytearrays."""
        self.header_format = header_format
        self._start()

    def _start(self) -> None:
        self.row_count = 0
        self._offset = _Numbers()
        self._timestamp = _Numbers()
        self._key = _Bytes()
        self._value = _Bytes()
        self._raw_headers = _Bytes()
        self._header_offsets = bytearray(4)
        self._header_name = _Bytes()
        self._header_value = _Bytes()
        self._append_time_runs: list[tuple[int, int]] = []

    def append(
        self,
        view: Buffer,
        position: int = 0,
        *,
        first_offset: int = 0,
        end_offset: int = OFFSET_MAX,
        limit_bytes: int = DECOMPRESSED_BYTES_MAX,
    ) -> None:
        """Append the records of the batch at `position` with `first_offset <= offset < end_offset`.

        After an exception the builder has part of the batch and should be dropped.
        """
        header = read_header(view, position)
        payload = read_payload(view, position, limit_bytes=limit_bytes)
        is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        first_row = self.row_count
        for record in parse_records(payload, header.record_count, position):
            offset = wrap_int64(header.base_offset + record.offset_delta)
            if not first_offset <= offset < end_offset:
                continue
            timestamp = header.max_timestamp
            if not is_append_time:
                timestamp = wrap_int64(header.base_timestamp + record.timestamp_delta)
            self._offset.append(offset)
            self._timestamp.append(None if timestamp == NO_TIMESTAMP else microseconds(timestamp))
            self._key.append(record.key)
            self._value.append(record.value)
            if self.header_format == LISTED_HEADERS:
                for name, content in record.headers:
                    self._header_name.append(str(name, "utf-8", "replace").encode())
                    self._header_value.append(content)
                self._header_offsets += _INT32.pack(self._header_name.count)
            elif self.header_format == RAW_HEADERS:
                self._raw_headers.append(record.raw_headers if record.headers else None)
            self.row_count += 1
        if is_append_time and self.row_count > first_row:
            self._note_append_time(first_row)

    def _note_append_time(self, first_row: int) -> None:
        runs = self._append_time_runs
        if runs and runs[-1][1] == first_row:
            first_row, _ = runs.pop()
        runs.append((first_row, self.row_count))

    def take(self) -> Columns:
        columns = Columns(
            row_count=self.row_count,
            offset=self._offset.column(),
            timestamp=self._timestamp.column(),
            key=self._key.column(),
            value=self._value.column(),
            raw_headers=self._raw_headers.column(),
            header_count=self._header_name.count,
            header_offsets=self._header_offsets,
            header_name=self._header_name.column(),
            header_value=self._header_value.column(),
            append_time_runs=tuple(self._append_time_runs),
        )
        self._start()
        return columns


def microseconds(timestamp_ms: int) -> int:
    """Clamp timestamps that only a hostile batch has."""
    return max(-INT64_MAX - 1, min(timestamp_ms * 1000, INT64_MAX))


class _Validity:
    def __init__(self) -> None:
        self.bits = bytearray()
        self.count = 0
        self.null_count = 0

    def append(self, is_valid: bool) -> None:
        if self.count % 8 == 0:
            self.bits.append(0)
        if is_valid:
            self.bits[-1] |= 1 << self.count % 8
        else:
            self.null_count += 1
        self.count += 1


class _Numbers:
    def __init__(self) -> None:
        self.data = bytearray()
        self.validity = _Validity()

    def append(self, value: int | None) -> None:
        self.validity.append(value is not None)
        self.data += _INT64.pack(0 if value is None else value)

    def column(self) -> NumberColumn:
        return NumberColumn(self.data, self.validity.bits, self.validity.null_count)


class _Bytes:
    def __init__(self) -> None:
        self.offsets = bytearray(4)
        self.data = bytearray()
        self.validity = _Validity()

    @property
    def count(self) -> int:
        return self.validity.count

    def append(self, value: Buffer | None) -> None:
        self.validity.append(value is not None)
        if value is not None:
            self.data += value
        if len(self.data) > COLUMN_BYTES_MAX:
            raise TooLarge(f"a column would pass {COLUMN_BYTES_MAX} bytes")
        self.offsets += _INT32.pack(len(self.data))

    def column(self) -> BytesColumn:
        return BytesColumn(self.offsets, self.data, self.validity.bits, self.validity.null_count)
