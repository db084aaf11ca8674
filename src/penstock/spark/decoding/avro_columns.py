"""Reads Avro column by column: one field of all rows at a time, with numpy and no Python per row.

Every row is a lane with a position in the column's bytes. Reading a field advances all lanes; a union branch
advances those that chose it, and array items are read one after another by the lanes that still have some. This is
about ten times as fast as reading row by row (2 M rows/s of six fields against 0.2 M).

This module never judges bad data: bytes that do not fit, and shapes that lanes are slow at (very long arrays, unions
of several types), make it give up, and the column is read row by row. So it may accept only what the row reader
reads in the same way; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy
import pyarrow as pa

from penstock.spark.decoding.avro_types import Parsed
from penstock.spark.decoding.building import struct_of
from penstock.spark.decoding.lanes import Lanes, NotColumnar, Numbers, binary_of, from_zigzag

Read = Callable[[Lanes], pa.Array]

STEPS_MAX = 256  # items in an array; longer arrays are faster row by row
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
DECIMAL_BYTES = 16
KINDS_OF_LONG: Final = ("int", "long")


def reader_of(parsed: Parsed, kind: pa.DataType) -> Read | None:
    """The reader of columns with this schema and type; None if it cannot be read by lanes."""
    try:
        return _reader(parsed.schema, parsed.names, kind)
    except NotColumnar:
        return None


def read_column(read: Read, column: pa.Array) -> pa.Array | None:
    """The column's values; None if a row cannot be read by lanes."""
    lanes = Lanes.of(column)
    try:
        values = read(lanes)
        return values if (lanes.at == lanes.end).all() else None
    except (NotColumnar, pa.ArrowInvalid):
        return None


def _reader(schema: Any, names: dict[str, Any], kind: pa.DataType) -> Read:
    if isinstance(schema, list):
        return _union(schema, names, kind)
    if isinstance(schema, str) and schema in names:
        schema = names[schema]
    name = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(name, (dict, list)):
        return _reader(name, names, kind)
    if name == "record":
        return _record(schema, names, kind)
    if name == "array":
        return _array(_reader(schema["items"], names, kind.value_type), kind)
    if name == "map":
        return _map(_reader(schema["values"], names, kind.item_type), kind)
    if pa.types.is_decimal(kind):
        return _decimal(schema["size"] if name == "fixed" else None, kind)
    if name == "enum":
        return _enum(schema["symbols"])
    if name == "fixed":
        return _fixed(schema["size"])
    logical: str = schema.get("logicalType", "") if isinstance(schema, dict) else ""
    simple = {
        "boolean": _booleans,
        "int": _ints(kind),
        "long": _longs(kind, is_millis=logical.endswith("timestamp-millis")),
        "float": _floats("<f4", kind),
        "double": _floats("<f8", kind),
        "string": _binary(kind),
        "bytes": _binary(kind),
    }
    if name not in simple:
        raise NotColumnar
    return simple[name]


def _record(schema: Any, names: dict[str, Any], kind: pa.StructType) -> Read:
    fields = list(kind)
    if not fields:
        raise NotColumnar  # a value without bytes has no end
    reads = [
        _reader(each["type"], names, field.type) for each, field in zip(schema["fields"], fields, strict=True)
    ]
    return lambda lanes: struct_of([read(lanes) for read in reads], fields, None, len(lanes))


def _union(branches: list[Any], names: dict[str, Any], kind: pa.DataType) -> Read:
    others = [index for index, branch in enumerate(branches) if branch != "null"]
    if len(others) == 2 and all(branches[index] in KINDS_OF_LONG for index in others):
        read = _reader("long", names, kind)  # int and long are written alike
    elif len(others) == 1:
        read = _reader(branches[others[0]], names, kind)
    else:
        raise NotColumnar
    has_null = len(others) < len(branches)

    def take(lanes: Lanes) -> pa.Array:
        chosen = _longs_of(lanes)
        if not len(lanes):
            return pa.nulls(0, kind)
        if chosen.min() < 0 or chosen.max() >= len(branches):
            raise NotColumnar
        present = numpy.isin(chosen, others)
        if present.all():
            return read(lanes)
        assert has_null
        index = numpy.flatnonzero(present)
        some = lanes.some(index)
        values = read(some)
        lanes.at[index] = some.at
        places = numpy.zeros(len(lanes), numpy.int32)
        places[index] = numpy.arange(len(index), dtype=numpy.int32)
        return values.take(pa.array(places, mask=~present))

    return take


def _array(read: Read, kind: pa.ListType) -> Read:
    def take(lanes: Lanes) -> pa.Array:
        offsets, items = _blocks(lanes, read)
        return pa.ListArray.from_arrays(offsets, items, type=kind)

    return take


def _map(read: Read, kind: pa.MapType) -> Read:
    read_key = _binary(kind.key_type)
    pair = [pa.field("key", kind.key_type), pa.field("value", kind.item_type)]

    def read_pair(lanes: Lanes) -> pa.Array:
        return pa.StructArray.from_arrays([read_key(lanes), read(lanes)], fields=pair)

    def take(lanes: Lanes) -> pa.Array:
        offsets, items = _blocks(lanes, read_pair)
        keys, values = items.field(0), items.field(1)
        # The row reader counts a key that a map has twice once.
        rows = numpy.repeat(numpy.arange(len(lanes)), numpy.diff(offsets.to_numpy()))
        pairs = pa.table({"row": rows, "key": keys})
        if len(keys) > 1 and pairs.group_by(["row", "key"]).aggregate([]).num_rows < len(keys):
            raise NotColumnar
        return pa.MapArray.from_arrays(offsets, keys, values, type=kind)

    return take


def _blocks(lanes: Lanes, read: Read) -> tuple[pa.Array, pa.Array]:
    """The items of arrays, and where each array begins. Items come in blocks with a count first; a negative count is
    followed by the size in bytes."""
    parts: list[pa.Array] = []
    owners: list[Numbers] = []
    active = numpy.arange(len(lanes))
    steps = 0
    while len(active):
        some = lanes.some(active)
        counts = _longs_of(some)
        sized = numpy.flatnonzero(counts < 0)
        if len(sized):
            counts = numpy.abs(counts)
            of_sized = some.some(sized)
            _longs_of(of_sized)
            some.at[sized] = of_sized.at
        lanes.at[active] = some.at
        active, counts = active[counts > 0], counts[counts > 0]
        steps += int(counts.max(initial=0))
        if steps > STEPS_MAX:
            raise NotColumnar
        for ordinal in range(int(counts.max(initial=0))):
            index = active[counts > ordinal]
            some = lanes.some(index)
            parts.append(read(some))
            owners.append(index)
            lanes.at[index] = some.at
    if not parts:
        parts, owners = [read(lanes.some(numpy.empty(0, numpy.int64)))], [numpy.empty(0, numpy.int64)]
    rows = numpy.concatenate(owners)
    items = pa.concat_arrays(parts)
    if len(parts) > 1:
        items = items.take(pa.array(numpy.argsort(rows, kind="stable")))
    offsets = numpy.zeros(len(lanes) + 1, numpy.int32)
    numpy.cumsum(numpy.bincount(rows, minlength=len(lanes)), out=offsets[1:])
    return pa.array(offsets), items


def _longs_of(lanes: Lanes) -> Numbers:
    return from_zigzag(lanes.varints())


def _booleans(lanes: Lanes) -> pa.Array:
    begins = lanes.skip(1)
    values = lanes.data[begins]
    if (values > 1).any():
        raise NotColumnar
    return pa.array(values == 1)


def _ints(kind: pa.DataType) -> Read:
    def take(lanes: Lanes) -> pa.Array:
        values = _longs_of(lanes)
        if len(values) and (values.min() < INT32_MIN or values.max() > INT32_MAX):
            raise NotColumnar
        return pa.array(values.astype(numpy.int32)).cast(kind)

    return take


def _longs(kind: pa.DataType, *, is_millis: bool) -> Read:
    def take(lanes: Lanes) -> pa.Array:
        values = _longs_of(lanes)
        if is_millis:
            if (numpy.abs(values // 1000) >= 2**63 // 10**6).any():
                raise NotColumnar
            values = values * 1000
        return pa.array(values).cast(kind)

    return take


def _floats(form: str, kind: pa.DataType) -> Read:
    size = numpy.dtype(form).itemsize

    def take(lanes: Lanes) -> pa.Array:
        return pa.array(_gathered(lanes, size).view(form).reshape(-1)).cast(kind)

    return take


def _fixed(size: int) -> Read:
    if not size:
        raise NotColumnar

    def take(lanes: Lanes) -> pa.Array:
        data = _gathered(lanes, size)
        offsets = numpy.arange(0, len(lanes) * size + 1, size, dtype=numpy.int32)
        return pa.Array.from_buffers(
            pa.binary(), len(lanes), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )

    return take


def _gathered(lanes: Lanes, size: int) -> Numbers:
    begins = lanes.skip(size)
    return numpy.ascontiguousarray(lanes.data[begins[:, None] + numpy.arange(size)])


def _binary(kind: pa.DataType) -> Read:
    def take(lanes: Lanes) -> pa.Array:
        sizes, begins = _sized(lanes)
        return binary_of(lanes.data, begins, sizes).cast(kind)  # which validates text

    return take


def _sized(lanes: Lanes) -> tuple[Numbers, Numbers]:
    """The sizes of texts or bytes, and where they begin."""
    sizes = _longs_of(lanes)
    if (sizes < 0).any() or (sizes > len(lanes.data)).any():
        raise NotColumnar
    return sizes, lanes.skip(sizes)


def _enum(symbols: list[str]) -> Read:
    names = pa.array(symbols, pa.string())

    def take(lanes: Lanes) -> pa.Array:
        chosen = _longs_of(lanes)
        if len(chosen) and (chosen.min() < 0 or chosen.max() >= len(symbols)):
            raise NotColumnar
        return names.take(pa.array(chosen))

    return take


def _decimal(fixed: int | None, kind: pa.DataType) -> Read:
    def take(lanes: Lanes) -> pa.Array:
        if fixed is None:
            sizes, begins = _sized(lanes)
        else:
            begins = lanes.skip(fixed)
            sizes = numpy.full(len(lanes), fixed)
        if sizes.max(initial=0) > DECIMAL_BYTES:
            raise NotColumnar
        # From big endian to little endian, with the sign extended to all bytes above.
        signs = numpy.where((sizes > 0) & (lanes.data[begins] >= 0x80), 0xFF, 0).astype(numpy.uint8)
        data = numpy.repeat(signs[:, None], DECIMAL_BYTES, axis=1)
        for index in range(int(sizes.max(initial=0))):
            longer = numpy.flatnonzero(sizes > index)
            data[longer, index] = lanes.data[begins[longer] + sizes[longer] - 1 - index]
        values = pa.Array.from_buffers(kind, len(lanes), [None, pa.py_buffer(data)])
        values.validate(full=True)
        return values

    return take
