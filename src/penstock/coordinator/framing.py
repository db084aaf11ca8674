"""Records of a coordinator's log as bytes, as Kafka lays them out.

    key:   type of the record (int16) | message, always in its version 0
    value: version of the message (int16) | message

A type or version from newer software is not an error: whoever replays passes over it, as Kafka does, so
that a log which newer software has written can still be served after going back.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from penstock.coordinator.outcome import NEWEST, CoordinatorRecord
from penstock.protocol.codec import codec
from penstock.protocol.declare import declaration_of
from penstock.protocol.errors import MalformedMessage

HEAD = struct.Struct(">h")


class UnknownRecord(Exception):
    """A record of a type or version that this software does not know."""


class CorruptRecord(Exception):
    """A record that cannot be read as what it says it is."""


class RecordFraming:
    """The record types of one coordinator: pairs of key and value classes, with one number each."""

    def __init__(self, types: Iterable[tuple[type, type]]) -> None:
        self._types: dict[int, tuple[type, type]] = {}
        for key_type, value_type in types:
            number = declaration_of(key_type).key
            assert number is not None, f"{key_type.__name__} has no number"
            assert declaration_of(value_type).key == number, f"{value_type.__name__} belongs to another key"
            self._types[number] = (key_type, value_type)

    def encode(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        key_type = type(record.key)
        key = HEAD.pack(declaration_of(key_type).key) + codec(key_type, 0).encode(record.key)
        if record.value is None:
            return key, None
        value_type = type(record.value)
        version = declaration_of(value_type).last_version if record.version == NEWEST else record.version
        return key, HEAD.pack(version) + codec(value_type, version).encode(record.value)

    def decode(self, key: bytes, value: bytes | None) -> tuple[Any, Any | None]:
        decoded_key: Any
        decoded: Any
        try:
            (number,) = HEAD.unpack_from(key)
            if number not in self._types:
                raise UnknownRecord(f"a record of type {number}")
            key_type, value_type = self._types[number]
            decoded_key, _ = codec(key_type, 0).decode(memoryview(key), HEAD.size)
            if value is None:
                return decoded_key, None
            (version,) = HEAD.unpack_from(value)
            if version not in declaration_of(value_type).versions:
                raise UnknownRecord(f"a {value_type.__name__} of version {version}")
            decoded, _ = codec(value_type, version).decode(memoryview(value), HEAD.size)
        except (MalformedMessage, struct.error) as error:
            raise CorruptRecord(f"a record with key {key[:40].hex()} cannot be read: {error}") from error
        return decoded_key, decoded
