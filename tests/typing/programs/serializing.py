"""Every serializer, and everything that may be given for one. Never run: type checkers read it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from penstock.errors import DeserializationFailed, SerializationFailed
from penstock.serializers import (
    ArrowDeserializer,
    ArrowSerializer,
    AvroDeserializer,
    AvroSerializer,
    Context,
    Deserialize,
    Deserializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    Reference,
    Registered,
    Registry,
    Schema,
    Serialize,
    Serializer,
    deserialization_failed,
    deserializer_of,
    serialization_failed,
    serializer_of,
)


@dataclass
class Order:
    id: int


class Shouting:
    """A custom serializer."""

    def for_topic(self, topic: str, /, *, is_key: bool) -> Serialize:
        return lambda value: f"{topic} {is_key} {value}".encode()


def whisper(value: Any, context: Context) -> bytes:
    return f"{context.topic} {context.field} {value}".encode()


def resolve() -> None:
    for spec in (None, "json", int, UUID, Order, Shouting(), Shouting, json.dumps, whisper, len):
        serializer: Serializer | None = serializer_of(spec)
        deserializer: Deserializer | None = deserializer_of(spec)
        if serializer is not None and deserializer is not None:
            serialize: Serialize = serializer.for_topic("orders", is_key=True)
            deserialize: Deserialize = deserializer.for_topic("orders", is_key=True)
            print(serialize("value"), deserialize(b"value"))


def with_a_registry(message: type[Any]) -> None:
    registry = Registry(["http://a:8081", "http://b:8081"], user="alice", password="secret", timeout_s=5)
    schema = Schema("{}", "AVRO", (Reference("name", "subject", 1),))
    schema_id: int = registry.register("orders-value", schema)
    known: Schema = registry.schema(schema_id)
    newest: Registered = registry.latest("orders-value")
    print(
        known,
        newest.version,
        registry.find("orders-value", schema),
        registry.version_of("orders-value", schema),
    )
    print(registry.schema_at(schema.references[0]), registry.serialized(schema_id))
    serializers: list[Serializer] = [
        AvroSerializer(registry, {"type": "string"}, subject="record", auto_register=False),
        AvroSerializer("http://a:8081", use_latest=True),
        JsonSchemaSerializer(registry, schema, validate=False, subject=lambda topic, is_key, record: topic),
        ProtobufSerializer(registry, message),
        ArrowSerializer(),
    ]
    deserializers: list[Deserializer] = [
        AvroDeserializer(registry, into=Order),
        JsonSchemaDeserializer(registry, into=Order),
        ProtobufDeserializer(message),
        ProtobufDeserializer(registry=registry),
        ArrowDeserializer(),
    ]
    print(serializers, deserializers)


def fail() -> None:
    written: SerializationFailed = serialization_failed(ValueError("no"), "orders", "value", is_key=False)
    read: DeserializationFailed = deserialization_failed(
        ValueError("no"), "orders", b"", is_key=False, offset=5
    )
    raise written from read
