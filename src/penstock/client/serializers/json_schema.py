"""JSON with a schema in a registry: each value is validated before it is written, and begins with the id of its
schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.client.errors import BadConfiguration
from penstock.client.serializers.base import Deserialize, Serialize
from penstock.client.serializers.framing import HEAD_BYTES, head, read_head
from penstock.client.serializers.libraries import need
from penstock.client.serializers.objects import as_data, reader_into
from penstock.client.serializers.plain import JSON
from penstock.client.serializers.registering import Registering, SubjectRule
from penstock.client.serializers.registry import Registry, Schema, json_of, registry_by_settings, registry_of

if TYPE_CHECKING:
    from penstock.client.settings import ClientSettings

Validate = Callable[[Any], object]


class JsonSchemaSerializer:
    """Writes values that match the schema, or with `use_latest` the subject's latest one."""

    def __init__(
        self,
        registry: Registry | str | Sequence[str],
        schema: str | dict[str, Any] | Schema | None = None,
        *,
        subject: SubjectRule = "topic",
        auto_register: bool = True,
        use_latest: bool = False,
        validate: bool = True,
    ) -> None:
        self._schema = _schema_of(schema)
        if self._schema is None and not use_latest:
            raise BadConfiguration("JSON Schema needs a schema: give one, or use_latest=True")
        self._registering = Registering(
            registry, subject=subject, auto_register=auto_register, use_latest=use_latest
        )
        self._validates = validate

    def for_topic(self, topic: str, /, *, is_key: bool) -> Serialize:
        encode: Any = JSON.encode
        prepared: tuple[bytes, Validate | None] | None = None

        def serialize(value: Any) -> bytes:
            nonlocal prepared
            if prepared is None:
                prepared = self._prepare(topic, is_key)
            begun, validate = prepared
            plain = as_data(value)
            if validate is not None:
                validate(plain)
            data: bytes = begun + encode(plain)
            return data

        return serialize

    def _prepare(self, topic: str, is_key: bool) -> tuple[bytes, Validate | None]:
        title = "" if self._schema is None else str(json.loads(self._schema.text).get("title", ""))
        found = self._registering.schema_for(topic, self._schema, is_key=is_key, record=title)
        validate = _validator(self._registering.registry, found.schema) if self._validates else None
        return head(found.id), validate


class JsonSchemaDeserializer:
    """Reads values of any schema in the registry, and with `validate` checks each against its schema."""

    def __init__(
        self,
        registry: Registry | str | Sequence[str] | None = None,
        *,
        validate: bool = True,
        into: Any = None,
    ) -> None:
        if validate and registry is None:
            raise BadConfiguration("validation needs a schema registry: give its address, or validate=False")
        self._registry = None if registry is None or not validate else registry_of(registry)
        self._into = reader_into(into)
        self._validators: dict[int, Validate] = {}

    def for_topic(self, topic: str, /, *, is_key: bool) -> Deserialize:
        return self._deserialize

    def _deserialize(self, data: bytes) -> Any:
        schema_id = read_head(data)
        value = json.loads(data[HEAD_BYTES:])
        if self._registry is not None:
            validate = self._validators.get(schema_id)
            if validate is None:
                schema = self._registry.schema(schema_id)
                validate = self._validators[schema_id] = _validator(self._registry, schema)
            validate(value)
        return value if self._into is None else self._into(value)


def serializer_by_settings(settings: ClientSettings | None) -> JsonSchemaSerializer:
    """For a serializer given by name, without a schema: it uses the subject's latest one."""
    return JsonSchemaSerializer(registry_by_settings(settings), use_latest=True)


def deserializer_by_settings(settings: ClientSettings | None) -> JsonSchemaDeserializer:
    return JsonSchemaDeserializer(registry_by_settings(settings))


def _schema_of(given: str | dict[str, Any] | Schema | None) -> Schema | None:
    if given is None or isinstance(given, Schema):
        return given
    return Schema(json.dumps(json_of(given), separators=(",", ":")), "JSON")


def _validator(registry: Registry, schema: Schema) -> Validate:
    """A function that rejects a value that does not match the schema. References are loaded only from the registry."""
    library = need("jsonschema_rs", extra="serializers")
    referred: dict[str, Any] = {}
    _collect_references(registry, schema, referred)

    def retrieve(uri: str) -> Any:
        for name, text in referred.items():
            if uri == name or uri.endswith(f"/{name}"):
                return text
        raise ValueError(f"{uri} is not among the schema's references")

    validate: Validate = library.validator_for(json.loads(schema.text), retriever=retrieve).validate
    return validate


def _collect_references(registry: Registry, schema: Schema, referred: dict[str, Any]) -> None:
    for reference in schema.references:
        found = registry.schema_at(reference)
        referred[reference.name] = json.loads(found.text)
        _collect_references(registry, found, referred)
