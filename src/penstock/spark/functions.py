"""Avro and Protobuf as column functions, with or without a schema registry. Spark's own need extra jars.

    from penstock.spark.functions import from_avro, to_avro

    at = {"registry": "http://localhost:8081", "subject": "orders-value"}
    frame.select(to_avro(struct("id", "name"), schema, **at).alias("value"))

The source decodes by itself, faster and with dead letters (`valueFormat`). These functions are for data from elsewhere
and for writing. The schema is fixed when the function is called; a newer one in the registry is not noticed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]  # documented, but not re-exported
from pyspark.sql.types import BinaryType

from penstock.client.serializers.avro import AvroSerializer
from penstock.client.serializers.libraries import need
from penstock.spark.decoding import Decoder
from penstock.spark.decoding.avro import AvroDecoder, RegisteredAvroDecoder, texts_of
from penstock.spark.decoding.avro_types import parse
from penstock.spark.decoding.framing import RegistryAt
from penstock.spark.decoding.protobuf import ProtobufDecoder, RegisteredProtobufDecoder
from penstock.spark.decoding.protobuf_schemas import files_in
from penstock.spark.errors import BadOption, PoisonRecord

Poison = Literal["fail", "null"]
AvroSchema = str | dict[str, Any] | list[Any]


def from_avro(
    column: Column | str,
    schema: AvroSchema | None = None,
    *,
    registry: str | None = None,
    subject: str | None = None,
    login: str = "",
    poison: Poison = "fail",
) -> Column:
    """Decode Avro. With a registry, every value starts with its schema id and is resolved to `schema`, or to the latest
    schema of `subject`."""
    texts: tuple[str, ...] = () if schema is None else (_text(schema),)
    if registry is None:
        if not texts:
            raise BadOption("from_avro needs a schema, or a registry and a subject")
        return _decoded(column, AvroDecoder.of(texts), poison)
    at = RegistryAt(registry, login)
    if not texts:
        texts = texts_of(at.client, at.client.latest(_require_subject(subject)).schema)
    return _decoded(column, RegisteredAvroDecoder.of(at, texts), poison)


def to_avro(
    column: Column | str,
    schema: AvroSchema | None = None,
    *,
    registry: str | None = None,
    subject: str | None = None,
    login: str = "",
) -> Column:
    """Encode as Avro. With a registry, every value starts with its schema id: `schema` is registered under `subject`;
    without one the latest schema of the subject is used."""
    if registry is None and schema is None:
        raise BadOption("to_avro needs a schema, or a registry and a subject")
    if registry is not None:
        _require_subject(subject)
    text = None if schema is None else _text(schema)
    if text is not None:
        parse((text,), keep_logical=True)  # a bad schema fails here and not in a task
    plan = _Encoding(text, None if registry is None else RegistryAt(registry, login), subject or "")

    def encode(values: pa.Array) -> pa.Array:
        write = _writer(plan)
        rows = values.to_pylist(maps_as_pydicts="strict")
        return pa.array([None if row is None else write(row) for row in rows], pa.binary())

    # No function type: Spark takes it from the type hints, and warns if it is given.
    encoded: Column = arrow_udf(encode, returnType=BinaryType())(column)
    return encoded


def from_protobuf(
    column: Column | str,
    schema: str | None = None,
    message: str | None = None,
    *,
    registry: str | None = None,
    subject: str | None = None,
    login: str = "",
    poison: Poison = "fail",
) -> Column:
    """Decode Protobuf messages. `schema` is a FileDescriptorSet, as base64 or by its path."""
    decoder: Decoder
    if registry is None:
        if schema is None:
            raise BadOption("from_protobuf needs a schema, or a registry and a subject")
        decoder = ProtobufDecoder.of(files_in(schema, message))
    elif schema is not None:
        decoder = RegisteredProtobufDecoder.of(RegistryAt(registry, login), files_in(schema, message))
    else:
        decoder = RegisteredProtobufDecoder.latest(
            RegistryAt(registry, login), _require_subject(subject), message
        )
    return _decoded(column, decoder, poison)


def _decoded(column: Column | str, decoder: Decoder, poison: Poison) -> Column:
    if poison not in ("fail", "null"):
        raise BadOption(f"poison is {poison!r}; a column function can only fail or return null")

    def decode(values: pa.Array) -> pa.Array:
        decoded = decoder.decode(values)
        if decoded.bad and poison == "fail":
            bad = decoded.bad[0]
            raise PoisonRecord(
                f"cannot decode a value: {bad.reason} ({len(decoded.bad)} of {len(values)} values are bad)"
            )
        return decoded.values

    found: Column = arrow_udf(decode, returnType=decoder.data_type)(column)
    return found


class _Encoding(NamedTuple):
    schema: str | None
    registry: RegistryAt | None
    subject: str


@lru_cache
def _writer(plan: _Encoding) -> Callable[[Any], Any]:
    """The function that encodes one value; cached per process, because it may ask a registry."""
    if plan.registry is not None:
        serializer = AvroSerializer(
            plan.registry.client,
            plan.schema,
            subject=lambda topic, is_key, record: plan.subject,
            use_latest=plan.schema is None,
        )
        return serializer.for_topic("", is_key=False)
    fastavro = need("fastavro", extra="serializers")
    assert plan.schema is not None
    schema = parse((plan.schema,), keep_logical=True).schema

    def write(value: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, value)
        return out.getvalue()

    return write


def _text(schema: AvroSchema) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)


def _require_subject(subject: str | None) -> str:
    if subject is None:
        raise BadOption("a registry has many schemas: give the subject")
    return subject
