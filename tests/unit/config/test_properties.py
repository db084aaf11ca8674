"""Java's `.properties` format. That Java reads the same is held in `test_against_kafka`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.properties import BadProperties, decode_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("a:b\nc d\r\ne = f\rg : h", {"a": "b", "c": "d", "e": "f", "g": "h"}),
        ("a", {"a": ""}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("# note\n  ! note\n\n \t\na=b # no note", {"a": "b # no note"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=one,\\\n    two,\\\n    three", {"a": "one,two,three"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a\\ b\\=c\\:d=e", {"a b=c:d": "e"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u00e9\\u0041\\uD83D\\uDE00", {"a": "éA😀"}),
        ("a=  trailing  ", {"a": "trailing  "}),
        ("# a comment does not go on \\\na=b", {"a": "b"}),
    ],
)
def test_a_file_is_read(text: str, entries: dict[str, str]) -> None:
    assert parse_properties(text) == entries


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b\n\nc=\\u12g4", r"line 3: .*four hexadecimal digits"),
        ("c=\\u12", r"line 1: .*four hexadecimal digits"),
        ("# x\nc=\\\n\\uD83D", r"line 2: .*surrogate"),
    ],
)
def test_a_bad_escape_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(BadProperties, match=message):
        parse_properties(text)


def escape(text: str) -> str:
    return "".join(f"\\u{unit:04x}" for unit in _utf16_units(text))


def _utf16_units(text: str) -> list[int]:
    data = text.encode("utf-16-be")
    return [int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2)]


@given(st.dictionaries(st.text(), st.text()))
def test_escapes_are_decoded(entries: dict[str, str]) -> None:
    text = "\n".join(f"{escape(key)}={escape(value)}" for key, value in entries.items())

    assert parse_properties(text) == entries


@given(st.text())
def test_no_input_but_a_bad_escape_is_refused(text: str) -> None:
    try:
        parse_properties(text)
    except BadProperties:
        assert "\\u" in text


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"a=\xc3\xa9", "a=é"), (b"\xef\xbb\xbfa=b", "a=b"), (b"a=\xe9", "a=é"), (b"", "")],
)
def test_a_file_is_utf_8_or_else_latin_1(data: bytes, text: str) -> None:
    assert decode_properties(data) == text
