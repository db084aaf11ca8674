"""Encoding and decoding the records of a coordinator's log, in Kafka's format.

    key:   type of the record (int16) | message, always in its version 0
    value: version of the message (int16) | message

An unknown type or version, written by newer software, is not an error: it is skipped, as in Kafka, so that the log can
still be loaded after a downgrade.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.coordinator.result import NEWEST, CoordinatorRecord
from penstock.protocol.codec import EncodeParts, codec
from penstock.protocol.declare import declaration_of
from penstock.protocol.errors import MalformedMessage
from penstock.records.batch import RecordRows

HEAD = struct.Struct(">h")

Writer = Callable[[Any], bytes]
EncodedRecord = tuple[int, bytes, bytes | None, tuple[()]]
"""Timestamp, key, value, and no headers: a `NewRecord` as a plain tuple, which is faster (bench `commits`)."""
BlockWriter = Callable[[Any, Any, int], RecordRows | list[EncodedRecord]]
"""From the key, the value and the timestamp of a block to its records."""


class UnknownRecord(Exception):
    """A record of an unknown type or version."""


class CorruptRecord(Exception):
    """A record that cannot be decoded."""


class RecordSerde:
    """For the record types of one coordinator: pairs of key and value classes, with one number each.

    `writers` are fast replacements of `writer_of`, for keys and for values of the newest version.
    `blocks` write a `CoordinatorRecord` that stands for many records, by the type of its key.
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

    def encode_all(
        self, records: Iterable[CoordinatorRecord], *, timestamp_ms: int
    ) -> list[EncodedRecord | RecordRows]:
        """All records, with those of blocks, for `kernel.build_batch`."""
        encoded: list[EncodedRecord | RecordRows] = []
        for record in records:
            write_block = self._block_writers.get(type(record.key))
            if write_block is None:
                key, value = self.encode(record)
                encoded.append((timestamp_ms, key, value, ()))
                continue
            block = write_block(record.key, record.value, timestamp_ms)
            if isinstance(block, RecordRows):
                encoded.append(block)
            else:
                encoded += block
        return encoded

    def encode(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        key, value, version = record
        # Cached for each type: bench `commits`.
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
    """Writes messages of one type and version, after two bytes with the number `head`."""
    head_bytes = HEAD.pack(head)
    encode_parts: EncodeParts[Any] = codec(message_type, version).encode_parts

    def write(message: Any) -> bytes:
        (data,) = encode_parts(message, head_bytes)
        assert isinstance(data, bytes), "coordinator records do not contain files"
        return data

    return write
