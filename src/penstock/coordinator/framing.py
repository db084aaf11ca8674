"""Records of a coordinator's log as bytes, as Kafka lays them out.

    key:   type of the record (int16) | message, always in its version 0
    value: version of the message (int16) | message

A type or version from newer software is not an error: whoever replays passes over it, as Kafka does, so
that a log which newer software has written can still be served after going back.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.coordinator.outcome import NEWEST, CoordinatorRecord
from penstock.protocol.codec import EncodeParts, codec
from penstock.protocol.declare import declaration_of
from penstock.protocol.errors import MalformedMessage
from penstock.records.batch import RecordRows

HEAD = struct.Struct(">h")

Writer = Callable[[Any], bytes]
EncodedRecord = tuple[int, bytes, bytes | None, tuple[()]]
"""Timestamp, key, value, and no headers: a `NewRecord` in all but name, which costs nothing (bench `commits`)."""
BlockWriter = Callable[[Any, Any, int], RecordRows | list[EncodedRecord]]
"""From the key and the value of a block and the time to its records."""


class UnknownRecord(Exception):
    """A record of a type or version that this software does not know."""


class CorruptRecord(Exception):
    """A record that cannot be read as what it says it is."""


class RecordFraming:
    """The record types of one coordinator: pairs of key and value classes, with one number each.

    `writers` are for what is written often: keys, and values of the newest version. They do what `writer_of` would.
    `blocks` are for what is written by the dozen: by the type of the key that stands for those of many records.
    """

    def __init__(
        self,
        types: Iterable[tuple[type, type]],
        writers: Mapping[type, Writer] | None = None,
        blocks: Mapping[type, BlockWriter] | None = None,
    ) -> None:
        self._types: dict[int, tuple[type, type]] = {}
        for key_type, value_type in types:
            number = declaration_of(key_type).key
            assert number is not None, f"{key_type.__name__} has no number"
            assert declaration_of(value_type).key == number, f"{value_type.__name__} belongs to another key"
            self._types[number] = (key_type, value_type)
        self._key_writers: dict[type, Writer] = dict(writers or {})
        self._value_writers: dict[tuple[type, int], Writer] = {
            (message_type, NEWEST): writer for message_type, writer in (writers or {}).items()
        }
        self._block_writers: dict[type, BlockWriter] = dict(blocks or {})

    def lay_out(
        self, records: Iterable[CoordinatorRecord], *, timestamp_ms: int
    ) -> list[EncodedRecord | RecordRows]:
        """All records, those in blocks among them, as `kernel.build_batch` takes them."""
        laid_out: list[EncodedRecord | RecordRows] = []
        for record in records:
            write_block = self._block_writers.get(type(record.key))
            if write_block is None:
                key, value = self.encode(record)
                laid_out.append((timestamp_ms, key, value, ()))
                continue
            block = write_block(record.key, record.value, timestamp_ms)
            if isinstance(block, RecordRows):
                laid_out.append(block)
            else:
                laid_out += block
        return laid_out

    def encode(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        key, value, version = record
        # Looked up once for each type: bench `commits`.
        key_writer = self._key_writers.get(type(key))
        if key_writer is None:
            number = declaration_of(type(key)).key
            assert number in self._types, f"{type(key).__name__} is not a key of this log"
            key_writer = self._key_writers[type(key)] = writer_of(type(key), head=number, version=0)
        if value is None:
            return key_writer(key), None
        value_writer = self._value_writers.get((type(value), version))
        if value_writer is None:
            written = declaration_of(type(value)).last_version if version == NEWEST else version
            value_writer = writer_of(type(value), head=written, version=written)
            self._value_writers[type(value), version] = value_writer
        return key_writer(key), value_writer(value)

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


def writer_of(message_type: type, *, head: int, version: int) -> Writer:
    """Writes messages of one type and version, with two bytes before them."""
    head_bytes = HEAD.pack(head)
    encode_parts: EncodeParts[Any] = codec(message_type, version).encode_parts

    def write(message: Any) -> bytes:
        (data,) = encode_parts(message, head_bytes)
        assert isinstance(data, bytes), "no record of a coordinator has a file in it"
        return data

    return write
