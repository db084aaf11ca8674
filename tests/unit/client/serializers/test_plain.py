"""Formats that need no library: their bytes are those of Kafka's own serializers."""

from __future__ import annotations

import math
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.serializers import deserializer_of, serializer_of

UUID_ONE = UUID("01234567-89ab-cdef-0123-456789abcdef")

# The bytes of Java's LongSerializer, IntegerSerializer and the rest for these values.
SAMPLES: list[tuple[str, Any, bytes]] = [
    ("string", "grün", "grün".encode()),
    ("string", "", b""),
    ("int64", 1, b"\0\0\0\0\0\0\0\1"),
    ("int64", -2, b"\xff\xff\xff\xff\xff\xff\xff\xfe"),
    ("int32", 258, b"\0\0\1\2"),
    ("int16", -1, b"\xff\xff"),
    ("float64", 1.5, b"\x3f\xf8\0\0\0\0\0\0"),
    ("float32", 1.5, b"\x3f\xc0\0\0"),
    ("boolean", True, b"\1"),
    ("boolean", False, b"\0"),
    ("uuid", UUID_ONE, b"01234567-89ab-cdef-0123-456789abcdef"),
    (
        "json",
        {"name": "grün", "counts": [1, 2.5, None, True]},
        '{"name":"grün","counts":[1,2.5,null,true]}'.encode(),
    ),
]


def write(spec: object, value: Any) -> Any:
    serializer = serializer_of(spec)
    assert serializer is not None
    return serializer.for_topic("orders", is_key=False)(value)


def read(spec: object, data: bytes) -> Any:
    deserializer = deserializer_of(spec)
    assert deserializer is not None
    return deserializer.for_topic("orders", is_key=False)(data)


@pytest.mark.parametrize(("name", "value", "data"), SAMPLES)
def test_bytes_match_kafkas_serializers(name: str, value: Any, data: bytes) -> None:
    assert write(name, value) == data
    assert read(name, data) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("string", b"bytes"),
        ("string", 5),
        ("int64", "5"),
        ("int64", 2**63),
        ("int64", 1.0),
        ("int32", 2**31),
        ("int16", 2**15),
        ("float64", "1.5"),
        ("float32", 1e300),
        ("boolean", 1),
        ("uuid", "no uuid"),
        ("uuid", 5),
        ("json", {1, 2}),
        ("json", math.nan),
        ("void", "something"),
    ],
)
def test_a_value_out_of_range_is_rejected(name: str, value: Any) -> None:
    with pytest.raises(Exception):  # noqa: B017  the caller makes one exception of them all
        write(name, value)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("string", b"\xff"),
        ("int64", b"\0" * 7),
        ("int32", b"\0" * 5),
        ("boolean", b"\2"),
        ("boolean", b""),
        ("uuid", b"zzz"),
        ("json", b"{"),
        ("json", "[1]".encode("utf-16")),
    ],
)
def test_bytes_of_another_format_are_rejected(name: str, data: bytes) -> None:
    with pytest.raises(Exception):  # noqa: B017
        read(name, data)


def test_text_of_a_uuid_is_written_in_its_usual_form() -> None:
    assert write("uuid", str(UUID_ONE).upper()) == str(UUID_ONE).encode()


def test_void_reads_nothing() -> None:
    assert read("void", b"anything") is None


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_integer_round_trips(number: int) -> None:
    assert read("int", write("int", number)) == number


@given(st.text())
def test_every_text_round_trips(text: str) -> None:
    assert read("json", write("json", text)) == text


@given(st.floats(allow_nan=False))
def test_every_float_round_trips(number: float) -> None:
    assert read("float", write("float", number)) == number
