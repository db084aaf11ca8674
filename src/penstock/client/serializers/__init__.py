"""Serializers and deserializers of keys and values; public as `penstock.serializers`.

`serializer_of` and `deserializer_of` resolve a name, a type, an object or a function (`resolve`). `base` has the
interfaces, `plain` the serializers without a library. Arrow, typed JSON, and Avro, Protobuf and JSON Schema with a
schema registry are modules of their own, imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._lazy import names_from
from penstock.client.serializers.base import (
    Deserialize,
    Deserializer,
    Serialize,
    Serializer,
    deserialization_failed,
    serialization_failed,
)
from penstock.client.serializers.resolve import Context, deserializer_of, serializer_of

if TYPE_CHECKING:
    from penstock.client.serializers.arrow import ArrowDeserializer, ArrowSerializer
    from penstock.client.serializers.avro import AvroDeserializer, AvroSerializer
    from penstock.client.serializers.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
    from penstock.client.serializers.protobuf import ProtobufDeserializer, ProtobufSerializer
    from penstock.client.serializers.registry import Reference, Registered, Registry, Schema

__all__ = [
    "ArrowDeserializer",
    "ArrowSerializer",
    "AvroDeserializer",
    "AvroSerializer",
    "Context",
    "Deserialize",
    "Deserializer",
    "JsonSchemaDeserializer",
    "JsonSchemaSerializer",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "Reference",
    "Registered",
    "Registry",
    "Schema",
    "Serialize",
    "Serializer",
    "deserialization_failed",
    "deserializer_of",
    "serialization_failed",
    "serializer_of",
]

if not TYPE_CHECKING:
    _HOMES = {
        "ArrowDeserializer": "arrow",
        "ArrowSerializer": "arrow",
        "AvroDeserializer": "avro",
        "AvroSerializer": "avro",
        "JsonSchemaDeserializer": "json_schema",
        "JsonSchemaSerializer": "json_schema",
        "ProtobufDeserializer": "protobuf",
        "ProtobufSerializer": "protobuf",
        "Reference": "registry",
        "Registered": "registry",
        "Registry": "registry",
        "Schema": "registry",
    }
    __getattr__, __dir__ = names_from(__name__, {name: f"{__name__}.{home}" for name, home in _HOMES.items()})
