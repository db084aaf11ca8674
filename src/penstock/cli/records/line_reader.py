"""Lines to records.

`LineRules` has the options of Kafka's console producer: a line may begin with headers and a key, each followed by a
separator.

    h1:v1,h2:v2<TAB>key<TAB>value

`read_json` reads the output of `penstock consume --json`, to copy records between topics.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.cli.failures import Refusal

Header = tuple[str, bytes | None]


class NewRecord(NamedTuple):
    """A record to produce; the producer chooses what is None."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class BadLine(Refusal):
    """A line is not a valid record; the message contains the line number."""


@dataclass(frozen=True, slots=True)
class LineRules:
    """How to split a line."""

    has_key: bool = False
    key_separator: str = "\t"
    has_headers: bool = False
    headers_delimiter: str = "\t"
    headers_separator: str = ","
    header_key_separator: str = ":"
    null_marker: str | None = None
    ignores_errors: bool = False
    write_key: Callable[[str], bytes] | None = None
    """Serializes the text of a key, or raises ValueError. By default the text is written as it is."""
    write_value: Callable[[str], bytes] | None = None

    @classmethod
    def of_properties(cls, properties: Mapping[str, str]) -> LineRules:
        """From the properties of Kafka's reader, such as `parse.key=true`; others are ignored."""
        rules = cls(
            has_key=_is_true(properties.get("parse.key")),
            key_separator=properties.get("key.separator", "\t"),
            has_headers=_is_true(properties.get("parse.headers")),
            headers_delimiter=properties.get("headers.delimiter", "\t"),
            headers_separator=properties.get("headers.separator", ","),
            header_key_separator=properties.get("headers.key.separator", ":"),
            null_marker=properties.get("null.marker"),
            ignores_errors=_is_true(properties.get("ignore.error")),
        )
        rules.check()
        return rules

    def check(self) -> None:
        """Reject ambiguous separators."""
        separators = {
            "headers.delimiter": self.headers_delimiter,
            "headers.separator": self.headers_separator,
            "headers.key.separator": self.header_key_separator,
        }
        if self.null_marker is not None:
            separators |= {"null.marker": self.null_marker, "key.separator": self.key_separator}
        named: dict[str, str] = {}
        for name, text in separators.items():
            # The separator of the key may equal that of the headers: they are used in different places.
            other = named.setdefault(text, name)
            if other != name and {other, name} != {"headers.delimiter", "key.separator"}:
                raise Refusal(f"{other} and {name} may not be equal")


def read_lines(lines: Iterable[str], rules: LineRules) -> Iterator[NewRecord]:
    """A record per line, without the line end."""
    for number, line in enumerate(lines, 1):
        yield _read_line(line.rstrip("\n").removesuffix("\r"), number, rules)


def _read_line(line: str, number: int, rules: LineRules) -> NewRecord:
    headers: str | None = None
    key: str | None = None
    rest = line
    if rules.has_headers:
        headers, rest = _cut(rest, rules.headers_delimiter, "headers delimiter", number, line, rules)
    if rules.has_key:
        key, rest = _cut(rest, rules.key_separator, "key separator", number, line, rules)
    try:
        return NewRecord(
            _encode(rest, rules, rules.write_value),
            None if key is None else _encode(key, rules, rules.write_key),
            tuple(_read_headers(headers, number, rules)),
        )
    except ValueError as problem:
        raise BadLine(f"line {number}: {problem}") from problem


def _cut(
    text: str, separator: str, name: str, number: int, line: str, rules: LineRules
) -> tuple[str | None, str]:
    before, found, after = text.partition(separator)
    if found:
        return before, after
    if rules.ignores_errors:
        return None, text
    raise BadLine(f"No {name} found on line number {number}: '{line}'")


def _read_headers(text: str | None, number: int, rules: LineRules) -> Iterator[Header]:
    if text is None or text == rules.null_marker:
        return
    for pair in text.split(rules.headers_separator):
        key, found, value = pair.partition(rules.header_key_separator)
        if found:
            yield key, _encode(value, rules)
        elif rules.ignores_errors:
            yield pair, None
        else:
            raise BadLine(f"No header key separator found in pair '{pair}' on line number {number}")


def _encode(text: str, rules: LineRules, write: Callable[[str], bytes] | None = None) -> bytes | None:
    if text == rules.null_marker:
        return None
    return text.encode("utf-8", "surrogateescape") if write is None else write(text)


def read_json(
    lines: Iterable[str],
    *,
    write_key: Callable[[Any], bytes] | None = None,
    write_value: Callable[[Any], bytes] | None = None,
) -> Iterator[NewRecord]:
    """A record per line: an object with a `value` and optional `key`, `headers`, `partition` and `timestamp`.

    By default a string is written as it is, null as null, `{"base64": "..."}` as bytes, anything else as JSON.
    `write_key` and `write_value` serialize other formats."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except ValueError as problem:
            raise BadLine(f"line {number} is not JSON: {problem}") from problem
        if not isinstance(fields, dict) or "value" not in fields:
            raise BadLine(f'line {number} is not an object with a "value": {line.strip()[:80]}')
        headers = fields.get("headers") or {}
        pairs = headers.items() if isinstance(headers, dict) else headers
        try:
            yield NewRecord(
                to_bytes(fields["value"], write_value),
                to_bytes(fields.get("key"), write_key),
                tuple((str(name), to_bytes(value)) for name, value in pairs),
                _whole_number(fields.get("partition")),
                _whole_number(fields.get("timestamp")),
            )
        except (TypeError, ValueError) as problem:
            raise BadLine(f"line {number}: {problem}") from problem


def to_bytes(value: Any, write: Callable[[Any], bytes] | None = None) -> bytes | None:
    """A JSON value as the bytes of a record."""
    if value is None:
        return None
    if write is not None:
        return write(value)
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, dict) and value.keys() == {"base64"}:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, TypeError) as problem:
            raise ValueError(f"{value} is not base64: {problem}") from problem
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def from_bytes(data: bytes | None) -> str | dict[str, str] | None:
    """The bytes of a record as a JSON value."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def _whole_number(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"
