"""Serializers that need no library: text, numbers, UUIDs and JSON.

The bytes are those of Kafka's own serializers, so that Java programs read and write the same. A `Format` has both
sides.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from penstock.client.serializers.base import Deserialize, Serialize


class Encoder(NamedTuple):
    """A serializer that is the same for all topics."""

    encode: Serialize

    def for_topic(self, topic: str, /, *, is_key: bool) -> Serialize:
        return self.encode


class Decoder(NamedTuple):
    """A deserializer that is the same for all topics."""

    decode: Deserialize

    def for_topic(self, topic: str, /, *, is_key: bool) -> Deserialize:
        return self.decode


class Format(NamedTuple):
    """Both sides of a format."""

    encode: Serialize
    decode: Deserialize


def _number(layout: str) -> Format:
    packed = struct.Struct(layout)
    unpack: Callable[[bytes], tuple[Any, ...]] = packed.unpack

    def decode(data: bytes) -> Any:
        return unpack(data)[0]

    return Format(packed.pack, decode)


def _encode_boolean(value: Any) -> bytes:
    if not isinstance(value, bool):
        raise TypeError("must be True or False")
    return b"\x01" if value else b"\x00"


def _decode_boolean(data: bytes) -> bool:
    if data not in (b"\x00", b"\x01"):
        raise ValueError("must be one byte, 0 or 1")
    return data == b"\x01"


def _encode_uuid(value: Any) -> bytes:
    # As text, like Kafka. Text that is a UUID is accepted too, and written in its usual form.
    return str(value if isinstance(value, UUID) else UUID(value)).encode()


def _decode_uuid(data: bytes) -> UUID:
    return UUID(data.decode())


# No spaces, no escapes, and no NaN, which is not JSON.
_write_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


_read_json = json.JSONDecoder().decode


def _encode_json(value: Any) -> bytes:
    return _write_json(value).encode()


def _decode_json(data: bytes) -> Any:
    return _read_json(str(data, "utf-8"))


def _encode_void(value: Any) -> bytes:
    raise TypeError("the serializer `void` accepts only None")


def _decode_void(data: bytes) -> None:
    return None


def _decode_text(data: bytes) -> str:
    return str(data, "utf-8")


STRING = Format(str.encode, _decode_text)
JSON = Format(_encode_json, _decode_json)
INT16 = _number(">h")
INT32 = _number(">i")
INT64 = _number(">q")
FLOAT32 = _number(">f")
FLOAT64 = _number(">d")
BOOLEAN = Format(_encode_boolean, _decode_boolean)
UUID_TEXT = Format(_encode_uuid, _decode_uuid)
VOID = Format(_encode_void, _decode_void)
