"""Decodes Avro: each value by its writer's schema, resolved to the query's schema.

The schema of the query is fixed when the query starts. Values of another schema, which their registry id names, are
resolved by Avro's rules: a missing field takes its default, a new one is skipped, an int becomes a long. A value
that cannot be resolved is bad, and so is one with bytes left over, because another schema wrote it.
"""

from __future__ import annotations

import dataclasses
import io
import struct
from collections.abc import Callable
from functools import cached_property, lru_cache, partial
from typing import Any

import pyarrow as pa

from penstock.client.serializers.libraries import need
from penstock.client.serializers.registry import Registry, Schema
from penstock.spark.decoding.avro_columns import Read, read_column, reader_of
from penstock.spark.decoding.avro_resolving import resolver_of
from penstock.spark.decoding.avro_types import Column, Parsed, column_of, parse
from penstock.spark.decoding.base import (
    Decoded,
    Decoder,
    all_bad,
    build_rows,
    by_halves,
    read_rows,
)
from penstock.spark.decoding.framing import Framed, RegistryAt
from penstock.spark.errors import BadOption
from penstock.spark.internals import arrow_type_of

PARSED_MAX = 256  # cached schemas per process
# Errors of the library whose messages do not help users.
VAGUE_ERRORS = (EOFError, IndexError, OverflowError, struct.error)


@dataclasses.dataclass(frozen=True)
class AvroDecoder(Decoder):
    """Values without a schema id, all written with one schema."""

    texts: tuple[str, ...]
    """The schema of the query, after those that it refers to."""
    written_by: tuple[str, ...] = ()
    """The schema of the writer, likewise; empty if it is the same."""

    @classmethod
    def of(cls, texts: tuple[str, ...]) -> AvroDecoder:
        return cls(_column(texts).data_type, texts)

    def _decode_present(self, column: pa.Array) -> Decoded:
        read = self._read_column
        return by_halves(column, None if read is None else partial(read_column, read), self._by_rows)

    def _by_rows(self, column: pa.Array) -> Decoded:
        values, bad = read_rows(column.to_pylist(), self._read)
        return build_rows(values, _column(self.texts).build, bad)

    @cached_property
    def _read_column(self) -> Read | None:
        """Reads all rows at once; None if they have to be read one by one."""
        if not self.written_by:
            return reader_of(_whole(self.texts), self.arrow_type)
        try:
            written_type = arrow_type_of(_column(self.written_by).data_type)
        except BadOption:  # a type that Spark lacks may be of a field that the query does not read
            return None
        read = reader_of(_whole(self.written_by), written_type)
        resolve = resolver_of(_whole(self.written_by), _whole(self.texts), self.arrow_type)
        if read is None or resolve is None:
            return None
        return lambda lanes: resolve(read(lanes))

    @cached_property
    def _read(self) -> Callable[[bytes], Any]:
        fastavro = need("fastavro", extra="serializers")
        schemaless_reader, in_memory = fastavro.schemaless_reader, io.BytesIO
        writer = _bare(self.written_by or self.texts).schema
        reader = _bare(self.texts).schema if self.written_by else None
        has_unions = _bare(self.texts).has_unions
        names = {"return_record_name": has_unions, "return_named_type": has_unions}

        def read(data: bytes) -> Any:
            stream = in_memory(data)
            try:
                value = schemaless_reader(stream, writer, reader, **names)
            except VAGUE_ERRORS as error:
                raise ValueError("the bytes do not match the schema, or are incomplete") from error
            left = len(data) - stream.tell()
            if left:
                raise ValueError(f"{left} bytes are left after the value: it was written with another schema")
            return value

        return read


@dataclasses.dataclass(frozen=True)
class RegisteredAvroDecoder(Framed):
    """Values that start with the id of their schema."""

    texts: tuple[str, ...]

    @classmethod
    def of(cls, registry: RegistryAt, texts: tuple[str, ...]) -> RegisteredAvroDecoder:
        return cls(_column(texts).data_type, registry, texts)

    def _decode_group(self, schema_id: int, bodies: pa.Array) -> Decoded:
        schema = self.registry.client.schema(schema_id)
        if schema.type != "AVRO":
            reason = f"schema {schema_id} has type {schema.type}, but the query reads Avro"
            return all_bad(len(bodies), self.arrow_type, reason, "ValueError")
        written_by = texts_of(self.registry.client, schema)
        try:
            _bare(written_by)
        except BadOption as error:
            return all_bad(len(bodies), self.arrow_type, f"schema {schema_id}: {error}", "ValueError")
        same = written_by == self.texts or _whole(written_by).schema == _whole(self.texts).schema
        decoded = _resolving(self.texts, () if same else written_by).decode(bodies)
        if same or not decoded.bad:
            return decoded
        about = f"written with schema {schema_id}, read with the query's schema"
        return Decoded(decoded.values, [bad._replace(reason=f"{about}: {bad.reason}") for bad in decoded.bad])


def texts_of(registry: Registry, schema: Schema) -> tuple[str, ...]:
    """The schema after all that it refers to, each once."""
    texts: dict[str, None] = {}
    for reference in schema.references:
        texts.update(dict.fromkeys(texts_of(registry, registry.schema_at(reference))))
    texts[schema.text] = None
    return tuple(texts)


@lru_cache(PARSED_MAX)
def _resolving(texts: tuple[str, ...], written_by: tuple[str, ...]) -> AvroDecoder:
    return AvroDecoder(_column(texts).data_type, texts, written_by)


@lru_cache(PARSED_MAX)
def _bare(texts: tuple[str, ...]) -> Parsed:
    return parse(texts, keep_logical=False)


@lru_cache(PARSED_MAX)
def _column(texts: tuple[str, ...]) -> Column:
    return column_of(_whole(texts))


@lru_cache(PARSED_MAX)
def _whole(texts: tuple[str, ...]) -> Parsed:
    return parse(texts, keep_logical=True)
