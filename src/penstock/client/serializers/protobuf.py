"""Protobuf with a schema registry: each message begins with the id of its schema and its place in it.

A schema is the file that declares the message, in binary form; imported files are registered first, under their own
names. A deserializer with a message class needs no registry; without one, classes are made from the registry's schemas.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.client.errors import BadConfiguration
from penstock.client.serializers.base import Deserialize, Serialize
from penstock.client.serializers.framing import HEAD_BYTES, head, read_head, read_indexes, write_indexes
from penstock.client.serializers.libraries import need
from penstock.client.serializers.registering import Registering, SubjectRule
from penstock.client.serializers.registry import (
    Reference,
    Registry,
    Schema,
    registry_by_settings,
    registry_of,
)

if TYPE_CHECKING:
    from penstock.client.settings import ClientSettings

# Files that every Protobuf library has, so that they are not registered.
WELL_KNOWN = re.compile(r"google/protobuf/[a-z_]+\.proto")


class ProtobufSerializer:
    """Writes messages of one class; with `auto_register=False` the registry must have its schema already."""

    def __init__(
        self,
        registry: Registry | str | Sequence[str],
        message: type[Any],
        *,
        subject: SubjectRule = "topic",
        auto_register: bool = True,
        use_latest: bool = False,
    ) -> None:
        need("google.protobuf", extra="serializers")
        if not hasattr(message, "DESCRIPTOR"):
            raise BadConfiguration(f"{message!r} is not a Protobuf message class")
        self._message = message
        self._auto_register = auto_register
        self._use_latest = use_latest
        self._registering = Registering(
            registry, subject=subject, auto_register=auto_register, use_latest=use_latest
        )

    def for_topic(self, topic: str, /, *, is_key: bool) -> Serialize:
        kind = self._message
        begun = b""

        def serialize(value: Any) -> bytes:
            nonlocal begun
            if not isinstance(value, kind):
                raise TypeError(f"must be a message of type {kind.DESCRIPTOR.full_name}")
            if not begun:
                begun = self._begin(topic, is_key)
            data: bytes = begun + value.SerializeToString()
            return data

        return serialize

    def _begin(self, topic: str, is_key: bool) -> bytes:
        descriptor = self._message.DESCRIPTOR
        schema = None if self._use_latest else self._schema_of(descriptor.file)
        found = self._registering.schema_for(topic, schema, is_key=is_key, record=descriptor.full_name)
        return head(found.id) + write_indexes(_path_of(descriptor))

    def _schema_of(self, file: Any) -> Schema:
        references = tuple(
            self._refer_to(imported)
            for imported in file.dependencies
            if not WELL_KNOWN.fullmatch(imported.name)
        )
        return Schema(base64.b64encode(file.serialized_pb).decode(), "PROTOBUF", references)

    def _refer_to(self, file: Any) -> Reference:
        schema, registry = self._schema_of(file), self._registering.registry
        if self._auto_register:
            registry.register(file.name, schema)
        return Reference(file.name, file.name, registry.version_of(file.name, schema))


class ProtobufDeserializer:
    """Reads messages into the given class, or into classes made from the registry's schemas."""

    def __init__(
        self, message: type[Any] | None = None, *, registry: Registry | str | Sequence[str] | None = None
    ) -> None:
        need("google.protobuf", extra="serializers")
        if message is None and registry is None:
            raise BadConfiguration("give a message class, or a schema registry")
        self._message = message
        self._registry = None if registry is None else registry_of(registry)
        self._classes: dict[tuple[int, tuple[int, ...]], type[Any]] = {}

    def for_topic(self, topic: str, /, *, is_key: bool) -> Deserialize:
        return self._deserialize

    def _deserialize(self, data: bytes) -> Any:
        schema_id = read_head(data)
        path, position = read_indexes(data, HEAD_BYTES)
        kind = self._message
        if kind is None:
            place = (schema_id, tuple(path))
            kind = self._classes.get(place) or self._classes.setdefault(place, self.class_at(schema_id, path))
        message = kind()
        message.ParseFromString(data[position:])
        return message

    def class_at(self, schema_id: int, path: Sequence[int]) -> type[Any]:
        """The class of a message that only the registry knows, by its place in a schema."""
        assert self._registry is not None
        pools = need("google.protobuf.descriptor_pool", extra="serializers")
        factory = need("google.protobuf.message_factory", extra="serializers")
        pool = pools.DescriptorPool()
        file = self._add(pool, self._registry.schema(schema_id), schema_id)
        types, descriptor = file.message_types_by_name.values(), None
        for index in path:
            if not 0 <= index < len(types):
                raise ValueError(f"schema {schema_id} has no message at {list(path)}")
            descriptor = list(types)[index]
            types = descriptor.nested_types
        kind: type[Any] = factory.GetMessageClass(descriptor)
        return kind

    def _add(self, pool: Any, schema: Schema, schema_id: int | None = None) -> Any:
        """Add the file of a schema to the pool, after its imports."""
        registry = self._registry
        assert registry is not None
        for reference in schema.references:
            self._add(pool, registry.schema_at(reference))
        file = _read_file(schema.text)
        if file is None and schema_id is not None:
            file = _read_file(registry.serialized(schema_id))
        if file is None:
            raise ValueError(
                "the registry has the schema only as source text, which needs a Protobuf compiler"
            )
        default = need("google.protobuf.descriptor_pool", extra="serializers").Default()
        for name in file.dependency:
            if WELL_KNOWN.fullmatch(name):
                importable = name.removesuffix(".proto").replace("/", ".") + "_pb2"
                need(importable, extra="serializers")
                pool.AddSerializedFile(default.FindFileByName(name).serialized_pb)
        pool.Add(file)
        return pool.FindFileByName(file.name)


def serializer_by_settings(settings: ClientSettings | None) -> ProtobufSerializer:
    raise BadConfiguration("Protobuf needs a message class: use ProtobufSerializer(registry, Message)")


def deserializer_by_settings(settings: ClientSettings | None) -> ProtobufDeserializer:
    return ProtobufDeserializer(registry=registry_by_settings(settings))


def _path_of(descriptor: Any) -> list[int]:
    """The place of a message in its file: indexes from the outermost message inwards."""
    path: list[int] = []
    while descriptor is not None:
        outer = descriptor.containing_type
        siblings = outer.nested_types if outer is not None else descriptor.file.message_types_by_name.values()
        path.append([each.name for each in siblings].index(descriptor.name))
        descriptor = outer
    return path[::-1]


def _read_file(text: str) -> Any:
    """A file in binary form; None for source text, which needs a compiler."""
    descriptors = need("google.protobuf.descriptor_pb2", extra="serializers")
    try:
        file = descriptors.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except Exception:  # the exception depends on the library's implementation
        return None
    return file if file.name else None
