"""Maps Protobuf messages to Spark types, and messages to columns: field by field, over all rows at once.

Enums are strings: the name, or the number if the schema has no name for it. Unsigned numbers become the next larger
type that holds them all. Of Protobuf's well-known types, Timestamp and Duration become Spark's own, wrappers become
nullable values, and Struct, Value and ListValue become JSON. A message without fields is a boolean: present or not.
Every field is nullable, but fields without presence are never null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import attrgetter, methodcaller
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.client.serializers.libraries import need
from penstock.spark.decoding import building
from penstock.spark.errors import BadOption
from penstock.spark.internals import arrow_type_of

Extract = Callable[[Sequence[Any], "pa.Array | None"], pa.Array]
"""From the values of a field over all rows to its column; the mask marks absent ones."""

SCALARS: Final[dict[int, Callable[[], DataType]]] = {
    1: DoubleType,
    2: FloatType,
    3: LongType,  # int64
    4: lambda: DecimalType(20, 0),  # uint64
    5: IntegerType,  # int32
    6: lambda: DecimalType(20, 0),  # fixed64
    7: LongType,  # fixed32
    8: BooleanType,
    9: StringType,
    12: BinaryType,
    13: LongType,  # uint32
    15: IntegerType,  # sfixed32
    16: LongType,  # sfixed64
    17: IntegerType,  # sint32
    18: LongType,  # sint64
}
GROUP, MESSAGE, ENUM = 10, 11, 14
WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
AS_JSON: Final = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))
MICROS = 1_000_000


class Column(NamedTuple):
    data_type: DataType
    extract: Extract


def column_of(descriptor: Any) -> Column:
    """The column of messages of this type."""
    return _message(descriptor, (), descriptor.full_name)


def is_repeated(field: Any) -> bool:
    try:
        return bool(field.is_repeated)
    except AttributeError:  # before protobuf 6.31
        return bool(field.label == 3)


def is_map(field: Any) -> bool:
    return field.type == MESSAGE and is_repeated(field) and bool(field.message_type.GetOptions().map_entry)


def _message(descriptor: Any, inside: tuple[str, ...], place: str) -> Column:
    known = _well_known(descriptor)
    if known is not None:
        return known
    name = descriptor.full_name
    if name in inside:
        raise BadOption(f"{place} is a {name} inside a {name}: Spark has no recursive types")
    if not descriptor.fields:
        return Column(BooleanType(), _presence)
    members = [
        (field.name, _field(field, (*inside, name), f"{place}.{field.name}")) for field in descriptor.fields
    ]
    spark = StructType([StructField(name, data_type) for name, (data_type, _) in members])
    kind = arrow_type_of(spark)
    fields = list(kind)
    takes = [take for _, (_, take) in members]

    def extract(messages: Sequence[Any], mask: pa.Array | None) -> pa.Array:
        return building.struct_of([take(messages) for take in takes], fields, mask, len(messages))

    return Column(spark, extract)


def _field(
    field: Any, inside: tuple[str, ...], place: str
) -> tuple[DataType, Callable[[Sequence[Any]], pa.Array]]:
    """A field's type, and how its column is extracted from messages."""
    get = attrgetter(field.name)
    if is_map(field):
        return _map(field, inside, place, get)
    column = _single(field, inside, place)
    if is_repeated(field):
        spark = ArrayType(column.data_type, containsNull=False)
        kind = arrow_type_of(spark)

        def take_list(messages: Sequence[Any]) -> pa.Array:
            lists = list(map(get, messages))
            items = column.extract(list(chain.from_iterable(lists)), None)
            return building.list_of(lists, items, kind)

        return spark, take_list
    if not field.has_presence:
        return column.data_type, lambda messages: column.extract(list(map(get, messages)), None)
    has = methodcaller("HasField", field.name)

    def take_present(messages: Sequence[Any]) -> pa.Array:
        present = list(map(has, messages))
        mask = None if all(present) else pa.array([not each for each in present])
        return column.extract(list(map(get, messages)), mask)

    return column.data_type, take_present


def _map(
    field: Any, inside: tuple[str, ...], place: str, get: Callable[[Any], Any]
) -> tuple[DataType, Callable[[Sequence[Any]], pa.Array]]:
    entry = field.message_type.fields_by_name
    key = _single(entry["key"], inside, place)
    value = _single(entry["value"], inside, place)
    spark = MapType(key.data_type, value.data_type, valueContainsNull=False)
    kind = arrow_type_of(spark)

    def take(messages: Sequence[Any]) -> pa.Array:
        maps = list(map(get, messages))
        keys = key.extract(list(chain.from_iterable(maps)), None)
        # By key: two iterations over a map of messages may differ in order.
        values = value.extract([each[name] for each in maps for name in each], None)
        return building.map_of(maps, keys, values, kind)

    return spark, take


def _single(field: Any, inside: tuple[str, ...], place: str) -> Column:
    """One value of the field, repeated or not."""
    if field.type in (MESSAGE, GROUP):
        return _message(field.message_type, inside, place)
    if field.type == ENUM:
        names = {value.number: value.name for value in reversed(field.enum_type.values)}
        return _converted(StringType(), lambda number: names.get(number) or str(number))
    spark = SCALARS[field.type]()
    kind = arrow_type_of(spark)
    return Column(spark, lambda values, mask: _masked(pa.array(values, kind), mask))


def _well_known(descriptor: Any) -> Column | None:
    name = descriptor.full_name
    if name == "google.protobuf.Timestamp":
        return _counted(TimestampType(), pa.int64())
    if name == "google.protobuf.Duration":
        return _counted(DayTimeIntervalType(), pa.int64())
    if name in WRAPPERS:
        column = _single(descriptor.fields_by_name["value"], (), name)
        get = attrgetter("value")
        return Column(column.data_type, lambda messages, mask: column.extract(list(map(get, messages)), mask))
    if name in AS_JSON:
        return _converted(StringType(), json_of)
    return None


def json_of(message: Any) -> str:
    json_format = need("google.protobuf.json_format", extra="serializers")
    try:
        text: str = json_format.MessageToJson(message, indent=None)
    except json_format.Error as error:  # numbers that JSON lacks, an unset Value
        raise ValueError(str(error)) from error
    return text


def _counted(spark: DataType, raw: pa.DataType) -> Column:
    """Seconds and nanoseconds as microseconds."""
    kind = arrow_type_of(spark)

    def extract(messages: Sequence[Any], mask: pa.Array | None) -> pa.Array:
        counted = [message.seconds * MICROS + message.nanos // 1000 for message in messages]
        return _masked(pa.array(counted, raw), mask).cast(kind)

    return Column(spark, extract)


def _converted(spark: DataType, convert: Callable[[Any], Any]) -> Column:
    kind = arrow_type_of(spark)
    return Column(spark, lambda values, mask: _masked(pa.array(list(map(convert, values)), kind), mask))


def _presence(messages: Sequence[Any], mask: pa.Array | None) -> pa.Array:
    return _masked(pa.array([True] * len(messages), pa.bool_()), mask)


def _masked(values: pa.Array, mask: pa.Array | None) -> pa.Array:
    if mask is None:
        return values
    return pa.compute.if_else(mask, pa.scalar(None, values.type), values)
