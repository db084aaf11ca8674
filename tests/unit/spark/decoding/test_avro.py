"""Avro: columns have the values that fastavro wrote, and damage affects only its row."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import pickle
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.registry import RegistryInMemory
from penstock.client.errors import RegistryError
from penstock.client.serializers import AvroSerializer, Reference, Registry, Schema
from penstock.spark.decoding.avro import AvroDecoder, RegisteredAvroDecoder
from penstock.spark.decoding.framing import RegistryAt
from penstock.spark.errors import BadOption

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "weight", "type": ["float", "null"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "on", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "seen", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "number", "type": {"type": "string", "logicalType": "uuid"}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [
                        {"name": "article", "type": "string"},
                        {"name": "count", "type": ["int", "long"]},
                    ],
                },
            },
        },
        {"name": "notes", "type": {"type": "map", "values": ["null", "Line"]}},
    ],
}
UTC_TIMES = st.datetimes(
    datetime.datetime(1700, 1, 1), datetime.datetime(2300, 1, 1), timezones=st.just(datetime.UTC)
)
LINES = st.fixed_dictionaries({"article": st.text(max_size=5), "count": st.integers(0, 2**40)})
ORDERS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "name": st.none() | st.text(max_size=5),
        "weight": st.none() | st.floats(width=32, allow_nan=False),
        "price": st.decimals(-9999, 9999, places=2),
        "state": st.sampled_from(["NEW", "PAID"]),
        "hash": st.binary(min_size=4, max_size=4),
        "on": st.dates(),
        "at": UTC_TIMES.map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)),
        "seen": st.none() | UTC_TIMES,
        "local": st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2300, 1, 1)),
        "number": st.uuids().map(str),
        "lines": st.lists(LINES, max_size=3),
        "notes": st.dictionaries(st.text(max_size=3), st.none() | LINES, max_size=2),
    }
)


def write(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def column(*values: bytes | None) -> pa.Array:
    return pa.array(list(values), pa.binary())


def decoder_of(schema: Any) -> AvroDecoder:
    return AvroDecoder.of((json.dumps(schema),))


def as_python(value: Any) -> Any:
    """As Arrow returns it: maps are lists of pairs."""
    return {**value, "notes": list(value["notes"].items())}


@settings(deadline=None, max_examples=30)
@given(st.lists(st.none() | ORDERS, max_size=5))
def test_a_column_has_the_written_values(orders: list[dict[str, Any] | None]) -> None:
    decoder = decoder_of(SCHEMA)

    values = [None if order is None else write(SCHEMA, order) for order in orders]
    decoded = decoder.decode(column(*values))
    slowly = decoder.decode(column(*values, b"?"))

    assert decoded.bad == []
    assert [bad.row for bad in slowly.bad] == [len(orders)]
    assert decoded.values.equals(slowly.values[:-1])
    assert decoded.values.type == decoder.arrow_type
    assert decoded.values.to_pylist() == [None if order is None else as_python(order) for order in orders]


@settings(deadline=None, max_examples=30)
@given(st.lists(ORDERS, min_size=1, max_size=4), st.data())
def test_a_damaged_value_affects_only_its_row(orders: list[dict[str, Any]], data: st.DataObject) -> None:
    values = [write(SCHEMA, order) for order in orders]
    row = data.draw(st.integers(0, len(values) - 1))
    damaged = bytearray(values[row])
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    values[row] = bytes(damaged)[: data.draw(st.integers(0, len(damaged)))]

    decoded = decoder_of(SCHEMA).decode(column(*values))

    assert {bad.row for bad in decoded.bad} <= {row}
    decoded.values.validate(full=True)
    for index, order in enumerate(orders):
        if index != row:
            assert decoded.values[index].as_py() == as_python(order)


@settings(deadline=None, max_examples=100)
@given(ORDERS, st.data())
def test_columns_and_rows_are_read_alike(order: dict[str, Any], data: st.DataObject) -> None:
    value = bytearray(write(SCHEMA, order))
    for _ in range(data.draw(st.integers(1, 3))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))

    across = decoder_of(SCHEMA).decode(column(bytes(value)))
    alone = decoder_of(SCHEMA).decode(column(bytes(value), b"?"))

    across.values.validate(full=True)
    assert across.values.to_string() == alone.values[:1].to_string()  # not every number is a Python date
    assert across.bad == alone.bad[:-1]


def test_numbers_of_all_sizes_are_read_by_columns() -> None:
    numbers = [0, -1, 63, -64, 64, 2**31, -(2**31) - 1, 2**62, 2**63 - 1, -(2**63)]
    schema = {"type": "array", "items": "long"}

    decoded = decoder_of(schema).decode(
        column(*(write(schema, numbers[:count]) for count in range(len(numbers) + 1)))
    )

    assert decoded.bad == []
    assert decoded.values.to_pylist() == [numbers[:count] for count in range(len(numbers) + 1)]


def test_long_arrays_and_blocks_with_sizes_are_read() -> None:
    schema = {"type": "array", "items": "int"}
    blocks = b"\x03\x04\x02\x04" + b"\x02\x06" + b"\x00"  # two items with a size before them, then one

    decoded = decoder_of(schema).decode(column(blocks, write(schema, list(range(1000)))))

    assert decoded.bad == []
    assert decoded.values.to_pylist() == [[1, 2, 3], list(range(1000))]
    assert decoder_of(schema).decode(column(blocks)).values.to_pylist() == [[1, 2, 3]]


def test_a_duplicate_key_of_a_map_counts_once() -> None:
    schema = {"type": "map", "values": "int"}

    decoded = decoder_of(schema).decode(column(b"\x04\x02a\x02\x02a\x04\x00"))

    assert decoded.values.to_pylist() == [[("a", 2)]]


def test_spark_sees_the_types_of_its_own_avro_functions() -> None:
    assert decoder_of(SCHEMA).data_type.simpleString() == (
        "struct<id:bigint,name:string,weight:float,price:decimal(9,2),state:string,hash:binary,on:date,at:timestamp,"
        "seen:timestamp,local:timestamp_ntz,number:string,lines:array<struct<article:string,count:bigint>>,"
        "notes:map<string,struct<article:string,count:bigint>>>"
    )


def test_a_union_of_several_types_has_a_member_for_each() -> None:
    line = SCHEMA["fields"][11]["type"]["items"]
    schema = {"type": "record", "name": "Any", "fields": [
        {"name": "what", "type": ["null", "int", "string", line, {"type": "enum", "name": "E", "symbols": ["A"]}]},
        {"name": "line", "type": ["null", "Line"]},
    ]}  # fmt: skip
    given = [None, 7, "seven", {"article": "x", "count": 1}, ("E", "A")]

    decoded = decoder_of(schema).decode(
        column(*(write(schema, {"what": each, "line": None}) for each in given))
    )

    assert decoded.bad == []
    members = [row["what"] and list(row["what"].values()) for row in decoded.values.to_pylist()]
    assert members == [
        None,
        [7, None, None, None],
        [None, "seven", None, None],
        [None, None, {"article": "x", "count": 1}, None],
        [None, None, None, "A"],
    ]


def test_a_value_need_not_be_a_record() -> None:
    assert decoder_of("long").decode(column(write("long", 7))).values.to_pylist() == [7]


def test_a_value_that_its_type_cannot_hold_is_bad() -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    wide = {**schema, "precision": 9}
    values = [write(wide, decimal.Decimal("1.25")), write(wide, decimal.Decimal("123456.25"))]

    decoded = decoder_of(schema).decode(column(*values))

    assert decoded.values.to_pylist() == [decimal.Decimal("1.25"), None]
    assert [bad.row for bad in decoded.bad] == [1]


def test_bytes_left_over_are_bad() -> None:
    decoded = decoder_of("long").decode(column(write("long", 7) + b"x"))

    assert "1 bytes are left" in decoded.bad[0].reason


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]},
            "recursive",
        ),
        ("null", "null, for which Spark has no type"),
        ({"type": "nonsense"}, "not an Avro schema"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 60}, "60 digits"),
        (["int", "long", "string"], "cannot be distinguished"),
    ],
)
def test_a_schema_without_a_spark_type_is_rejected(schema: Any, message: str) -> None:
    with pytest.raises(BadOption) as caught:
        decoder_of(schema)

    assert message in str(caught.value)


def record(*fields: dict[str, str]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


ID = {"name": "id", "type": "int"}
ONE = record(ID, {"name": "old", "type": "string", "default": "-"})
TWO = record(ID, {"name": "new", "type": "double"})
BAD = record({"name": "id", "type": "string"})


LINE_THEN = record({"name": "n", "type": "int"}, {"name": "gone", "type": "string"})
LINE_NOW = record({"name": "n", "type": ["null", "long"]}, {"name": "new", "type": "double", "default": 0.5})
KINDS = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
THEN = {"type": "record", "name": "Order", "fields": [
    {"name": "gone", "type": {"type": "array", "items": "string"}},
    {"name": "lines", "type": {"type": "array", "items": LINE_THEN}},
    {"name": "by_name", "type": ["null", {"type": "map", "values": ["null", "R"]}]},
    {"name": "count", "type": "int"},
    {"name": "kind", "type": KINDS},
    {"name": "strict", "type": ["null", "long"]},
]}  # fmt: skip
NOW = {"type": "record", "name": "Order", "fields": [
    {"name": "count", "type": "double"},
    {"name": "lines", "type": {"type": "array", "items": LINE_NOW}},
    {"name": "by_name", "type": ["null", {"type": "map", "values": ["null", "R"]}], "doc": "said later"},
    {"name": "note", "type": ["null", "string"], "default": None},
    {"name": "state", "type": "string", "default": "new"},
    {"name": "kind", "type": ["null", KINDS]},
    {"name": "strict", "type": "long"},
]}  # fmt: skip
OLD_LINES = st.fixed_dictionaries({"n": st.integers(0, 9), "gone": st.text(max_size=2)})
OLD_ORDERS = st.fixed_dictionaries(
    {
        "gone": st.lists(st.text(max_size=2), max_size=2),
        "lines": st.lists(OLD_LINES, max_size=3),
        "by_name": st.none() | st.dictionaries(st.text(max_size=2), st.none() | OLD_LINES, max_size=2),
        "count": st.integers(-5, 5),
        "kind": st.sampled_from(["A", "B"]),
        "strict": st.integers(0, 9) | st.none(),
    }
)


@settings(deadline=None, max_examples=60)
@given(st.lists(OLD_ORDERS, min_size=1, max_size=4))
def test_columns_and_rows_are_resolved_alike(orders: list[dict[str, Any]]) -> None:
    decoder = AvroDecoder(decoder_of(NOW).data_type, (json.dumps(NOW),), (json.dumps(THEN),))
    values = [write(THEN, order) for order in orders]
    assert decoder._read_column is not None

    across = decoder.decode(column(*values))
    alone = decoder.decode(column(*values, b"?"))

    across.values.validate(full=True)
    assert across.values.type == decoder.arrow_type
    assert across.values.to_pylist() == alone.values.to_pylist()[:-1]
    assert across.bad == alone.bad[:-1]
    assert [bad.row for bad in across.bad] == [
        row for row, order in enumerate(orders) if order["strict"] is None
    ]


class TestWithARegistry:
    @staticmethod
    def write(registry: RegistryInMemory, schema: Any, value: Any) -> bytes:
        return AvroSerializer(registry.url, schema).for_topic("t", is_key=False)(value)  # type: ignore[no-any-return]

    def test_values_of_other_schemas_are_resolved(self, registry: RegistryInMemory) -> None:
        decoder = RegisteredAvroDecoder.of(RegistryAt(registry.url), (json.dumps(ONE),))
        values = [
            self.write(registry, ONE, {"id": 1, "old": "a"}),
            self.write(registry, TWO, {"id": 2, "new": 0.5}),
            self.write(registry, BAD, {"id": "three"}),
            None,
            self.write(registry, ONE, {"id": 5, "old": "e"}),
        ]

        decoded = pickle.loads(pickle.dumps(decoder)).decode(column(*values))

        assert decoded.values.to_pylist() == [
            {"id": 1, "old": "a"},
            {"id": 2, "old": "-"},
            None,
            None,
            {"id": 5, "old": "e"},
        ]
        assert [bad.row for bad in decoded.bad] == [2]
        assert "written with schema 3, read with the query's schema" in decoded.bad[0].reason

    def test_values_without_a_schema_id_are_bad(self, registry: RegistryInMemory) -> None:
        decoder = RegisteredAvroDecoder.of(RegistryAt(registry.url), ('"long"',))
        good = self.write(registry, "long", 7)

        decoded = decoder.decode(column(b"", b"\1234567", good, b"\0\0\0\0\x63\x01"))

        assert decoded.values.to_pylist() == [None, None, 7, None]
        assert [bad.row for bad in decoded.bad] == [0, 1, 3]
        assert "too few" in decoded.bad[0].reason
        assert "the first byte is 83" in decoded.bad[1].reason
        assert "schema 99 is not in the registry" in decoded.bad[2].reason

    def test_an_unavailable_registry_fails_the_task_and_not_the_records(self) -> None:
        decoder = RegisteredAvroDecoder.of(RegistryAt("http://127.0.0.1:1"), ('"long"',))

        with pytest.raises(RegistryError, match="no schema registry answers"):
            decoder.decode(column(b"\0\0\0\0\1\2"))

    def test_schemas_may_refer_to_others(self, registry: RegistryInMemory) -> None:
        client = Registry(registry.url)
        line = {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "int"}]}
        client.register("line", Schema(json.dumps(line)))
        whole = Schema(
            json.dumps(record({"name": "line", "type": "Line"})), references=(Reference("Line", "line", 1),)
        )
        written = AvroSerializer(registry.url, whole).for_topic("t", is_key=False)({"line": {"n": 1}})
        decoder = RegisteredAvroDecoder.of(RegistryAt(registry.url), (json.dumps(line), whole.text))

        assert decoder.decode(column(written)).values.to_pylist() == [{"line": {"n": 1}}]
