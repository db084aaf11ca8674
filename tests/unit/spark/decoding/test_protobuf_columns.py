"""Protobuf by columns: whatever the bytes are, the result is the library's, or the library reads them."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.spark.decoding.protobuf import ProtobufDecoder
from penstock.spark.decoding.protobuf_columns import read_column, reader_of
from penstock.spark.decoding.protobuf_schemas import files_of
from penstock.spark.decoding.protobuf_types import is_repeated

Kind = descriptor_pb2.FieldDescriptorProto
ONE, REQUIRED, MANY = Kind.LABEL_OPTIONAL, Kind.LABEL_REQUIRED, Kind.LABEL_REPEATED
WELL_KNOWN = [timestamp_pb2, duration_pb2, wrappers_pb2, struct_pb2, empty_pb2]
SCALARS = [kind for kind in range(1, 19) if kind not in (Kind.TYPE_GROUP, Kind.TYPE_MESSAGE, Kind.TYPE_ENUM)]
WIRES = {1: 1, 2: 5, 6: 1, 7: 5, 9: 2, 11: 2, 12: 2, 15: 5, 16: 1}  # all others are varints
FIXED = {1: 8, 5: 4}


def file_of(syntax: str) -> descriptor_pb2.FileDescriptorProto:
    """test.All: a field of every type, alone, repeated and in a oneof, with maps and messages in messages."""
    file = descriptor_pb2.FileDescriptorProto(
        name="all.proto",
        package="test",
        syntax=syntax,
        dependency=[module.DESCRIPTOR.name for module in WELL_KNOWN],
    )
    color = file.enum_type.add(name="Color")
    for name, number in (("NONE", 0), ("RED", 1), ("CRIMSON", 1), ("FAR", 70_000), ("BELOW", -3)):
        color.value.add(name=name, number=number)
    color.options.allow_alias = True
    file.message_type.add(name="Nothing")
    inner = file.message_type.add(name="Inner")
    inner.field.add(name="text", number=1, type=Kind.TYPE_STRING, label=ONE)
    inner.field.add(name="number", number=2, type=Kind.TYPE_SINT32, label=ONE)
    inner.field.add(name="numbers", number=3, type=Kind.TYPE_INT64, label=MANY)
    whole = file.message_type.add(name="All")
    whole.oneof_decl.add(name="choice")
    add = whole.field.add
    for kind in SCALARS:
        add(name=f"one_{kind}", number=kind, type=kind, label=ONE)
        add(name=f"many_{kind}", number=20 + kind, type=kind, label=MANY)
    google = ".google.protobuf."
    named = [".test.Inner", ".test.Nothing", *(google + name for name in ("Timestamp", "Duration"))]
    named += [google + name for name in ("Int64Value", "StringValue", "UInt64Value", "Value", "Empty")]
    for index, name in enumerate(named):
        add(name=f"message_{index}", number=40 + index, type=Kind.TYPE_MESSAGE, label=ONE, type_name=name)
        add(name=f"messages_{index}", number=60 + index, type=Kind.TYPE_MESSAGE, label=MANY, type_name=name)
    enum: dict[str, Any] = {"type": Kind.TYPE_ENUM, "type_name": ".test.Color"}
    add(name="color", number=80, label=ONE, **enum)
    add(name="colors", number=81, label=MANY, **enum)
    add(name="chosen_number", number=82, type=Kind.TYPE_INT32, label=ONE, oneof_index=0)
    add(name="chosen_text", number=83, type=Kind.TYPE_STRING, label=ONE, oneof_index=0)
    add(name="chosen_color", number=84, label=ONE, oneof_index=0, **enum)
    add(name="chosen", number=85, type=Kind.TYPE_MESSAGE, label=ONE, type_name=".test.Inner", oneof_index=0)
    for number, (name, key, value) in enumerate(
        [
            ("texts", Kind.TYPE_STRING, Kind.TYPE_SINT64),
            ("inners", Kind.TYPE_INT32, Kind.TYPE_MESSAGE),
            ("colored", Kind.TYPE_BOOL, Kind.TYPE_ENUM),
        ],
        90,
    ):
        entry = whole.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=key, label=ONE)
        type_name = {Kind.TYPE_MESSAGE: ".test.Inner", Kind.TYPE_ENUM: ".test.Color"}.get(value)
        entry.field.add(name="value", number=2, type=value, label=ONE, type_name=type_name)
        type_name = f".test.All.{entry.name}"
        add(name=name, number=number, type=Kind.TYPE_MESSAGE, label=MANY, type_name=type_name)
    if syntax == "proto3":
        for index, kind in enumerate((Kind.TYPE_INT32, Kind.TYPE_STRING)):
            whole.oneof_decl.add(name=f"_maybe_{kind}")
            more = {"proto3_optional": True, "oneof_index": index + 1}
            add(name=f"maybe_{kind}", number=100 + kind, type=kind, label=ONE, **more)
    else:
        for field in whole.field:
            if field.name == "many_5":
                field.options.packed = True
            if field.name == "one_5":
                field.default_value = "17"
        add(name="needed", number=110, type=Kind.TYPE_BOOL, label=REQUIRED)
    return file


def decoder_of(
    file: descriptor_pb2.FileDescriptorProto, name: str = "test.All"
) -> tuple[Any, ProtobufDecoder]:
    pool = descriptor_pool.DescriptorPool()
    for module in WELL_KNOWN:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    found = pool.FindMessageTypeByName(name)
    return message_factory.GetMessageClass(found), ProtobufDecoder.of(files_of(found))


KNOWN = {syntax: decoder_of(file_of(syntax)) for syntax in ("proto2", "proto3")}


# Bytes, from good to bad


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def sized(data: bytes) -> bytes:
    return varint(len(data)) + data


VARINTS = st.one_of(
    st.integers(0, 3),
    st.sampled_from([127, 128, 70_000, -3, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1]),
    st.integers(0, 2**64 - 1),
).map(varint) | st.sampled_from([b"\x80\x00", b"\x81\x80\x00", b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x02"])
BYTES = st.sampled_from([b"", b"a", "ä€".encode(), b"\xff", b"\xed\xa0\x80"]) | st.binary(max_size=4)
BY_WIRE: dict[int, st.SearchStrategy[bytes]] = {
    0: VARINTS,
    1: st.one_of(st.binary(min_size=8, max_size=8), st.floats().map(lambda each: struct.pack("<d", each))),
    2: BYTES.map(sized),
    5: st.binary(min_size=4, max_size=4),
}


def token(number: int, wire: int, value: bytes) -> bytes:
    return varint(number << 3 | wire) + value


def values_of(field: Any, depth: int) -> st.SearchStrategy[bytes]:
    """Possible values of a field, with its tag."""
    number, wire = field.number, WIRES.get(field.type, 0)
    if field.type == Kind.TYPE_MESSAGE:
        inner = messages_of(field.message_type, depth + 1).map(sized)
        return inner.map(lambda value: token(number, 2, value))
    if field.type == Kind.TYPE_STRING:
        # Most texts are valid, otherwise nothing else would be tested.
        text = st.one_of(st.text(max_size=4).map(str.encode), st.text(max_size=4).map(str.encode), BYTES)
        return text.map(lambda value: token(number, 2, sized(value)))
    single = BY_WIRE[wire]
    found = single.map(lambda value: token(number, wire, value))
    if wire == 2 or not is_repeated(field):
        return found
    packed = st.lists(single, max_size=4).map(b"".join)
    return found | packed.map(lambda value: token(number, 2, sized(value)))


def messages_of(descriptor: Any, depth: int = 0) -> st.SearchStrategy[bytes]:
    """Fields in any order, some twice, unknown or with a wrong wire type."""
    if depth > 2 or not descriptor.fields:
        return st.just(b"")
    known = st.sampled_from(list(descriptor.fields)).flatmap(lambda field: values_of(field, depth))
    numbers = st.sampled_from([*(field.number for field in descriptor.fields), 15, 16, 2047, 2048, 2**29 - 1])
    foreign = st.tuples(numbers, st.sampled_from([0, 1, 2, 5])).flatmap(
        lambda place: BY_WIRE[place[1]].map(lambda value: token(*place, value))
    )
    return st.lists(st.one_of(known, known, known, known, foreign), max_size=6 - 2 * depth).map(b"".join)


def damaged(data: bytes, draw: st.DrawFn) -> bytes:
    match draw(st.integers(0, 9)):
        case 0:
            return data[: draw(st.integers(0, len(data)))]
        case 1:
            at = draw(st.integers(0, len(data)))
            return data[:at] + draw(st.binary(max_size=3)) + data[at:]
    return data


@st.composite
def rows_of(draw: st.DrawFn, descriptor: Any) -> list[bytes]:
    rows = draw(st.lists(messages_of(descriptor), min_size=1, max_size=4))
    return [damaged(row, draw) for row in rows]


# What is read


def plain(value: Any) -> Any:
    """Comparable values: a map has no order, and NaN does not equal itself."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        items = [plain(each) for each in value]
        return sorted(items, key=repr) if items and isinstance(items[0], tuple) else items
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def with_numbers_for_times(kind: pa.DataType) -> pa.DataType:
    """Python has no times after the year 9999, but Protobuf has."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(with_numbers_for_times(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(with_numbers_for_times(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(with_numbers_for_times(kind.value_type)))
    return pa.int64() if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) else kind


def at_once(decoder: ProtobufDecoder, column: pa.Array) -> pa.Array | None:
    read = decoder._read_column
    assert read is not None
    return read_column(read, column)


def check_alike(decoder: ProtobufDecoder, rows: list[bytes]) -> bool:
    """Whether the rows were read at once; if so, the result equals the library's."""
    column = pa.array(rows, pa.binary())
    found = at_once(decoder, column)
    if found is None:
        return False
    values, bad = decoder._by_rows(column)
    assert bad == []
    assert found.type == values.type == decoder.arrow_type
    found.validate(full=True)
    comparable = with_numbers_for_times(found.type)
    assert plain(found.cast(comparable).to_pylist()) == plain(values.cast(comparable).to_pylist())
    return True


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_columns_and_the_library_read_alike(syntax: str, data: st.DataObject) -> None:
    message, decoder = KNOWN[syntax]

    check_alike(decoder, data.draw(rows_of(message.DESCRIPTOR)))


@pytest.mark.parametrize("syntax", ["proto2", "proto3"])
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_messages_of_the_library_are_read_at_once(syntax: str, data: st.DataObject) -> None:
    message, decoder = KNOWN[syntax]
    written = []
    for row in data.draw(rows_of(message.DESCRIPTOR)):
        try:
            known = message.FromString(row)
            known.DiscardUnknownFields()
            written.append(known.SerializePartialToString())
        except Exception:  # not a message
            written.append(b"")

    if decoder._by_rows(pa.array(written, pa.binary())).bad == []:
        assert check_alike(decoder, written)


def test_a_map_entry_with_an_unknown_value_first_is_unknown() -> None:
    _, decoder = KNOWN["proto2"]
    row = token(92, 2, sized(token(2, 0, b"\x7f") + token(2, 0, b"\x00")))

    read = decoder.decode(pa.array([row], pa.binary()))

    assert read.values[0]["colored"].as_py() == []


IN_DISORDER = token(5, 0, b"\x01") + token(3, 0, b"\x02") + token(5, 0, b"\x03")


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(IN_DISORDER, id="out of order, and a number twice"),
        pytest.param(token(999, 2, sized(b"new")) + IN_DISORDER, id="an unknown field"),
        pytest.param(token(5, 5, bytes(4)) + IN_DISORDER, id="a field of another wire type"),
        pytest.param(token(82, 0, b"\x07") + token(83, 2, sized(b"x")), id="two of a oneof"),
        pytest.param(token(25, 0, b"\x07") + token(25, 2, sized(b"\x08\x09")), id="packed and not"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_unusual_but_valid_messages_are_read_at_once(row: bytes) -> None:
    for _, decoder in KNOWN.values():
        assert check_alike(decoder, [row, b"", IN_DISORDER])


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(IN_DISORDER[:-1], id="cut off"),
        pytest.param(token(9, 2, b"\x05ab"), id="text that goes on behind the end"),
        pytest.param(token(9, 2, sized(b"\xff")), id="text that is none"),
        pytest.param(token(40, 2, sized(b"")) * 2, id="a message to be merged"),
        pytest.param(token(90, 2, sized(b"\x0a\x00")) * 2, id="a key twice"),
        pytest.param(b"\x03\x04", id="a group"),
        pytest.param(b"\x00\x00", id="no tag"),
        pytest.param(b"\x88\x00\x01", id="a tag that is too long"),
        pytest.param(token(5, 0, b"\x07") * 300, id="too many fields"),
    ],
)
def test_other_messages_are_left_to_the_library(row: bytes) -> None:
    _, decoder = KNOWN["proto3"]
    good = token(3, 0, b"\x02")

    assert at_once(decoder, pa.array([good, row])) is None
    decoded = decoder.decode(pa.array([good] * 200 + [row]))

    assert [each["one_3"] for each in decoded.values.to_pylist()[:200]] == [2] * 200
    values, bad = decoder._by_rows(pa.array([row]))
    assert plain(decoded.values.to_pylist()[200:]) == plain(values.to_pylist())
    assert [each.reason for each in decoded.bad] == [each.reason for each in bad]


def test_extensible_messages_are_read_by_the_library() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="odd.proto", package="test", syntax="proto2")
    extended = file.message_type.add(name="Extended")
    extended.field.add(name="id", number=1, type=Kind.TYPE_INT64, label=ONE)
    extended.extension_range.add(start=100, end=200)
    grouped = file.message_type.add(name="Grouped")
    grouped.nested_type.add(name="Part").field.add(name="id", number=1, type=Kind.TYPE_INT64, label=ONE)
    grouped.field.add(name="part", number=1, type=Kind.TYPE_GROUP, label=ONE, type_name=".test.Grouped.Part")
    for name in ("Extended", "Grouped"):
        message, decoder = decoder_of(file, f"test.{name}")

        assert reader_of(message.DESCRIPTOR, decoder.arrow_type) is None
        assert decoder.decode(pa.array([b""])).bad == []


def test_a_value_without_json_is_bad_and_does_not_fail_the_task() -> None:
    message, decoder = KNOWN["proto3"]
    odd = message(message_7={"number_value": math.nan}).SerializeToString()

    decoded = decoder.decode(pa.array([b"", odd]))

    assert [bad.row for bad in decoded.bad] == [1]
    assert "nan" in decoded.bad[0].reason.lower()
