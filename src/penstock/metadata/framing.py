"""Records of the metadata log as bytes: the value of a log record is a small head and the message.

    frame version (unsigned varint, 1) | record type | version of the message | message

Records are written in their newest version: the lowest `metadata.version` that this software finalises
(`features`) has them all. Reading is as strict as Kafka's: an unknown frame, type or version means a log from
newer software, and nothing after it could be understood.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from penstock.metadata.errors import CorruptMetadata
from penstock.metadata.records import RECORDS
from penstock.protocol.codec import Codec, codec
from penstock.protocol.declare import declaration_of
from penstock.protocol.errors import MalformedMessage
from penstock.runtime.disk import Buffer

FRAME_VERSION = 1

_encoders: dict[type, tuple[bytes, Codec[Any]]] = {}


def encode_record(record: Any) -> bytes:
    head, message_codec = _encoder(type(record))
    return head + message_codec.encode(record)


def decode_record(value: Buffer) -> object:
    return decode_versioned(value)[0]


def decode_versioned(value: Buffer) -> tuple[object, int]:
    """A record, and the version in which it was written."""
    view = memoryview(value)
    try:
        frame_version, position = _read_varint(view, 0)
        if frame_version != FRAME_VERSION:
            raise CorruptMetadata(f"a metadata record has frame version {frame_version}, not {FRAME_VERSION}")
        key, position = _read_varint(view, position)
        version, position = _read_varint(view, position)
        message, end = _decoder(key, version).decode(view, position)
    except (MalformedMessage, IndexError) as exc:
        raise CorruptMetadata(f"a metadata record can not be read: {exc}") from exc
    if end != len(view):
        raise CorruptMetadata(f"{len(view) - end} bytes are left over after a {type(message).__name__}")
    return message, version


def _encoder(cls: type) -> tuple[bytes, Codec[Any]]:
    found = _encoders.get(cls)
    if found is not None:
        return found
    declaration = declaration_of(cls)
    assert declaration.key is not None, f"{cls.__name__} is no record of the metadata log"
    version = declaration.last_version
    head = _varint(FRAME_VERSION) + _varint(declaration.key) + _varint(version)
    found = _encoders[cls] = head, codec(cls, version)
    return found


@cache
def _decoder(key: int, version: int) -> Codec[Any]:
    cls = RECORDS.get(key)
    if cls is None:
        raise CorruptMetadata(f"there is no metadata record of type {key}")
    if version not in declaration_of(cls).versions:
        raise CorruptMetadata(f"{cls.__name__} has no version {version} here")
    return codec(cls, version)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_varint(view: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 35:
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise CorruptMetadata("a varint of a metadata record does not end")
