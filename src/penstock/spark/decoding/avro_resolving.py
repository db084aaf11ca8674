"""Values of one Avro schema as another one sees them, a column at a time.

After a writer has moved on to a newer schema a query goes on for days with the one that it began with. So the usual
changes are resolved on columns that were read across: fields that came, went, moved, became nullable or wider, at any
depth. Whatever else has changed is odd, and is resolved row by row by the library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from penstock.spark.decoding.avro_columns import KINDS_OF_LONG
from penstock.spark.decoding.avro_types import Parsed
from penstock.spark.decoding.building import struct_of
from penstock.spark.decoding.lanes import Odd

Resolve = Callable[[pa.Array], pa.Array]

# By the specification; text and bytes are each other's too, but are rarely meant to be.
PROMOTIONS: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
}
WITH_DEFAULTS: Final = ("boolean", "int", "long", "double", "string")  # whose defaults are what JSON has


def resolver_of(writer: Parsed, reader: Parsed, kind: pa.DataType) -> Resolve | None:
    """From columns as the writer's schema has them to columns of `kind`, the reader's; None where it is for rows."""
    try:
        return _Resolving(writer.names, reader.names).resolve(writer.schema, reader.schema, kind)
    except Odd:
        return None


class _Resolving:
    def __init__(self, written: dict[str, Any], read: dict[str, Any]) -> None:
        self._written = written
        self._read = read

    def resolve(self, writer: Any, reader: Any, kind: pa.DataType) -> Resolve:
        writer, may_be_null = _without_null(writer)
        reader, nullable = _without_null(reader)
        resolve = self._present(_named(writer, self._written), _named(reader, self._read), kind)
        if not may_be_null or nullable:
            return resolve

        def refuse_nulls(values: pa.Array) -> pa.Array:
            if values.null_count:
                raise Odd
            return resolve(values)

        return refuse_nulls

    def _present(self, writer: Any, reader: Any, kind: pa.DataType) -> Resolve:
        written, read = _type_of(writer), _type_of(reader)
        if written == read == "record" and writer["name"] == reader["name"]:
            return self._record(writer, reader, kind)
        if written == read == "array":
            items = self.resolve(writer["items"], reader["items"], kind.value_type)
            return lambda values: pa.ListArray.from_arrays(
                _whole(values).offsets, items(values.values), type=kind, mask=_mask(values)
            )
        if written == read == "map":
            items = self.resolve(writer["values"], reader["values"], kind.item_type)
            return lambda values: pa.MapArray.from_arrays(
                _whole(values).offsets, values.keys, items(values.items), type=kind, mask=_mask(values)
            )
        if _meaning(writer) == _meaning(reader):
            return lambda values: values
        if isinstance(writer, str) and isinstance(reader, str) and read in PROMOTIONS.get(written, ()):
            # Large numbers are rounded, as the library does it.
            return lambda values: values.cast(kind, safe=False)
        raise Odd

    def _record(self, writer: Any, reader: Any, kind: pa.StructType) -> Resolve:
        places = {field["name"]: index for index, field in enumerate(writer["fields"])}
        fields = list(kind)
        takes = [
            self._field(each, writer, places, field.type)
            for each, field in zip(reader["fields"], fields, strict=True)
        ]
        return lambda values: struct_of([take(values) for take in takes], fields, _mask(values), len(values))

    def _field(self, field: Any, writer: Any, places: dict[str, int], kind: pa.DataType) -> Resolve:
        if "aliases" in field:
            raise Odd
        index = places.get(field["name"])
        if index is not None:
            resolve = self.resolve(writer["fields"][index]["type"], field["type"], kind)
            return lambda values: resolve(values.field(index))
        read = _type_of(_named(_without_null(field["type"])[0], self._read))
        if "default" not in field or read not in WITH_DEFAULTS:
            raise Odd
        default = pa.array([field["default"]], kind)
        return lambda values: default.take(pa.array([0] * len(values), pa.int32()))


def _without_null(schema: Any) -> tuple[Any, bool]:
    if not isinstance(schema, list):
        return schema, False
    others = [branch for branch in schema if branch != "null"]
    if len(others) == 2 and all(branch in KINDS_OF_LONG for branch in others):
        return "long", len(others) < len(schema)
    if len(others) != 1:
        raise Odd
    return others[0], len(others) < len(schema)


def _named(schema: Any, names: dict[str, Any]) -> Any:
    while isinstance(schema, str) and schema in names:
        schema = names[schema]
    return schema


def _type_of(schema: Any) -> str:
    kind = schema["type"] if isinstance(schema, dict) else schema
    if not isinstance(kind, str):
        raise Odd
    return kind


def _meaning(schema: Any) -> Any:
    """What makes two schemas of one value the same; documentation and the like are left out."""
    if isinstance(schema, str):
        return {"type": schema}
    left_out = ("doc", "aliases", "default", "__fastavro_parsed__", "__named_schemas")
    return {name: value for name, value in schema.items() if name not in left_out}


def _whole(values: pa.Array) -> pa.Array:
    if values.offset:  # of a slice the children would be taken whole
        raise Odd
    return values


def _mask(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None
