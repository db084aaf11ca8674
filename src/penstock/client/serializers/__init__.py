"""Keys and values as programs have them, and as bytes; public as `penstock.serializers`.

`serializer_of` and `deserializer_of` find what a program means by a name, a type, an object or a function (`resolve`).
`base` says what a serializer is, `plain` has those that need no library; Arrow, models, and Avro, Protobuf and JSON
Schema with a registry stand in modules of their own, which import their library when they are used.
"""

from __future__ import annotations

from penstock.client.serializers.base import (
    Deserialize,
    Deserializer,
    Serialize,
    Serializer,
    deserialization_failed,
    serialization_failed,
)
from penstock.client.serializers.resolve import Context, deserializer_of, serializer_of

__all__ = [
    "Context",
    "Deserialize",
    "Deserializer",
    "Serialize",
    "Serializer",
    "deserialization_failed",
    "deserializer_of",
    "serialization_failed",
    "serializer_of",
]
