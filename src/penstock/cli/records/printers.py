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
"""The bytes to print for a record, with the end of its line."""
Decode = Callable[[ReadRecord], tuple[Any, Any]]
"""The key and the value of a record, as bytes or as what their formats make of them."""


@dataclass(frozen=True, slots=True)
class Look:
    """How records are to be printed."""

    format: str = "table"
    template: str | None = None
    separator: str = "\n"
    key_separator: str = "\t"
    key_format: str | None = None
    value_format: str | None = None

    @property
    def has_head(self) -> bool:
        """Whether the names of columns come first."""
        return self.format == "table" and self.template is None


DEFAULT_LOOK = Look()


def make_printer(look: Look, settings: Mapping[str, object]) -> PrintRecord:
    """What prints a record. Rejects unknown formats and templates before anything is read."""
    decode = make_decoder(look, settings)
    if look.template is not None:
        return _template(look.template, decode)
    match look.format:
        case "json":
            return lambda message: _json(message, *decode(message))
        case "raw":
            end = look.separator.encode()
            return lambda message: _raw(decode(message)[1]) + end
        case "key-value":
            between = look.key_separator.encode()
            return lambda message: between.join(map(_raw, decode(message))) + b"\n"
        case _:
            return lambda message: _row(message, *decode(message))


def make_decoder(look: Look, settings: Mapping[str, object]) -> Decode:
    if look.key_format is None and look.value_format is None:
        return lambda message: (message.key, message.value)

    @cache
    def reader(topic: str, side: Side) -> FormatReader | None:
        name = look.key_format if side == "key" else look.value_format
        return make_reader(name, side=side, topic=topic, settings=settings)

    def read(message: ReadRecord, side: Side, data: bytes | None) -> object:
        found = reader(message.topic, side)
        if found is None:
            return data
        return found.read(data, place=f"{message.topic}-{message.partition}, offset {message.offset}")

    reader("", "key"), reader("", "value")  # which rejects a format that does not exist
    return lambda message: (read(message, "key", message.key), read(message, "value", message.value))


TABLE_HEAD = (
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
    """A text with names in braces, which is checked before anything is read."""
    text = unescape(template)
    try:
        text.format(**dict.fromkeys(TEMPLATE_NAMES, ""))
    except (KeyError, IndexError, ValueError) as problem:
        raise Misuse(
            f"--template {template}: {problem} is not known; braces may hold {', '.join(TEMPLATE_NAMES)}"
        ) from problem

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
    """On one line, and without anything that would move a cursor."""
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
    """A decoded value as text: numbers and text as they are, anything with parts as JSON."""
    if isinstance(value, str):
        return value
    return to_json(value) if isinstance(value, (bool, dict, list)) else str(value)
