"""Serdes over whole Arrow columns: bytes in, typed columns out, without Python per value where the type allows it.

Results must equal `Serde.encode` and `Serde.decode` for every value, including nulls; a test compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow
import pyarrow.compute

from penstock.client.serializers.base import deserialization_failed

if TYPE_CHECKING:
    from penstock.streams.serdes import Serde

_TYPES = {
    str: pyarrow.string(),
    bytes: pyarrow.binary(),
    int: pyarrow.int64(),
    float: pyarrow.float64(),
    bool: pyarrow.bool_(),
    "string": pyarrow.string(),
    "str": pyarrow.string(),
    "int": pyarrow.int64(),
    "int64": pyarrow.int64(),
    "long": pyarrow.int64(),
    "int32": pyarrow.int32(),
    "integer": pyarrow.int32(),
    "int16": pyarrow.int16(),
    "short": pyarrow.int16(),
    "float": pyarrow.float64(),
    "float64": pyarrow.float64(),
    "double": pyarrow.float64(),
    "float32": pyarrow.float32(),
    "boolean": pyarrow.bool_(),
    "bool": pyarrow.bool_(),
}
_BIG_ENDIAN = {
    pyarrow.int64(): ">i8",
    pyarrow.int32(): ">i4",
    pyarrow.int16(): ">i2",
    pyarrow.float64(): ">f8",
    pyarrow.float32(): ">f4",
}


def arrow_type(spec: Any) -> pyarrow.DataType | None:
    try:
        return _TYPES.get(spec)
    except TypeError:  # an unhashable spec is none of these
        return None


def encode(serde: Serde[Any], values: pyarrow.Array | Sequence[Any]) -> pyarrow.Array:
    kind = arrow_type(serde.spec)
    if not isinstance(values, pyarrow.Array):
        return pyarrow.array([serde.encode(value) for value in values], pyarrow.binary())
    if kind is not None and values.type == kind:
        if pyarrow.types.is_string(kind) or pyarrow.types.is_binary(kind):
            return values.cast(pyarrow.binary())
        if kind in _BIG_ENDIAN:
            return _encode_numbers(values, _BIG_ENDIAN[kind])
    return pyarrow.array([serde.encode(value) for value in values.to_pylist()], pyarrow.binary())


def decode(serde: Serde[Any], data: pyarrow.Array) -> pyarrow.Array | list[Any]:
    kind = arrow_type(serde.spec)
    if kind is None:
        return [serde.decode(item) for item in data.to_pylist()]
    if pyarrow.types.is_binary(kind):
        return data
    if pyarrow.types.is_string(kind):
        try:
            return data.cast(kind)
        except pyarrow.ArrowInvalid:
            _name_the_bad_one(serde, data)
            raise
    if kind in _BIG_ENDIAN:
        return _decode_numbers(serde, data, kind)
    return pyarrow.array([serde.decode(item) for item in data.to_pylist()], kind)


def _encode_numbers(values: pyarrow.Array, layout: str) -> pyarrow.Array:
    width = int(layout[2])
    numbers = values.fill_null(0) if values.null_count else values
    swapped = numpy.asarray(numbers).astype(layout)
    # Offsets as if every row had a value. Null rows are masked, so their zeros are never read.
    offsets = numpy.arange(0, (len(values) + 1) * width, width, dtype=numpy.int32)
    column = pyarrow.Array.from_buffers(
        pyarrow.binary(), len(values), [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(swapped)]
    )
    return pyarrow.compute.if_else(values.is_valid(), column, None) if values.null_count else column


def _decode_numbers(serde: Serde[Any], data: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    layout = _BIG_ENDIAN[kind]
    width = int(layout[2])
    lengths = pyarrow.compute.binary_length(data)
    if not pyarrow.compute.all(pyarrow.compute.equal(lengths, width)).as_py() and len(data) > data.null_count:
        _name_the_bad_one(serde, data)
    present = data.drop_null() if data.null_count else data
    joined = present.cast(pyarrow.binary(width))
    numbers = numpy.frombuffer(joined.buffers()[1], layout, len(present), joined.offset * width)
    column = pyarrow.array(numbers.astype(layout.replace(">", "=")), kind)
    if not data.null_count:
        return column
    valid = numpy.asarray(data.is_valid())
    places = numpy.where(valid, numpy.cumsum(valid) - 1, 0)
    return column.take(pyarrow.array(places, mask=~valid)) if len(present) else pyarrow.nulls(len(data), kind)


def _name_the_bad_one(serde: Serde[Any], data: pyarrow.Array) -> None:
    """Decode one value at a time, so that the error shows the value that cannot be decoded."""
    for item in data.to_pylist():
        serde.decode(item)
    raise deserialization_failed(
        ValueError(f"a column cannot be decoded as {serde.name}"), "", b"", is_key=False
    )
