"""How `penstock consume` prints a record: as a row of a table, as JSON, raw, or by a template.

A key or value that has a format (`--value-format long`) is decoded first. Without one its bytes are shown as text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from penstock.cli.escapes import unescape
from penstock.cli.failures import Misuse
from penstock.cli.output import printable, show_time, to_json
from penstock.cli.records.formats import FormatReader, Side, make_reader
from penstock.cli.records.formatters import ReadRecord
from penstock.cli.records.line_reader import from_bytes

KEY_WIDTH = 16
TEMPLATE_NAMES = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")

PrintRecord = Callable[[ReadRecord], bytes]
"""Returns the bytes to print for a record, with the line end."""
Decode = Callable[[ReadRecord], tuple[Any, Any]]
"""Returns the key and the value of a record, decoded if they have a format."""


@dataclass(frozen=True, slots=True)
class RecordStyle:
    """How to print records."""

    format: str = "table"
    template: str | None = None
    separator: str = "\n"
    key_separator: str = "\t"
    key_format: str | None = None
    value_format: str | None = None

    @property
    def has_header(self) -> bool:
        """Whether column names come first."""
        return self.format == "table" and self.template is None


DEFAULT_STYLE = RecordStyle()


def make_printer(style: RecordStyle, settings: Mapping[str, object]) -> PrintRecord:
    """The function that prints a record. Unknown formats and templates are rejected here."""
    decode = make_decoder(style, settings)
    if style.template is not None:
        return _template(style.template, decode)
    match style.format:
        case "json":
            return lambda message: _json(message, *decode(message))
        case "raw":
            end = style.separator.encode()
            return lambda message: _raw(decode(message)[1]) + end
        case "key-value":
            between = style.key_separator.encode()
            return lambda message: between.join(map(_raw, decode(message))) + b"\n"
        case _:
            return lambda message: _row(message, *decode(message))


def make_decoder(style: RecordStyle, settings: Mapping[str, object]) -> Decode:
    if style.key_format is None and style.value_format is None:
        return lambda message: (message.key, message.value)

    @cache
    def reader(topic: str, side: Side) -> FormatReader | None:
        name = style.key_format if side == "key" else style.value_format
        return make_reader(name, side=side, topic=topic, settings=settings)

    def read(message: ReadRecord, side: Side, data: bytes | None) -> object:
        found = reader(message.topic, side)
        if found is None:
            return data
        return found.read(data, place=f"{message.topic}-{message.partition}, offset {message.offset}")

    reader("", "key"), reader("", "value")  # rejects unknown formats
    return lambda message: (read(message, "key", message.key), read(message, "value", message.value))


TABLE_HEADER = (
    f"{'topic':<16}  {'partition':>9}  {'offset':>10}  {'timestamp':<24}  {'key':<{KEY_WIDTH}}  value\n"
).encode()


def _row(message: ReadRecord, key: Any, value: Any) -> bytes:
    headers = " ".join(f"{name}={_text(each)}" for name, each in message.headers)
    return (
        f"{message.topic:<16}  {message.partition:>9}  {message.offset:>10}  {show_time(message.timestamp_ms):<24}  "
        f"{_text(key):<{KEY_WIDTH}}  {_text(value)}{f'  [{headers}]' if headers else ''}\n"
    ).encode("utf-8", "backslashreplace")


def _json(message: ReadRecord, key: Any, value: Any) -> bytes:
    facts = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp_ms,
        "key": from_bytes(key) if isinstance(key, bytes) else key,
        "value": from_bytes(value) if isinstance(value, bytes) else value,
        "headers": [[name, from_bytes(each)] for name, each in message.headers],
    }
    return f"{to_json(facts)}\n".encode()


def _template(template: str, decode: Decode) -> PrintRecord:
    """A text with names in braces, checked before anything is read."""
    text = unescape(template)
    try:
        text.format(**dict.fromkeys(TEMPLATE_NAMES, ""))
    except (KeyError, IndexError, ValueError) as problem:
        reason = f"unknown name {problem}" if isinstance(problem, KeyError) else str(problem)
        names = ", ".join(TEMPLATE_NAMES)
        raise Misuse(f"--template {template}: {reason}; the names are {names}") from problem

    def print_record(message: ReadRecord) -> bytes:
        key, value = decode(message)
        filled = text.format(
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            timestamp=show_time(message.timestamp_ms),
            key=_text(key),
            value=_text(value),
            headers=",".join(f"{name}={_text(each)}" for name, each in message.headers),
        )
        return f"{filled}\n".encode("utf-8", "backslashreplace")

    return print_record


def _text(value: Any) -> str:
    """On one line, with control characters escaped."""
    if value is None:
        return "-"
    if isinstance(value, bytes):
        return printable(value.decode("utf-8", "backslashreplace"))
    return printable(_plain(value))


def _raw(value: Any) -> bytes:
    if value is None:
        return b""
    return value if isinstance(value, bytes) else _plain(value).encode("utf-8", "surrogateescape")


def _plain(value: Any) -> str:
    """A decoded value as text: containers as JSON."""
    if isinstance(value, str):
        return value
    return to_json(value) if isinstance(value, (bool, dict, list)) else str(value)
