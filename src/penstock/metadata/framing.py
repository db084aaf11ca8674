"""The encoding of metadata records: the value of a log record is a small header and the message.

    frame version (unsigned varint, 1) | record type | version of the message | message

The cluster's `metadata.version` decides in which version a record is written. Decoding is as strict as Kafka's: an
unknown frame, type or version means that newer software wrote the log.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from penstock.metadata.errors import CorruptMetadata
from penstock.metadata.features import (
    CORDONED_METADATA_VERSION,
    ELIGIBLE_LEADERS_METADATA_VERSION,
    LATEST_METADATA_VERSION,
)
from penstock.metadata.records import (
    RECORDS,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from penstock.protocol.codec import Codec, codec
from penstock.protocol.declare import declaration_of
from penstock.protocol.errors import MalformedMessage
from penstock.runtime.disk import Buffer

FRAME_VERSION = 1

_OLDER_VERSIONS: dict[type, tuple[int, int]] = {
    PartitionRecord: (ELIGIBLE_LEADERS_METADATA_VERSION, 1),
    PartitionChangeRecord: (ELIGIBLE_LEADERS_METADATA_VERSION, 1),
    RegisterBrokerRecord: (CORDONED_METADATA_VERSION, 3),
    BrokerRegistrationChangeRecord: (CORDONED_METADATA_VERSION, 2),
}
"""Below this `metadata.version` a record is written in this version, otherwise in its newest one."""


_encoders: dict[tuple[type, int], tuple[bytes, Codec[Any]]] = {}


def encode_record(record: Any, metadata_version: int = LATEST_METADATA_VERSION) -> bytes:
    head, message_codec = _encoder(type(record), metadata_version)
    return head + message_codec.encode(record)


def decode_record(value: Buffer) -> object:
    return decode_versioned(value)[0]


def decode_versioned(value: Buffer) -> tuple[object, int]:
    """A record and its version."""
    view = memoryview(value)
    try:
        frame_version, position = _read_varint(view, 0)
        if frame_version != FRAME_VERSION:
            raise CorruptMetadata(f"a metadata record has frame version {frame_version}, not {FRAME_VERSION}")
        key, position = _read_varint(view, position)
        version, position = _read_varint(view, position)
        message, end = _decoder(key, version).decode(view, position)
    except (MalformedMessage, IndexError) as exc:
        raise CorruptMetadata(f"a metadata record cannot be decoded: {exc}") from exc
    if end != len(view):
        raise CorruptMetadata(f"{len(view) - end} unexpected bytes after a {type(message).__name__}")
    return message, version


def _encoder(cls: type, metadata_version: int) -> tuple[bytes, Codec[Any]]:
    found = _encoders.get((cls, metadata_version))
    if found is not None:
        return found
    declaration = declaration_of(cls)
    assert declaration.key is not None, f"{cls.__name__} is not a metadata record"
    version = declaration.last_version
    if cls in _OLDER_VERSIONS and metadata_version < _OLDER_VERSIONS[cls][0]:
        version = _OLDER_VERSIONS[cls][1]
    head = _varint(FRAME_VERSION) + _varint(declaration.key) + _varint(version)
    found = _encoders[cls, metadata_version] = head, codec(cls, version)
    return found


@cache
def _decoder(key: int, version: int) -> Codec[Any]:
    cls = RECORDS.get(key)
    if cls is None:
        raise CorruptMetadata(f"unknown metadata record type {key}; newer software may have written the log")
    if version not in declaration_of(cls).versions:
        raise CorruptMetadata(
            f"unknown version {version} of {cls.__name__}; newer software may have written the log"
        )
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
    raise CorruptMetadata("a metadata record has an invalid varint")
