"""Decodes Protobuf messages of one type, as the query's schema declares it.

The schema of the query is fixed when the query starts. Fields that a newer writer adds are skipped, as Protobuf
intends. A change that Protobuf would hide (a field with another type) makes the values bad, with the reason.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy
import pyarrow as pa

from penstock.client.serializers.framing import read_indexes
from penstock.client.serializers.protobuf import ProtobufDeserializer
from penstock.spark.decoding.base import (
    Bad,
    Decoded,
    Decoder,
    bad_by,
    build_rows,
    by_halves,
    read_rows,
    spread,
)
from penstock.spark.decoding.buffers import bytes_of, without_first
from penstock.spark.decoding.framing import Framed, RegistryAt
from penstock.spark.decoding.protobuf_columns import Read, read_column, reader_of
from penstock.spark.decoding.protobuf_schemas import (
    CLASSES_MAX,
    Files,
    files_of,
    message_class,
    reason_against,
)
from penstock.spark.decoding.protobuf_types import Column, column_of


@dataclasses.dataclass(frozen=True)
class ProtobufDecoder(Decoder):
    """Messages without a schema id."""

    schema: Files

    @classmethod
    def of(cls, schema: Files) -> ProtobufDecoder:
        return cls(_column(schema).data_type, schema)

    def _decode_present(self, column: pa.Array) -> Decoded:
        read = self._read_column
        return by_halves(column, None if read is None else partial(read_column, read), self._by_rows)

    def _by_rows(self, column: pa.Array) -> Decoded:
        messages, bad = read_rows(column.to_pylist(), self._read)
        return build_rows(messages, self._build, bad)

    @cached_property
    def _read_column(self) -> Read | None:
        """Reads all rows at once; None if they have to be read one by one."""
        return reader_of(message_class(self.schema).DESCRIPTOR, self.arrow_type)

    @cached_property
    def _read(self) -> Callable[[bytes], Any]:
        parse, name = message_class(self.schema).FromString, self.schema.message

        def read(data: bytes) -> Any:
            try:
                return parse(data)
            except Exception as error:  # its class depends on the implementation
                raise ValueError(f"the bytes are not a {name}: {error}") from error

        return read

    def _build(self, messages: list[Any]) -> pa.Array:
        mask = None
        if None in messages:
            missing, empty = [message is None for message in messages], message_class(self.schema)()
            messages, mask = (
                [empty if message is None else message for message in messages],
                pa.array(missing),
            )
        return _column(self.schema).extract(messages, mask)


@dataclasses.dataclass(frozen=True)
class RegisteredProtobufDecoder(Framed):
    """Messages after the id of their schema and their index path in it."""

    schema: Files

    @classmethod
    def of(cls, registry: RegistryAt, schema: Files) -> RegisteredProtobufDecoder:
        return cls(_column(schema).data_type, registry, schema)

    @classmethod
    def latest(cls, registry: RegistryAt, subject: str, message: str | None) -> RegisteredProtobufDecoder:
        """By the latest schema of the subject: its first message, or the named one."""
        descriptor = _writer(registry, registry.client.latest(subject).id, (0,))
        schema = files_of(descriptor)
        return cls.of(registry, schema._replace(message=message) if message else schema)

    def _decode_group(self, schema_id: int, bodies: pa.Array) -> Decoded:
        paths, bare, bad = split_indexes(bodies)
        reasons = {path: self._reason(schema_id, path) for path in set(paths) if path is not None}
        rows = []
        for row, path in enumerate(paths):
            if path is None:
                continue
            reason = reasons[path]
            if reason is None:
                rows.append(row)
            else:
                bad.append(Bad(row, f"schema {schema_id}: {reason}"))
        if not rows:
            return Decoded(pa.nulls(len(bodies), self.arrow_type), sorted(bad))
        plain = ProtobufDecoder(self.data_type, self.schema)
        if len(rows) == len(bodies):
            return plain.decode(bare)
        decoded = plain.decode(bare.take(pa.array(rows)))
        bad += [each._replace(row=rows[each.row]) for each in decoded.bad]
        return Decoded(spread(decoded.values, rows, len(bodies)), sorted(bad))

    def _reason(self, schema_id: int, path: tuple[int, ...]) -> str | None:
        try:
            writer = _writer(self.registry, schema_id, path)
        except ValueError as error:
            return str(error)
        if writer.full_name != self.schema.message:
            return f"this is a {writer.full_name}, but the query reads {self.schema.message}"
        return reason_against(message_class(self.schema).DESCRIPTOR, writer)


def split_indexes(bodies: pa.Array) -> tuple[list[tuple[int, ...] | None], pa.Array, list[Bad]]:
    """The index path that each row starts with (None if it has none), and the bytes after it."""
    data, offsets = bytes_of(bodies)
    if len(bodies) and (numpy.diff(offsets) > 0).all() and (data[offsets[:-1]] == 0).all():
        # The first message of the schema, which is nearly always meant.
        return [(0,)] * len(bodies), without_first(bodies, 1), []
    paths: list[tuple[int, ...] | None] = []
    rest: list[bytes] = []
    bad: list[Bad] = []
    for row, body in enumerate(bodies.to_pylist()):
        try:
            path, position = read_indexes(body, 0)
        except ValueError as error:
            bad.append(bad_by(row, error))
            paths.append(None)
            rest.append(b"")
        else:
            paths.append(tuple(path))
            rest.append(body[position:])
    return paths, pa.array(rest, pa.binary()), bad


@lru_cache(CLASSES_MAX)
def _writer(registry: RegistryAt, schema_id: int, path: tuple[int, ...]) -> Any:
    return ProtobufDeserializer(registry=registry.client).class_at(schema_id, path).DESCRIPTOR


@lru_cache(CLASSES_MAX)
def _column(schema: Files) -> Column:
    return column_of(message_class(schema).DESCRIPTOR)
