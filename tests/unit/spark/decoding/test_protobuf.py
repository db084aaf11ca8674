"""Protobuf: messages as columns, compared with the library."""

from __future__ import annotations

import base64
import datetime
import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    json_format,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.registry import RegistryInMemory
from penstock.client.serializers import ProtobufSerializer
from penstock.spark.decoding.framing import RegistryAt
from penstock.spark.decoding.protobuf import ProtobufDecoder, RegisteredProtobufDecoder
from penstock.spark.decoding.protobuf_schemas import Files, files_in, files_of
from penstock.spark.errors import BadOption

Field = descriptor_pb2.FieldDescriptorProto
ONE, MANY = Field.LABEL_OPTIONAL, Field.LABEL_REPEATED
WELL_KNOWN = [timestamp_pb2, duration_pb2, wrappers_pb2, struct_pb2, empty_pb2]


def order_file(**changes: Any) -> descriptor_pb2.FileDescriptorProto:
    """shop.Order with a field of every kind; a field whose name is in `changes` has another type."""
    file = descriptor_pb2.FileDescriptorProto(
        name="order.proto",
        package="shop",
        syntax="proto3",
        dependency=[module.DESCRIPTOR.name for module in WELL_KNOWN],
    )
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    order = file.message_type.add(name="Order")
    line = file.message_type.add(name="Line")
    line.field.add(name="article", number=1, type=Field.TYPE_STRING, label=ONE)
    line.field.add(name="count", number=2, type=Field.TYPE_UINT32, label=ONE)
    for name, value in (("Notes", Field.TYPE_SINT64), ("Parts", Field.TYPE_MESSAGE)):
        entry = order.nested_type.add(name=f"{name}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=Field.TYPE_STRING, label=ONE)
        kind = {"type_name": ".shop.Line"} if value == Field.TYPE_MESSAGE else {}
        entry.field.add(name="value", number=2, type=value, label=ONE, **kind)  # type: ignore[arg-type]
    order.oneof_decl.add(name="pay")
    order.oneof_decl.add(name="_note")
    google = ".google.protobuf."
    fields: list[tuple[str, int, int, dict[str, Any]]] = [
        ("id", Field.TYPE_INT64, ONE, {}),
        ("name", Field.TYPE_STRING, ONE, {}),
        ("big", Field.TYPE_UINT64, ONE, {}),
        ("raw", Field.TYPE_BYTES, ONE, {}),
        ("weight", Field.TYPE_FLOAT, ONE, {}),
        ("state", Field.TYPE_ENUM, ONE, {"type_name": ".shop.State"}),
        ("note", Field.TYPE_STRING, ONE, {"proto3_optional": True, "oneof_index": 1}),
        ("cash", Field.TYPE_BOOL, ONE, {"oneof_index": 0}),
        ("card", Field.TYPE_STRING, ONE, {"oneof_index": 0}),
        ("line", Field.TYPE_MESSAGE, ONE, {"type_name": ".shop.Line"}),
        ("lines", Field.TYPE_MESSAGE, MANY, {"type_name": ".shop.Line"}),
        ("counts", Field.TYPE_INT32, MANY, {}),
        ("notes", Field.TYPE_MESSAGE, MANY, {"type_name": ".shop.Order.NotesEntry"}),
        ("parts", Field.TYPE_MESSAGE, MANY, {"type_name": ".shop.Order.PartsEntry"}),
        ("at", Field.TYPE_MESSAGE, ONE, {"type_name": google + "Timestamp"}),
        ("took", Field.TYPE_MESSAGE, ONE, {"type_name": google + "Duration"}),
        ("maybe", Field.TYPE_MESSAGE, ONE, {"type_name": google + "Int32Value"}),
        ("free", Field.TYPE_MESSAGE, ONE, {"type_name": google + "Struct"}),
        ("done", Field.TYPE_MESSAGE, ONE, {"type_name": google + "Empty"}),
    ]
    for number, (name, kind, label, more) in enumerate(fields, 1):
        order.field.add(name=name, number=number, type=changes.get(name, kind), label=label, **more)
    return file


def class_of(file: descriptor_pb2.FileDescriptorProto, name: str = "shop.Order") -> Any:
    pool = descriptor_pool.DescriptorPool()
    for module in WELL_KNOWN:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


Order = class_of(order_file())
SCHEMA = files_of(Order.DESCRIPTOR)
INT32 = st.integers(-(2**31), 2**31 - 1)
LINES = st.fixed_dictionaries({"article": st.text(max_size=4), "count": st.integers(0, 2**32 - 1)})
ORDERS = st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers(-(2**63), 2**63 - 1),
        "name": st.text(max_size=4),
        "big": st.integers(0, 2**64 - 1),
        "raw": st.binary(max_size=4),
        "weight": st.floats(width=32, allow_nan=False),
        "state": st.sampled_from([0, 1, 7]),
        "note": st.text(max_size=4),
        "line": LINES,
        "lines": st.lists(LINES, max_size=3),
        "counts": st.lists(INT32, max_size=3),
        "notes": st.dictionaries(st.text(max_size=2), st.integers(-(2**63), 2**63 - 1), max_size=2),
        "parts": st.dictionaries(st.text(max_size=2), LINES, max_size=2),
        "maybe": st.builds(dict, value=INT32),
    },
)


def column(*values: bytes | None) -> pa.Array:
    return pa.array(list(values), pa.binary())


def seen(order: dict[str, Any]) -> dict[str, Any]:
    """A message as the column has it."""
    plain = {"id": 0, "name": "", "big": 0, "raw": b"", "weight": 0.0, "lines": [], "counts": []}
    return {
        **plain,
        **dict.fromkeys(("note", "cash", "card", "line", "at", "took", "free", "done")),
        **order,
        "state": {0: "NEW", 1: "PAID", 7: "7"}[order.get("state", 0)],
        "maybe": order["maybe"]["value"] if "maybe" in order else None,
        "notes": sorted(order.get("notes", {}).items()),
        "parts": sorted(order.get("parts", {}).items()),
    }


def sorted_maps(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "notes": sorted(row["notes"]), "parts": sorted(row["parts"])}


@settings(deadline=None, max_examples=50)
@given(st.lists(ORDERS, max_size=4))
def test_a_column_has_the_written_values(orders: list[dict[str, Any]]) -> None:
    decoder = ProtobufDecoder.of(SCHEMA)

    decoded = decoder.decode(column(*(Order(**order).SerializeToString() for order in orders)))

    assert decoded.bad == []
    assert decoded.values.type == decoder.arrow_type
    decoded.values.validate(full=True)
    assert [sorted_maps(row) for row in decoded.values.to_pylist()] == [seen(order) for order in orders]


@settings(deadline=None, max_examples=50)
@given(st.lists(ORDERS, min_size=2, max_size=4), st.binary(max_size=30))
def test_a_damaged_value_affects_only_its_row(orders: list[dict[str, Any]], noise: bytes) -> None:
    values = [Order(**order).SerializeToString() for order in orders]

    decoded = ProtobufDecoder.of(SCHEMA).decode(column(noise, *values[1:]))

    assert {bad.row for bad in decoded.bad} <= {0}
    decoded.values.validate(full=True)
    assert [sorted_maps(row) for row in decoded.values.to_pylist()[1:]] == [
        seen(order) for order in orders[1:]
    ]


def test_well_known_types_become_spark_types() -> None:
    order = Order(cash=True, done={})
    order.at.seconds, order.at.nanos = -1, 500_000_999
    order.took.seconds = 90
    json_format.ParseDict({"a": [1, None, {"b": "c"}]}, order.free)

    row = ProtobufDecoder.of(SCHEMA).decode(column(order.SerializeToString())).values[0].as_py()

    assert row["at"] == datetime.datetime(1969, 12, 31, 23, 59, 59, 500_000, datetime.UTC)
    assert row["took"] == datetime.timedelta(seconds=90)
    assert json.loads(row["free"]) == {"a": [1, None, {"b": "c"}]}
    assert (row["cash"], row["card"], row["done"], row["maybe"]) == (True, None, True, None)


def test_a_bad_row_names_the_message() -> None:
    decoded = ProtobufDecoder.of(SCHEMA).decode(column(b"\xff\xff", None))

    assert decoded.values.to_pylist() == [None, None]
    assert "the bytes are not a shop.Order" in decoded.bad[0].reason


class TestSchemas:
    def test_a_descriptor_set_is_given_as_base64_or_by_path(self, tmp_path: Path) -> None:
        whole = descriptor_pb2.FileDescriptorSet(file=[order_file()]).SerializeToString()
        (tmp_path / "order.desc").write_bytes(whole)

        by_text = files_in(base64.b64encode(whole).decode(), "shop.Line")
        by_path = files_in(str(tmp_path / "order.desc"), "shop.Line")

        assert by_text == by_path
        assert ProtobufDecoder.of(by_text).data_type.simpleString() == "struct<article:string,count:bigint>"

    @pytest.mark.parametrize(
        ("text", "message", "error"),
        [
            ("/nowhere/order.desc", None, "neither base64 nor a readable file"),
            ("syntax = 'proto3';", None, "protoc --include_imports"),
            ("aGVsbG8gd29ybGQ=", None, "not a FileDescriptorSet"),
            ("", None, "is empty"),
            ("ORDER", None, "name the message, one of: shop.Order, shop.Line"),
            ("ORDER", "shop.Nothing", "no message shop.Nothing"),
        ],
    )
    def test_bad_schemas_are_rejected_with_a_helpful_error(
        self, text: str, message: str | None, error: str
    ) -> None:
        whole = descriptor_pb2.FileDescriptorSet(file=[order_file()]).SerializeToString()
        with pytest.raises(BadOption) as caught:
            files_in(base64.b64encode(whole).decode() if text == "ORDER" else text, message)

        assert error in str(caught.value)

    def test_a_recursive_message_is_rejected(self) -> None:
        file = descriptor_pb2.FileDescriptorProto(name="n.proto", syntax="proto3")
        node = file.message_type.add(name="Node")
        node.field.add(name="next", number=1, type=Field.TYPE_MESSAGE, type_name=".Node", label=ONE)

        with pytest.raises(BadOption, match="recursive types"):
            ProtobufDecoder.of(files_of(class_of(file, "Node").DESCRIPTOR))


class TestWithARegistry:
    @staticmethod
    def write(registry: RegistryInMemory, message: Any, subject: str = "topic") -> bytes:
        serializer = ProtobufSerializer(registry.url, type(message), subject=subject)
        return serializer.for_topic("orders", is_key=False)(message)  # type: ignore[no-any-return]

    def test_the_latest_schema_is_fixed_and_reads_newer_values(self, registry: RegistryInMemory) -> None:
        first = self.write(registry, Order(id=1, name="a"))
        decoder = RegisteredProtobufDecoder.latest(RegistryAt(registry.url), "orders-value", None)
        wider = order_file()
        wider.message_type[0].field.add(name="new", number=99, type=Field.TYPE_STRING, label=ONE)
        second = self.write(registry, class_of(wider)(id=2, new="unseen"))

        decoded = pickle.loads(pickle.dumps(decoder)).decode(column(first, None, second))

        assert decoded.bad == []
        assert [row and row["id"] for row in decoded.values.to_pylist()] == [1, None, 2]

    def test_a_field_of_another_type_and_another_message_are_bad(self, registry: RegistryInMemory) -> None:
        good = self.write(registry, Order(id=1))
        decoder = RegisteredProtobufDecoder.of(RegistryAt(registry.url), SCHEMA)
        changed = self.write(registry, class_of(order_file(name=Field.TYPE_INT64))(name=7))
        line = self.write(registry, class_of(order_file(), "shop.Line")(article="x"))
        endless = good[:5] + b"\xff" * 9

        decoded = decoder.decode(column(good, changed, line, endless))

        assert [row and row["id"] for row in decoded.values.to_pylist()] == [1, None, None, None]
        assert [bad.row for bad in decoded.bad] == [1, 2, 3]
        assert "field 2 (name) changed its type" in decoded.bad[0].reason
        assert "this is a shop.Line, but the query reads shop.Order" in decoded.bad[1].reason
        assert "indexes" in decoded.bad[2].reason

    def test_an_unknown_message_index_is_bad(self, registry: RegistryInMemory) -> None:
        good = self.write(registry, Order(id=1))

        decoded = RegisteredProtobufDecoder.of(RegistryAt(registry.url), SCHEMA).decode(
            column(good[:5] + b"\x02\x12" + good[6:])
        )

        assert "has no message at [9]" in decoded.bad[0].reason


def test_the_schema_is_hashable_by_its_content() -> None:
    assert Files(SCHEMA.files, "shop.Order") == SCHEMA
