"""Maps Avro schemas to Spark types, and values to columns.

The mapping is that of Spark's own Avro functions: enums are strings, a union with null is the nullable type, int
with long is long, and any other union is a struct with a member per branch, of which one is set. Dates and times are
read as numbers and become Arrow values without a Python object for each.
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.client.serializers.libraries import need
from penstock.spark.decoding import building
from penstock.spark.decoding.building import Build
from penstock.spark.errors import BadOption
from penstock.spark.internals import arrow_type_of

PRIMITIVES: Final[dict[str, Callable[[], DataType]]] = {
    "boolean": BooleanType,
    "int": IntegerType,
    "long": LongType,
    "float": FloatType,
    "double": DoubleType,
    "string": StringType,
    "bytes": BinaryType,
}
# The Python type that the library returns for a branch of a union.
PYTHON: Final[dict[str, type]] = {
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "string": str,
    "bytes": bytes,
    "array": list,
    "map": dict,
}
DECIMAL_DIGITS_MAX = 38  # Spark's limit


class Column(NamedTuple):
    """A schema as a column: its type, whether it is nullable, and how it is built."""

    data_type: DataType
    nullable: bool
    build: Build


class Parsed(NamedTuple):
    schema: Any
    names: dict[str, Any]
    """Every record, enum and fixed by its full name."""
    has_unions: bool
    """Whether it contains a union of several types, so that values of named types need their names."""


def parse(texts: Sequence[str], *, keep_logical: bool) -> Parsed:
    """The last text is the schema; the others are those that it refers to."""
    fastavro = need("fastavro", extra="serializers")
    names: dict[str, Any] = {}
    parsed: Any = None
    for text in texts:
        try:
            schema: Any = text.strip()
            if schema[:1] in ("{", "[", '"'):  # otherwise it is a name, such as long
                schema = json.loads(schema)
            parsed = fastavro.parse_schema(schema if keep_logical else _bare(schema), named_schemas=names)
        except Exception as error:  # the library raises several kinds
            raise BadOption(f"not an Avro schema: {error}") from error
    return Parsed(parsed, names, any(map(_has_members, (parsed, *names.values()))))


def column_of(parsed: Parsed) -> Column:
    """The schema as a Spark column."""
    return _Mapping(parsed).column(parsed.schema, "the value")


def _bare(schema: Any) -> Any:
    """The schema without logical types, except decimals, which the library reads well."""
    if isinstance(schema, list):
        return [_bare(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = () if schema.get("logicalType") == "decimal" else ("logicalType",)
    kept = {name: value for name, value in schema.items() if name not in dropped}
    for name in ("type", "items", "values"):
        if isinstance(kept.get(name), (dict, list)):
            kept[name] = _bare(kept[name])
    if isinstance(kept.get("fields"), list):
        kept["fields"] = [{**field, "type": _bare(field["type"])} for field in kept["fields"]]
    return kept


class _Mapping:
    def __init__(self, parsed: Parsed) -> None:
        self._names = parsed.names
        self._has_unions = parsed.has_unions
        self._open: list[str] = []

    def column(self, schema: Any, place: str) -> Column:
        if isinstance(schema, list):
            return self._union(schema, place)
        if isinstance(schema, str) and schema in self._names:
            schema = self._names[schema]
        kind = schema["type"] if isinstance(schema, dict) else schema
        if isinstance(kind, (dict, list)):
            return self.column(kind, place)
        if kind == "record" or kind == "error":
            return self._record(schema, place)
        if kind == "array":
            item = self.column(schema["items"], f"an item of {place}")
            spark_list = ArrayType(item.data_type, item.nullable)
            return Column(spark_list, False, building.sequence(arrow_type_of(spark_list), item.build))
        if kind == "map":
            item = self.column(schema["values"], f"a value of {place}")
            spark_map = MapType(StringType(), item.data_type, item.nullable)
            keys = building.leaf(pa.string())
            return Column(spark_map, False, building.mapping(arrow_type_of(spark_map), keys, item.build))
        logical = schema.get("logicalType") if isinstance(schema, dict) else None
        return self._leaf(kind, logical, schema, place)

    def _record(self, schema: Any, place: str) -> Column:
        name = schema["name"]
        if name in self._open:
            raise BadOption(f"{place} is a {name} inside a {name}: Spark has no recursive types")
        self._open.append(name)
        columns = [(field["name"], self.column(field["type"], field["name"])) for field in schema["fields"]]
        self._open.pop()
        fields = [StructField(name, column.data_type, column.nullable) for name, column in columns]
        spark = StructType(fields)
        return Column(
            spark, False, building.struct(arrow_type_of(spark), [column.build for _, column in columns])
        )

    def _leaf(self, kind: str, logical: str | None, schema: Any, place: str) -> Column:
        if logical == "decimal" and kind in ("bytes", "fixed"):
            precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
            if precision > DECIMAL_DIGITS_MAX:
                raise BadOption(
                    f"{place} is a decimal of {precision} digits; Spark has at most {DECIMAL_DIGITS_MAX}"
                )
            return _plain(DecimalType(precision, scale))
        if logical == "date" and kind == "int":
            return Column(DateType(), False, building.by_cast(pa.int32(), pa.date32()))
        if kind == "long" and logical in ("timestamp-millis", "local-timestamp-millis"):
            spark = TimestampType() if logical.startswith("time") else TimestampNTZType()
            return Column(spark, False, building.milliseconds(arrow_type_of(spark)))
        if kind == "long" and logical in ("timestamp-micros", "local-timestamp-micros"):
            spark = TimestampType() if logical.startswith("time") else TimestampNTZType()
            return Column(spark, False, building.by_cast(pa.int64(), arrow_type_of(spark)))
        if kind == "enum":
            return _plain(StringType())
        if kind == "fixed":
            return _plain(BinaryType())
        if kind in PRIMITIVES:
            return _plain(PRIMITIVES[kind]())
        raise BadOption(f"{place} is {kind}, for which Spark has no type")

    def _union(self, branches: list[Any], place: str) -> Column:
        others = _others(branches)
        nullable = "null" in branches
        if not others:
            raise BadOption(f"{place} is always null, for which Spark has no type")
        if len(others) > 1:
            return self._members(others, place)._replace(nullable=nullable)
        column = self.column(others[0], place)
        if self._has_unions and self._name_of(others[0]):
            column = column._replace(build=building.converted(_without_name, column.build))
        return column._replace(nullable=nullable)

    def _name_of(self, schema: Any) -> str | None:
        schema = self._names.get(schema) if isinstance(schema, str) else schema
        name: str | None = schema.get("name") if isinstance(schema, dict) else None
        return name

    def _members(self, branches: list[Any], place: str) -> Column:
        """A struct with a member per branch; the value is in the member of its branch."""
        columns = [self.column(branch, f"branch {index} of {place}") for index, branch in enumerate(branches)]
        fields = [StructField(f"member{index}", column.data_type) for index, column in enumerate(columns)]
        spark = StructType(fields)
        build = building.struct(arrow_type_of(spark), [column.build for column in columns])
        member_of = self._chooser(branches, place)
        return Column(spark, False, building.converted(member_of, build))

    def _chooser(self, branches: list[Any], place: str) -> Callable[[Any], dict[str, Any]]:
        """Chooses the member for a value of the library. Values of named types come with their names."""
        by_name: dict[str, str] = {}
        by_type: dict[type, str] = {}
        for index, branch in enumerate(branches):
            name = self._name_of(branch)
            if name is not None:
                by_name[name] = f"member{index}"
                continue
            kind = branch["type"] if isinstance(branch, dict) else branch
            is_decimal = isinstance(branch, dict) and branch.get("logicalType") == "decimal"
            python = decimal.Decimal if is_decimal else PYTHON[kind]
            if by_type.setdefault(python, f"member{index}") != f"member{index}":
                raise BadOption(
                    f"{place} is a union in which {kind} cannot be distinguished from another branch"
                )

        def choose(value: Any) -> dict[str, Any]:
            if isinstance(value, tuple):
                name, bare = value
                return {by_name[name]: bare}
            return {by_type[type(value)]: value}

        return choose


def _plain(data_type: DataType) -> Column:
    return Column(data_type, False, building.leaf(arrow_type_of(data_type)))


def _without_name(value: Any) -> Any:
    return value[1] if isinstance(value, tuple) else value


def _others(branches: list[Any]) -> list[Any]:
    """The branches without null; int and long count as one, and so do float and double."""
    others = [branch for branch in branches if branch != "null"]
    for pair in (["int", "long"], ["float", "double"]):
        if len(others) == 2 and all(each in others for each in pair):
            return pair[1:]
    return others


def _has_members(schema: Any) -> bool:
    if isinstance(schema, list):
        return len(_others(schema)) > 1 or any(map(_has_members, schema))
    if not isinstance(schema, dict):
        return False
    inner = [schema.get(name) for name in ("type", "items", "values")]
    return any(map(_has_members, (*inner, *(field["type"] for field in schema.get("fields", ())))))
