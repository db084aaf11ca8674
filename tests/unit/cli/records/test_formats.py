"""Formats convert text to bytes, and bytes to values."""

from __future__ import annotations

import struct

import pytest

from penstock.cli.failures import Misuse
from penstock.cli.records.formats import FormatWriter, make_reader, make_writer

SERVERS = {"bootstrap.servers": "localhost:9092"}


def writer(name: str) -> FormatWriter:
    made = make_writer(name, side="value", topic="orders", settings=SERVERS)
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("name", "text", "data"),
    [
        ("long", "42", struct.pack(">q", 42)),
        ("integer", "-1", struct.pack(">i", -1)),
        ("short", "7", struct.pack(">h", 7)),
        ("double", "1.5", struct.pack(">d", 1.5)),
        ("float32", "1.5", struct.pack(">f", 1.5)),
        ("boolean", "true", b"\x01"),
        ("string", "a b", b"a b"),
        ("json", ' {"a": 1}', b'{"a":1}'),
        ("hex", "00ff", b"\x00\xff"),
        ("base64", "AP8=", b"\x00\xff"),
        ("uuid", "5F0D27C4-0B6E-4C5F-9D55-9E1DAD1A4D56", b"5f0d27c4-0b6e-4c5f-9d55-9e1dad1a4d56"),
        ("org.apache.kafka.common.serialization.LongSerializer", "42", struct.pack(">q", 42)),
    ],
)
def test_text_becomes_bytes_of_the_format(name: str, text: str, data: bytes) -> None:
    assert writer(name).write_text(text) == data


@pytest.mark.parametrize(
    ("name", "text"),
    [("long", "many"), ("long", "1e3"), ("short", "70000"), ("boolean", "yes"), ("json", "{"), ("hex", "0g")],
)
def test_text_that_is_no_such_value_is_rejected(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"is not {name}"):
        writer(name).write_text(text)


def test_no_format_and_bytes_leave_text_as_it_is() -> None:
    assert make_writer(None, side="value", topic="orders", settings=SERVERS) is None
    assert make_writer("bytes", side="value", topic="orders", settings=SERVERS) is None
    assert make_reader("bytes", side="key", topic="orders", settings=SERVERS) is None


def test_null_has_every_format() -> None:
    reader = make_reader("long", side="value", topic="orders", settings=SERVERS)

    assert reader is not None
    assert reader.read(None, place="orders-0") is None


def test_an_unknown_format_names_its_option() -> None:
    with pytest.raises(Misuse, match="--key-format lomg: unknown"):
        make_writer("lomg", side="key", topic="orders", settings=SERVERS)


@pytest.mark.parametrize("text", ["zz", "0"])
def test_bad_hex_is_not_reported_in_the_words_of_python(text: str) -> None:
    with pytest.raises(ValueError, match="two hexadecimal digits for each byte") as raised:
        writer("hex").write_text(text)
    assert "fromhex" not in str(raised.value)


def test_a_format_that_needs_a_registry_names_the_setting() -> None:
    with pytest.raises(Misuse, match=r"-X schema\.registry\.url=http"):
        make_writer("avro", side="value", topic="orders", settings=SERVERS)
