"""Checks an Arrow table and converts its columns to rows that can be appended.

The columns are those of Spark's Kafka sink and of `Consumer.read`: `value`, and optionally `key`, `headers`, `topic`,
`partition` and `timestamp`. A column of a type that the kernel reads is not copied; other types of the same data
(dictionaries, other integers, other time units) are cast by Arrow, which is imported with the first table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.client import errors
from penstock.records.table_rows import BytesRows, HeaderRows, NumberRows, Rows

if TYPE_CHECKING:
    import pyarrow

    AnyTable = pyarrow.RecordBatch | pyarrow.Table

SENT = ("topic", "key", "value", "headers", "partition", "timestamp")
READ_ONLY = frozenset({"offset", "timestampType", "timestamp_type"})
"""Columns of tables that were read from a log; they are ignored."""


class TopicRows(NamedTuple):
    """Rows, and the topic names behind their topic numbers."""

    rows: Rows
    topics: list[str]


def batches_of(table: Any) -> list[pyarrow.RecordBatch]:
    """The batches of a pyarrow table or record batch, or of any object with the Arrow interface."""
    try:
        import pyarrow as pa
    except ImportError as missing:
        raise errors.IllegalState("sending tables needs pyarrow; pip install 'penstock[arrow]'") from missing
    if isinstance(table, pa.RecordBatch):
        return [table]
    if not isinstance(table, pa.Table):
        if not hasattr(table, "__arrow_c_stream__"):
            raise errors.BadArgument(
                f"table must be a Table or RecordBatch of pyarrow, or an object with the Arrow interface;"
                f" {type(table).__name__} is not"
            )
        table = pa.table(table)
    return list(table.to_batches())


def rows_of(batch: pyarrow.RecordBatch, topic: str | None) -> TopicRows:
    """The rows of one batch. The argument `topic` overrides the column."""
    names = batch.schema.names
    unknown = [name for name in names if name not in SENT and name not in READ_ONLY]
    if unknown:
        raise errors.BadArgument(
            f"unknown column {unknown[0]}; the columns of records are {', '.join(SENT)}",
        )
    if "value" not in names:
        raise errors.BadArgument("the column value is missing; for tombstones, give one of type null")
    for name in SENT:
        if names.count(name) > 1:
            raise errors.BadArgument(f"the column {name} exists twice")

    def column(name: str, read: Callable[[Any], Any]) -> Any:
        if name not in names:
            return None
        try:
            return read(batch.column(name))
        except _WrongType as wrong:
            kind = batch.schema.field(name).type
            raise errors.BadArgument(f"the column {name} must be {wrong}, not {kind}") from wrong.__cause__

    topics, topic_rows = [] if topic is None else [topic], None
    if topic is None:
        if "topic" not in names:
            raise errors.BadArgument("no topic: give the argument topic, or a column topic")
        topics, topic_rows = column("topic", _topics)
    timestamps = column("timestamp", _timestamps)
    rows = Rows(
        row_count=batch.num_rows,
        value=column("value", _bytes),
        key=column("key", _bytes),
        headers=column("headers", _headers),
        topic=topic_rows,
        partition=column("partition", _partitions),
        timestamp=None if timestamps is None else timestamps[0],
        timestamps_per_ms=1 if timestamps is None else timestamps[1],
    )
    return TopicRows(rows, topics)


class _WrongType(Exception):
    """The message says which type the column should have."""


def _bytes(column: Any) -> BytesRows | None:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_null(kind):
        return None
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_fixed_size_binary(kind) or kind in (pa.binary_view(), pa.string_view()):
        column, kind = column.cast(pa.large_binary()), pa.large_binary()
    if not (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
    ):
        raise _WrongType("bytes or text")
    validity, offsets, data = column.buffers()
    is_large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    return BytesRows(
        _or_nothing(offsets, column), _or_empty(data), _validity(validity, column), column.offset, is_large
    )


def _headers(column: Any) -> HeaderRows | None:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_null(kind):
        return None
    if pa.types.is_map(kind):
        pairs = pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
        values = pairs
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        if pa.types.is_large_list(kind):
            column = column.cast(pa.list_(kind.value_type))
        values = column.values
    else:
        raise _WrongType("a list of structs of key and value")
    fields = values.type
    if not pa.types.is_struct(fields) or [field.name for field in fields] != ["key", "value"]:
        raise _WrongType("a list of structs of key and value")
    # If a struct is null, its key is null too.
    names, contents = values.flatten()
    if not (pa.types.is_string(names.type) or pa.types.is_large_string(names.type)):
        raise _WrongType("a list of structs whose key is text")
    names.validate(full=True)  # text must be UTF-8
    name_rows, content_rows = _bytes(names), _bytes(contents)
    assert name_rows is not None
    if content_rows is None:
        content_rows = _bytes(pa.nulls(len(contents), pa.binary()))
        assert content_rows is not None
    validity, offsets = column.buffers()[:2]
    return HeaderRows(
        _or_nothing(offsets, column), _validity(validity, column), column.offset, name_rows, content_rows
    )


def _topics(column: Any) -> tuple[list[str], NumberRows]:
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise _WrongType("text")
        column = column.dictionary_encode()
    names = column.dictionary.to_pylist()
    if not all(isinstance(name, str) for name in names):
        raise _WrongType("text")
    return names, _numbers(column.indices.cast(pa.int32()))


def _partitions(column: Any) -> NumberRows | None:
    import pyarrow as pa

    if pa.types.is_null(column.type):
        return None
    if not pa.types.is_integer(column.type):
        raise _WrongType("integers")
    try:
        return _numbers(column.cast(pa.int32()))
    except pa.ArrowInvalid as wrong:
        raise _WrongType("partition numbers") from wrong


def _timestamps(column: Any) -> tuple[NumberRows, int] | None:
    """With the number of units per millisecond."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_null(kind):
        return None
    if kind == pa.int64():
        return _numbers(column), 1
    if not pa.types.is_timestamp(kind):
        raise _WrongType("timestamps, or int64 in milliseconds")
    if kind.unit == "s":
        return _numbers(column.cast(pa.timestamp("ms", kind.tz))), 1
    return _numbers(column), {"ms": 1, "us": 1_000, "ns": 1_000_000}[kind.unit]


def _numbers(column: Any) -> NumberRows:
    validity, data = column.buffers()
    return NumberRows(_or_empty(data), _validity(validity, column), column.offset)


def _validity(buffer: Any, column: Any) -> Any:
    return buffer if column.null_count else None


def _or_empty(buffer: Any) -> Any:
    """A column without any bytes may have no buffer."""
    return b"" if buffer is None else buffer


def _or_nothing(offsets: Any, column: Any) -> Any:
    """A column without rows may have no offsets."""
    return bytes(8 * (column.offset + 1)) if offsets is None or offsets.size == 0 else offsets
