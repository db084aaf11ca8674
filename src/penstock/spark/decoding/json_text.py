"""Decodes JSON objects, or any other JSON value, into the type of the schema.

There are two readers for the same column. `pyarrow.json` reads a whole column at once, straight from its buffer. It
knows nothing of rows: it reads all of them or fails. Then, and for types that it does not know (maps, bytes),
msgspec reads each row by itself, typed and checked; its errors name the place (`at $.id`).

Invariant: whatever the fast reader accepts, the slow reader reads in the same way, so that a row never changes
because of its neighbours. Rows need no separator: each value starts with `{` and ends with `}`, so if one ends
inside an object, the next cannot continue it, and as many objects as values means one in each.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import json
from functools import cached_property
from typing import Annotated, Any, Final, Optional

import numpy
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.client.serializers.libraries import need
from penstock.spark.decoding import building
from penstock.spark.decoding.base import Decoded, Decoder, build_rows, by_halves, read_rows
from penstock.spark.decoding.buffers import bytes_of
from penstock.spark.decoding.building import Build
from penstock.spark.errors import BadOption
from penstock.spark.internals import arrow_type_of

BITS: Final = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
FAST_LEAVES: Final = (
    *BITS,
    BooleanType,
    FloatType,
    DoubleType,
    DecimalType,
    StringType,
    DateType,
    TimestampType,
)
OPEN, CLOSE, LINE_END = b"{"[0], b"}"[0], b"\n"[0]


@dataclasses.dataclass(frozen=True)
class JsonDecoder(Decoder):
    """JSON in UTF-8. Fields that the schema does not name are skipped; a missing one is null."""

    def __post_init__(self) -> None:
        check_json_type(self.data_type)

    def _decode_present(self, column: pa.Array) -> Decoded:
        return by_halves(column, self._at_once if self._is_fast else None, self._by_rows)

    def _by_rows(self, column: pa.Array) -> Decoded:
        values, bad = read_rows(column.to_pylist(), self._read)
        return build_rows(values, self._build, bad)

    @cached_property
    def _is_fast(self) -> bool:
        return isinstance(self.data_type, StructType) and len(self.data_type) > 0 and _is_fast(self.data_type)

    def _at_once(self, column: pa.Array) -> pa.Array | None:
        """All rows at once; None if one of them needs the slow reader."""
        try:
            column.cast(pa.string())  # the library does not validate text that it skips
        except pa.ArrowInvalid:
            return None
        data, offsets = bytes_of(column)
        if (numpy.diff(offsets) == 0).any():
            return None
        if (data[offsets[:-1]] != OPEN).any() or (data[offsets[1:] - 1] != CLOSE).any():
            return None
        text = data[offsets[0] : offsets[-1]]
        if (text == LINE_END).any():  # the library splits at line ends
            return None
        try:
            table = pyarrow.json.read_json(
                pa.BufferReader(pa.py_buffer(text)),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
                parse_options=self._parse_options,
            )
            if table.num_rows != len(column):
                return None
            columns = [_whole(table.column(index)) for index in range(table.num_columns)]
            return _conformed(pa.StructArray.from_arrays(columns, fields=list(table.schema)), self.arrow_type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None

    @cached_property
    def _parse_options(self) -> Any:
        return pyarrow.json.ParseOptions(
            explicit_schema=pa.schema(list(_read_as(self.arrow_type))), unexpected_field_behavior="ignore"
        )

    @cached_property
    def _build(self) -> Build:
        return _build_of(self.data_type, self.arrow_type)

    @cached_property
    def _read(self) -> Any:
        msgspec = need("msgspec", extra="serializers")
        kind = _python_type(msgspec, self.data_type)
        decode = msgspec.json.Decoder(kind).decode

        def read(data: bytes) -> Any:
            try:
                return decode(data)
            except msgspec.ValidationError:
                raise
            except msgspec.DecodeError:
                # NaN and Infinity are not JSON, but Python and Java write them, and the fast reader accepts them.
                if b"NaN" not in data and b"Infinity" not in data:
                    raise
                return msgspec.convert(json.loads(data), kind)

        return read


def check_json_type(data_type: DataType) -> None:
    """Reject a type that cannot be read from JSON, before the query starts."""
    if isinstance(data_type, StructType):
        for field in data_type:
            check_json_type(field.dataType)
    elif isinstance(data_type, ArrayType):
        check_json_type(data_type.elementType)
    elif isinstance(data_type, MapType):
        if not isinstance(data_type.keyType, StringType):
            raise BadOption(
                f"keys in JSON are strings, so {data_type.simpleString()} cannot be read from JSON"
            )
        check_json_type(data_type.valueType)
    elif not isinstance(data_type, (*FAST_LEAVES, TimestampNTZType, BinaryType)):
        raise BadOption(f"{data_type.simpleString()} cannot be read from JSON")


def _is_fast(data_type: DataType) -> bool:
    if isinstance(data_type, StructType):
        return all(_is_fast(field.dataType) for field in data_type)
    if isinstance(data_type, ArrayType):
        return _is_fast(data_type.elementType)
    return isinstance(data_type, FAST_LEAVES)


def _read_as(kind: pa.DataType) -> pa.DataType:
    """The type to request from the library: dates as text, and everything nullable."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _read_as(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _read_as(kind.value_type)))
    return pa.string() if pa.types.is_date(kind) else kind


def _conformed(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array in the wanted type; ArrowInvalid if a required field is null."""
    if pa.types.is_struct(kind):
        columns = []
        for index, field in enumerate(kind):
            column = _conformed(values.field(index), field.type)
            if not field.nullable and pc.any(pc.and_(column.is_null(), values.is_valid())).as_py():
                raise pa.ArrowInvalid(f"{field.name} is missing")
            columns.append(column)
        mask = values.is_null() if values.null_count else None
        return building.struct_of(columns, list(kind), mask, len(values))
    if pa.types.is_list(kind):
        items = _conformed(values.values, kind.value_type)
        if items.null_count and not kind.value_field.nullable:
            raise pa.ArrowInvalid("an item is missing")
        mask = values.is_null() if values.null_count else None
        return pa.ListArray.from_arrays(values.offsets, items, type=kind, mask=mask)
    return values.cast(kind) if pa.types.is_date(kind) else values


def _whole(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _python_type(msgspec: Any, data_type: DataType) -> Any:
    """The type for msgspec: Python's types with Spark's bounds."""
    for kind, bits in BITS.items():
        if isinstance(data_type, kind):
            return Annotated[int, msgspec.Meta(ge=-(2 ** (bits - 1)), le=2 ** (bits - 1) - 1)]
    if isinstance(data_type, StructType):
        from typing import NotRequired, TypedDict

        members = {}
        for field in data_type:
            member = _python_type(msgspec, field.dataType)
            members[field.name] = NotRequired[Optional[member]] if field.nullable else member  # noqa: UP045
        return TypedDict("Fields", members)  # type: ignore[operator]
    if isinstance(data_type, ArrayType):
        item = _python_type(msgspec, data_type.elementType)
        return list[Optional[item]] if data_type.containsNull else list[item]  # type: ignore[valid-type]  # noqa: UP045
    if isinstance(data_type, MapType):
        item = _python_type(msgspec, data_type.valueType)
        return dict[str, Optional[item]] if data_type.valueContainsNull else dict[str, item]  # type: ignore[valid-type]  # noqa: UP045
    for spark, python in (
        (BooleanType, bool),
        (DecimalType, decimal.Decimal),
        (BinaryType, bytes),
        ((FloatType, DoubleType), float),
    ):
        if isinstance(data_type, spark):
            return python
    return str  # text, and dates and times, which are converted from text as in the fast reader


def _build_of(data_type: DataType, kind: pa.DataType) -> Build:
    if isinstance(data_type, StructType):
        builds = [_build_of(field.dataType, kind.field(index).type) for index, field in enumerate(data_type)]
        return building.struct(kind, builds)
    if isinstance(data_type, ArrayType):
        return building.sequence(kind, _build_of(data_type.elementType, kind.value_type))
    if isinstance(data_type, MapType):
        return building.mapping(
            kind, _build_of(data_type.keyType, kind.key_type), _build_of(data_type.valueType, kind.item_type)
        )
    if isinstance(data_type, DateType):
        return building.converted(datetime.date.fromisoformat, building.leaf(kind))
    if isinstance(data_type, (TimestampType, TimestampNTZType)):
        is_local = isinstance(data_type, TimestampNTZType)
        return building.converted(_local_time if is_local else _time, building.leaf(kind))
    return building.leaf(arrow_type_of(data_type))


def _time(text: str) -> datetime.datetime:
    """A timestamp; UTC if it has no zone."""
    moment = datetime.datetime.fromisoformat(text)
    return moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment


def _local_time(text: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        raise ValueError(f"{text} has a time zone, but the column has none")
    return moment
