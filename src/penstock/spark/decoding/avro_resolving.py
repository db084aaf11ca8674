"""Resolves columns of one Avro schema to another.

After writers move to a newer schema, a query continues for days with its own. So the usual changes are resolved on
whole columns: fields that were added, removed, reordered, made nullable or widened, at any depth. All other changes
are resolved row by row by the library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from penstock.spark.decoding.avro_columns import KINDS_OF_LONG
from penstock.spark.decoding.avro_types import Parsed
from penstock.spark.decoding.building import struct_of
from penstock.spark.decoding.lanes import NotColumnar

Resolve = Callable[[pa.Array], pa.Array]

# By the specification, except between text and bytes, which are rarely meant to be exchanged.
PROMOTIONS: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
}
WITH_DEFAULTS: Final = ("boolean", "int", "long", "double", "string")  # their defaults are plain JSON values


def resolver_of(writer: Parsed, reader: Parsed, kind: pa.DataType) -> Resolve | None:
    """From columns of the writer's schema to columns of `kind`, the reader's; None if rows have to be resolved one
    by one."""
    try:
        return _Resolving(writer.names, reader.names).resolve(writer.schema, reader.schema, kind)
    except NotColumnar:
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
                raise NotColumnar
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
            # Large numbers are rounded, as by the library.
            return lambda values: values.cast(kind, safe=False)
        raise NotColumnar

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
            raise NotColumnar
        index = places.get(field["name"])
        if index is not None:
            resolve = self.resolve(writer["fields"][index]["type"], field["type"], kind)
            return lambda values: resolve(values.field(index))
        read = _type_of(_named(_without_null(field["type"])[0], self._read))
        if "default" not in field or read not in WITH_DEFAULTS:
            raise NotColumnar
        default = pa.array([field["default"]], kind)
        return lambda values: default.take(pa.array([0] * len(values), pa.int32()))


def _without_null(schema: Any) -> tuple[Any, bool]:
    if not isinstance(schema, list):
        return schema, False
    others = [branch for branch in schema if branch != "null"]
    if len(others) == 2 and all(branch in KINDS_OF_LONG for branch in others):
        return "long", len(others) < len(schema)
    if len(others) != 1:
        raise NotColumnar
    return others[0], len(others) < len(schema)


def _named(schema: Any, names: dict[str, Any]) -> Any:
    while isinstance(schema, str) and schema in names:
        schema = names[schema]
    return schema


def _type_of(schema: Any) -> str:
    kind = schema["type"] if isinstance(schema, dict) else schema
    if not isinstance(kind, str):
        raise NotColumnar
    return kind


def _meaning(schema: Any) -> Any:
    """The parts of a schema that affect values; two schemas that differ only in others, such as `doc`, are equal."""
    if isinstance(schema, str):
        return {"type": schema}
    left_out = ("doc", "aliases", "default", "__fastavro_parsed__", "__named_schemas")
    return {name: value for name, value in schema.items() if name not in left_out}


def _whole(values: pa.Array) -> pa.Array:
    if values.offset:  # the children of a slice are not sliced
        raise NotColumnar
    return values


def _mask(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None
