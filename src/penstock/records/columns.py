"""Decodes batches into Arrow columns: offset, timestamp, key, value, headers.

From the bytes of a fetch response straight into Arrow's buffers, without a Python object per record. Arrow is imported
only when columns are used, so a broker runs without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from penstock.records import consuming, kernel
from penstock.records.arrow_layout import (
    LISTED_HEADERS,
    NO_HEADERS,
    OFFSET_MAX,
    RAW_HEADERS,
    BytesColumn,
    Columns,
    NumberColumn,
)
from penstock.records.batch import BatchHeader, Buffer, TimestampType
from penstock.records.compression import DECOMPRESSED_BYTES_MAX

if TYPE_CHECKING:
    import pyarrow


class HeaderColumn(IntEnum):
    """How headers are returned."""

    NONE = NO_HEADERS
    LIST = LISTED_HEADERS
    """A list of structs of `key` (text) and `value` (bytes)."""
    RAW = RAW_HEADERS
    """The bytes of the record (size and name, size and value, ...); null if there are no headers."""


def decode_columns(
    batches: Buffer,
    *,
    headers: HeaderColumn = HeaderColumn.LIST,
    first_offset: int = 0,
    end_offset: int = OFFSET_MAX,
    keep: Callable[[BatchHeader], bool] | None = None,
    limit_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> pyarrow.RecordBatch:
    """All records of the whole batches in the buffer; see `iterate_columns`."""
    builder = column_builder(headers)
    for _ in _append_batches(builder, batches, first_offset, end_offset, keep, limit_bytes):
        pass
    return record_batch(builder.take(), headers)


def iterate_columns(
    batches: Buffer,
    *,
    rows_max: int = 20_000,
    headers: HeaderColumn = HeaderColumn.LIST,
    first_offset: int = 0,
    end_offset: int = OFFSET_MAX,
    keep: Callable[[BatchHeader], bool] | None = None,
    limit_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> Iterator[pyarrow.RecordBatch]:
    """The records of the whole batches in the buffer, in pieces of at most `rows_max` rows.

    Checksums are checked, an incomplete batch at the end is ignored, and control batches are skipped. `keep` is called
    for every other batch, so that a reader can skip aborted ones. Records outside `first_offset` and `end_offset`
    (exclusive) are skipped. A record without a timestamp has a null there.
    """
    builder = column_builder(headers)
    for _ in _append_batches(builder, batches, first_offset, end_offset, keep, limit_bytes):
        if builder.row_count >= rows_max:
            yield from _pieces(record_batch(builder.take(), headers), rows_max)
    if builder.row_count:
        yield from _pieces(record_batch(builder.take(), headers), rows_max)


def _append_batches(
    builder: consuming.ColumnBuilder,
    batches: Buffer,
    first_offset: int,
    end_offset: int,
    keep: Callable[[BatchHeader], bool] | None,
    limit_bytes: int,
) -> Iterator[None]:
    position = 0
    for header in kernel.read_headers(batches):
        start, position = position, position + header.size_bytes
        if header.is_control or header.last_offset < first_offset or header.base_offset >= end_offset:
            continue
        if keep is not None and not keep(header):
            continue
        kernel.check_batch(batches, start)
        builder.append(
            batches, start, first_offset=first_offset, end_offset=end_offset, limit_bytes=limit_bytes
        )
        yield


def _pieces(batch: pyarrow.RecordBatch, rows_max: int) -> Iterator[pyarrow.RecordBatch]:
    for start in range(0, batch.num_rows, rows_max):
        yield batch.slice(start, rows_max)


@cache
def column_schema(
    headers: HeaderColumn = HeaderColumn.LIST, *, timestamp_types: bool = False
) -> pyarrow.Schema:
    """The schema of `decode_columns`; with the timestamp types at the end, if wanted."""
    import pyarrow as pa

    fields = [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
    if headers is HeaderColumn.LIST:
        pair = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
        fields.append(pa.field("headers", pa.list_(pair)))
    elif headers is HeaderColumn.RAW:
        fields.append(pa.field("headers", pa.binary()))
    if timestamp_types:
        fields.append(pa.field("timestamp_type", pa.int32(), nullable=False))
    return pa.schema(fields)


def column_builder(headers: HeaderColumn) -> consuming.ColumnBuilder:
    """A builder whose columns are in Arrow's own memory: bench "consume into Arrow"."""
    import pyarrow as pa

    return consuming.ColumnBuilder(headers, partial(pa.allocate_buffer, resizable=True))


def record_batch(
    columns: Columns, headers: HeaderColumn, *, timestamp_types: bool = False
) -> pyarrow.RecordBatch:
    """The columns of a `ColumnBuilder` as an Arrow record batch, without copying."""
    import pyarrow as pa

    schema = column_schema(headers, timestamp_types=timestamp_types)
    rows = columns.row_count
    arrays = [
        _numbers(schema.field("offset").type, rows, columns.offset),
        _numbers(schema.field("timestamp").type, rows, columns.timestamp),
        _bytes(pa.binary(), rows, columns.key),
        _bytes(pa.binary(), rows, columns.value),
    ]
    if headers is HeaderColumn.RAW:
        arrays.append(_bytes(pa.binary(), rows, columns.raw_headers))
    elif headers is HeaderColumn.LIST:
        list_type = schema.field("headers").type
        count = columns.header_count
        pairs = pa.StructArray.from_arrays(
            [
                _bytes(pa.string(), count, columns.header_name),
                _bytes(pa.binary(), count, columns.header_value),
            ],
            fields=list(list_type.value_type),
        )
        offsets = _buffer(columns.header_offsets)
        arrays.append(pa.Array.from_buffers(list_type, rows, [None, offsets], 0, children=[pairs]))
    if timestamp_types:
        arrays.append(_timestamp_types(rows, columns.append_time_runs))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _timestamp_types(rows: int, append_time_runs: tuple[tuple[int, int], ...]) -> Any:
    """Kafka's timestamp types: 0 is CreateTime, 1 is LogAppendTime. Nearly always all rows have the same."""
    import pyarrow as pa

    def same(kind: TimestampType, count: int) -> Any:
        return pa.repeat(pa.scalar(int(kind), pa.int32()), count)

    pieces, at = [], 0
    for first, end in append_time_runs:
        pieces += [
            same(TimestampType.CREATE_TIME, first - at),
            same(TimestampType.LOG_APPEND_TIME, end - first),
        ]
        at = end
    pieces.append(same(TimestampType.CREATE_TIME, rows - at))
    return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)


def _numbers(kind: Any, rows: int, column: NumberColumn) -> Any:
    import pyarrow as pa

    validity = _buffer(column.validity) if column.null_count else None
    return pa.Array.from_buffers(kind, rows, [validity, _buffer(column.data)], column.null_count)


def _bytes(kind: Any, rows: int, column: BytesColumn) -> Any:
    import pyarrow as pa

    validity = _buffer(column.validity) if column.null_count else None
    buffers = [validity, _buffer(column.offsets), _buffer(column.data)]
    return pa.Array.from_buffers(kind, rows, buffers, column.null_count)


def _buffer(data: Any) -> Any:
    import pyarrow as pa

    return data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
