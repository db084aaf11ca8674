"""Avro with a schema registry: each value begins with the id of its schema.

A value may be a dict, a dataclass, a pydantic model or a msgspec struct. The deserializer returns dicts, or objects of
the type `into`. Schemas may evolve under the registry's rules: a value is read with the schema that wrote it, and
resolved to the reader's own schema if it has one.

    Producer(value_serializer=AvroSerializer("http://localhost:8081", schema))
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.client.errors import BadConfiguration
from penstock.client.serializers.base import Deserialize, Serialize
from penstock.client.serializers.framing import HEAD_BYTES, head, read_head
from penstock.client.serializers.libraries import need
from penstock.client.serializers.objects import as_data, reader_into
from penstock.client.serializers.registering import Registering, SubjectRule
from penstock.client.serializers.registry import Registry, Schema, json_of, registry_by_settings, registry_of

if TYPE_CHECKING:
    from penstock.client.settings import ClientSettings


class AvroSerializer:
    """Writes values of one schema, or with `use_latest` of the subject's latest one."""

    def __init__(
        self,
        registry: Registry | str | Sequence[str],
        schema: str | dict[str, Any] | Schema | None = None,
        *,
        subject: SubjectRule = "topic",
        auto_register: bool = True,
        use_latest: bool = False,
    ) -> None:
        self._avro = need("fastavro", extra="serializers")
        self._schema = _schema_of(schema)
        if self._schema is None and not use_latest:
            raise BadConfiguration("Avro needs a schema: give one, or use_latest=True")
        self._registering = Registering(
            registry, subject=subject, auto_register=auto_register, use_latest=use_latest
        )

    def for_topic(self, topic: str, /, *, is_key: bool) -> Serialize:
        write = self._avro.schemaless_writer
        prepared: tuple[bytes, Any] | None = None

        def serialize(value: Any) -> bytes:
            nonlocal prepared
            if prepared is None:
                prepared = self._prepare(topic, is_key)
            begun, schema = prepared
            out = io.BytesIO()
            out.write(begun)
            write(out, schema, as_data(value))
            return out.getvalue()

        return serialize

    def _prepare(self, topic: str, is_key: bool) -> tuple[bytes, Any]:
        """The header of each value and the parsed schema, after it was registered."""
        record = "" if self._schema is None else _name_of(self._schema)
        found = self._registering.schema_for(topic, self._schema, is_key=is_key, record=record)
        return head(found.id), _parsed(self._avro, self._registering.registry, found.schema)


class AvroDeserializer:
    """Reads values of any schema in the registry; with `schema`, resolved to that one."""

    def __init__(
        self,
        registry: Registry | str | Sequence[str],
        schema: str | dict[str, Any] | Schema | None = None,
        *,
        into: Any = None,
    ) -> None:
        self._avro = need("fastavro", extra="serializers")
        self._registry = registry_of(registry)
        self._schema = _schema_of(schema)
        self._into = reader_into(into)
        self._own: Any = None
        self._writers: dict[int, Any] = {}

    def for_topic(self, topic: str, /, *, is_key: bool) -> Deserialize:
        return self._deserialize

    def _deserialize(self, data: bytes) -> Any:
        schema_id = read_head(data)
        writer = self._writers.get(schema_id)
        if writer is None:
            writer = self._writers[schema_id] = self._prepare(schema_id)
        rest = io.BytesIO(data)
        rest.seek(HEAD_BYTES)
        value = self._avro.schemaless_reader(rest, writer, self._own)
        return value if self._into is None else self._into(value)

    def _prepare(self, schema_id: int) -> Any:
        """The schema that wrote a value; also loads the reader's own, which may refer to others in the registry."""
        if self._own is None and self._schema is not None:
            self._own = _parsed(self._avro, self._registry, self._schema)
        return _parsed(self._avro, self._registry, self._registry.schema(schema_id))


def serializer_by_settings(settings: ClientSettings | None) -> AvroSerializer:
    """For a serializer given by name, without a schema: it uses the subject's latest one."""
    return AvroSerializer(registry_by_settings(settings), use_latest=True)


def deserializer_by_settings(settings: ClientSettings | None) -> AvroDeserializer:
    return AvroDeserializer(registry_by_settings(settings))


def _schema_of(given: str | dict[str, Any] | Schema | None) -> Schema | None:
    if given is None or isinstance(given, Schema):
        return given
    is_name = isinstance(given, str) and given.lstrip()[:1] not in ("{", "[", '"')
    # The shortest form, so that one schema in two spellings is not registered twice.
    parsed = given if is_name else json_of(given)
    return Schema(json.dumps(parsed, separators=(",", ":")))


def _name_of(schema: Schema) -> str:
    parsed = json.loads(schema.text)
    if not isinstance(parsed, dict) or "name" not in parsed:
        return str(parsed.get("type") if isinstance(parsed, dict) else parsed)
    name: str = parsed["name"]
    space = parsed.get("namespace")
    return name if "." in name or not space else f"{space}.{name}"


def _parsed(avro: Any, registry: Registry, schema: Schema) -> Any:
    """The schema in the form of the library, with its references."""
    named: dict[str, Any] = {}
    _name_references(avro, registry, schema, named)
    return avro.parse_schema(json.loads(schema.text), named_schemas=named)


def _name_references(avro: Any, registry: Registry, schema: Schema, named: dict[str, Any]) -> None:
    for reference in schema.references:
        referred = registry.schema_at(reference)
        _name_references(avro, registry, referred, named)
        avro.parse_schema(json.loads(referred.text), named_schemas=named)
