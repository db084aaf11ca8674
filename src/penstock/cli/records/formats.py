"""Formats of keys and values: `--key-format string --value-format long`.

The names are those of the Python client's serializers: `long` is `value.deserializer=long`, and `avro` takes the same
settings. `hex` and `base64` show the raw bytes.

This module converts between bytes and values; `printers` prints values.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from penstock.cli.failures import Misuse, Refusal

Side = Literal["key", "value"]

# Numbers by the client's names, with their size in bytes.
WHOLE_NUMBERS = {"int": 8, "int64": 8, "long": 8, "int32": 4, "integer": 4, "int16": 2, "short": 2}
NUMBERS = {"float": 8, "float64": 8, "double": 8, "float32": 4}
TEXTS = frozenset(
    {"string", "str", "uuid", "hex", "base64"}
)  # entered as text; other formats are entered as JSON

KNOWN = "string, json, long, integer, short, double, float32, boolean, uuid, hex, base64, avro, protobuf, json-schema"


@dataclass(frozen=True, slots=True)
class FormatReader:
    """Reads the keys or the values of one topic."""

    name: str
    side: Side
    decode: Callable[[bytes], Any]

    def read(self, data: bytes | None, *, place: str) -> object:
        """Decode these bytes. `place` names the record in the error."""
        if data is None:
            return None
        try:
            return self.decode(data)
        except Exception as problem:  # any error of a deserializer
            raise Refusal(
                f"{place}: the {self.side} is not {self.name}: {_reason(problem, self.name, data)}; "
                f"choose another --{self.side}-format, or none to see the bytes"
            ) from problem


@dataclass(frozen=True, slots=True)
class FormatWriter:
    """Writes the keys or the values of one topic."""

    name: str
    side: Side
    encode: Callable[[Any], Any]

    def write_text(self, text: str) -> bytes:
        """Serialize text typed by the user. ValueError if it has not this format."""
        return self.write(_parse(text, self.name))

    def write(self, value: object) -> bytes:
        """Serialize a value. ValueError if it has not this format."""
        try:
            data = self.encode(value)
        except Exception as problem:  # any error of a serializer
            raise ValueError(f"{value!r} is not {self.name}: {problem}") from problem
        return data.encode() if isinstance(data, str) else bytes(data)


def make_reader(
    name: str | None, *, side: Side, topic: str, settings: Mapping[str, object]
) -> FormatReader | None:
    """The reader of keys or values; None if they are shown as text."""
    known = _canonical(name)
    if name is None or known is None:
        return None
    if known in ("hex", "base64"):
        return FormatReader(known, side, bytes.hex if known == "hex" else _show_base64)
    from penstock.client.serializers.resolve import deserializer_of
    from penstock.client.settings import ConsumerSettings

    with _naming_option(side, known):
        found = deserializer_of(known, ConsumerSettings.of(settings))
    return None if found is None else FormatReader(name, side, found.for_topic(topic, is_key=side == "key"))


def make_writer(
    name: str | None, *, side: Side, topic: str, settings: Mapping[str, object]
) -> FormatWriter | None:
    """The writer of keys or values; None if the text is written as it is."""
    known = _canonical(name)
    if name is None or known is None:
        return None
    if known in ("hex", "base64"):
        return FormatWriter(known, side, _read_hex if known == "hex" else _read_base64)
    from penstock.client.serializers.resolve import serializer_of
    from penstock.client.settings import ProducerSettings

    with _naming_option(side, known):
        found = serializer_of(known, ProducerSettings.of(settings))
    return None if found is None else FormatWriter(name, side, found.for_topic(topic, is_key=side == "key"))


def _canonical(name: str | None) -> str | None:
    """Our name for a class of Kafka."""
    from penstock.client.setting_values import JAVA_NAMES

    return None if name is None else JAVA_NAMES.get(name.strip(), name.strip())


@contextmanager
def _naming_option(side: Side, name: str | None) -> Iterator[None]:
    """Name the option in the error."""
    from penstock.client.errors import BadConfiguration

    try:
        yield
    except BadConfiguration as problem:
        is_unknown = str(problem).startswith("unknown ")
        message = f"unknown; choose one of {KNOWN}" if is_unknown else str(problem)
        if "set schema.registry.url" in message:
            message += " (-X schema.registry.url=http://...)"
        raise Misuse(f"--{side}-format {name}: {message}") from problem


def _parse(text: str, name: str) -> object:
    known = _canonical(name)
    try:
        if known in WHOLE_NUMBERS:
            return int(text)
        if known in NUMBERS:
            return float(text)
        if known in ("boolean", "bool"):
            return {"true": True, "false": False}[text.strip().lower()]
        return text if known in TEXTS else json.loads(text)
    except (ValueError, KeyError):
        raise ValueError(f"{text!r} is not {name}") from None


def _reason(problem: Exception, name: str, data: bytes) -> str:
    size = (WHOLE_NUMBERS | NUMBERS).get(_canonical(name) or "")
    if isinstance(problem, struct.error) and size is not None:
        return f"it has {len(data)} bytes, but {name} has {size}"
    return str(problem) or type(problem).__name__


def _show_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _read_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ValueError("it must have two hexadecimal digits for each byte, such as 00ff") from None


def _read_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
