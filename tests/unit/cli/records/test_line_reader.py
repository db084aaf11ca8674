"""Lines into records, by Kafka's rules and from JSON."""

from __future__ import annotations

import pytest

from penstock.cli.failures import Refusal
from penstock.cli.records.line_reader import (
    BadLine,
    LineRules,
    NewRecord,
    from_bytes,
    read_json,
    read_lines,
    to_bytes,
)


def read(line: str, **properties: str) -> NewRecord:
    rules = LineRules.of_properties({name.replace("_", "."): value for name, value in properties.items()})
    (record,) = read_lines([line], rules)
    return record


def test_a_line_is_a_value_without_its_end() -> None:
    assert list(read_lines(["one\n", "two\r\n", "", "three"], LineRules())) == [
        NewRecord(b"one"),
        NewRecord(b"two"),
        NewRecord(b""),
        NewRecord(b"three"),
    ]


def test_bytes_that_are_not_text_come_through() -> None:
    assert read(b"\xff\xfe".decode("utf-8", "surrogateescape")).value == b"\xff\xfe"


def test_a_key_stands_before_its_separator() -> None:
    assert read("k\tv", parse_key="true") == NewRecord(b"v", b"k")
    assert read("k:v:w", parse_key=" TRUE ", key_separator=":") == NewRecord(b"v:w", b"k")


def test_headers_stand_before_the_key() -> None:
    record = read("h1:v1,h2:v2\tk\tv", parse_headers="true", parse_key="true")

    assert record == NewRecord(b"v", b"k", (("h1", b"v1"), ("h2", b"v2")))


def test_a_marker_means_null() -> None:
    rules = {"parse_key": "true", "parse_headers": "true", "null_marker": "NULL"}

    assert read("NULL\tNULL\tNULL", **rules) == NewRecord(None, None, ())
    assert read("h:NULL\tk\tv", **rules).headers == (("h", None),)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no separator", "No headers delimiter found on line number 1: 'no separator'"),
        ("h:v\tno key", "No key separator found on line number 1: 'h:v\tno key'"),
        ("h\tk\tv", "No header key separator found in pair 'h' on line number 1"),
    ],
)
def test_a_line_that_does_not_fit_is_named(line: str, message: str) -> None:
    with pytest.raises(BadLine) as refused:
        read(line, parse_headers="true", parse_key="true")

    assert str(refused.value) == message


def test_errors_can_be_ignored() -> None:
    rules = {"parse_key": "true", "parse_headers": "true", "ignore_error": "true"}

    assert read("alone", **rules) == NewRecord(b"alone")
    assert read("h\tk\tv", **rules) == NewRecord(b"v", b"k", (("h", None),))


def test_separators_must_differ() -> None:
    with pytest.raises(Refusal, match=r"headers.delimiter and headers.separator may not be equal"):
        LineRules.of_properties({"headers.delimiter": ","})
    with pytest.raises(Refusal, match=r"null.marker"):
        LineRules.of_properties({"null.marker": "\t"})
    LineRules.of_properties({"key.separator": ",", "null.marker": "x", "headers.separator": ";"})


class TestJson:
    def test_an_object_is_a_record(self) -> None:
        line = '{"key": "k", "value": {"a": 1}, "headers": {"h": "v"}, "partition": 2, "timestamp": 5, "offset": 9}'

        assert list(read_json([line, "  "])) == [NewRecord(b'{"a":1}', b"k", (("h", b"v"),), 2, 5)]

    def test_headers_may_be_pairs_and_values_null_or_bytes(self) -> None:
        line = '{"value": null, "key": {"base64": "/w=="}, "headers": [["h", null], ["h", "2"]]}'

        assert list(read_json([line])) == [NewRecord(None, b"\xff", (("h", None), ("h", b"2")))]

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("{", "line 1 is not JSON"),
            ("[]", 'line 1 is not an object with a "value"'),
            ('{"key": 1}', 'not an object with a "value"'),
            ('{"value": 1, "partition": "x"}', "'x' is not a whole number"),
            ('{"value": {"base64": "!"}}', "is not base64"),
        ],
    )
    def test_an_invalid_line_is_named_in_the_error(self, line: str, message: str) -> None:
        with pytest.raises(BadLine, match=message):
            list(read_json([line]))

    @pytest.mark.parametrize("data", [None, b"", b"text", b"\xff\x00"])
    def test_bytes_survive_the_way_there_and_back(self, data: bytes | None) -> None:
        assert to_bytes(from_bytes(data)) == data
