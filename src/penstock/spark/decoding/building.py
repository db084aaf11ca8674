"""Builds Arrow arrays from Python values, a column at a time.

Arrow can convert nested dicts by itself, but visits them value by value. Taking each field out of all rows first and
building flat arrays is four times as fast (1.5 M rows/s against 0.34 M, seven fields), and builds a leaf from the
format's own representation (days, milliseconds, text) without a Python object for each date.

Each function here returns a `Build`. A None among structs, lists or maps becomes an Arrow null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

Build = Callable[[list[Any]], pa.Array]
"""From the Python values of one column, None for null, to an Arrow array."""
EMPTY: dict[str, Any] = {}
UNBUILDABLE: Final = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""What building raises for a value that its column cannot hold."""


def leaf(kind: pa.DataType) -> Build:
    """Values that Arrow converts by itself."""
    return lambda values: pa.array(values, kind)


def by_cast(raw: pa.DataType, kind: pa.DataType) -> Build:
    """Numbers in the unit of the type: days, or microseconds."""
    return lambda values: pa.array(values, raw).cast(kind)


def milliseconds(kind: pa.DataType) -> Build:
    """Milliseconds as a timestamp in microseconds; an overflow raises."""
    return lambda values: pc.multiply_checked(pa.array(values, pa.int64()), 1000).cast(kind)


def converted(convert: Callable[[Any], Any], build: Build) -> Build:
    """Values that Python converts first; `convert` never gets None."""
    return lambda values: build([None if value is None else convert(value) for value in values])


def struct(kind: pa.StructType, builds: Sequence[Build]) -> Build:
    """Dicts, in which a field may be missing."""
    fields = [kind.field(index) for index in range(kind.num_fields)]
    plan = [(field.name, itemgetter(field.name), build) for field, build in zip(fields, builds, strict=True)]

    def build(values: list[Any]) -> pa.Array:
        mask = None
        if None in values:
            mask = pa.array([value is None for value in values])
            values = [EMPTY if value is None else value for value in values]
        columns = []
        for name, take, build_field in plan:
            try:
                column = list(map(take, values))
            except KeyError:
                column = [value.get(name) for value in values]
            try:
                columns.append(build_field(column))
            except UNBUILDABLE as error:
                raise ValueError(f"{name}: {error}") from error
        return struct_of(columns, fields, mask, len(values))

    return build


def struct_of(
    columns: list[pa.Array], fields: list[pa.Field], mask: pa.Array | None, length: int
) -> pa.Array:
    if not fields:  # Arrow cannot know the length of a struct without columns
        return pa.array([EMPTY] * length, pa.struct([]), mask=None if mask is None else mask.to_numpy(False))
    return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)


def sequence(kind: pa.ListType, build_items: Build) -> Build:
    def build(values: list[Any]) -> pa.Array:
        items = build_items(list(chain.from_iterable(value for value in values if value is not None)))
        return list_of(values, items, kind)

    return build


def list_of(values: Sequence[Any], items: pa.Array, kind: pa.ListType) -> pa.Array:
    """A column of lists whose items are already built; `values` gives their lengths."""
    return pa.ListArray.from_arrays(_offsets(values), items, type=kind, mask=_missing(values))


def mapping(kind: pa.MapType, build_keys: Build, build_items: Build) -> Build:
    def build(values: list[Any]) -> pa.Array:
        present = [value for value in values if value is not None]
        keys = build_keys(list(chain.from_iterable(present)))
        items = build_items(list(chain.from_iterable(value.values() for value in present)))
        return map_of(values, keys, items, kind)

    return build


def map_of(values: Sequence[Any], keys: pa.Array, items: pa.Array, kind: pa.MapType) -> pa.Array:
    return pa.MapArray.from_arrays(_offsets(values), keys, items, type=kind, mask=_missing(values))


def _offsets(values: Sequence[Any]) -> pa.Array:
    lengths = (0 if value is None else len(value) for value in values)
    return pa.array(accumulate(lengths, initial=0), pa.int32())


def _missing(values: Sequence[Any]) -> pa.Array | None:
    missing = [value is None for value in values]
    return pa.array(missing) if any(missing) else None
