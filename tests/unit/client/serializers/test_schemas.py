"""Avro, JSON Schema and Protobuf with a registry, compared with confluent-kafka's serializers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pydantic
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry import avro as confluent_avro
from confluent_kafka.schema_registry import json_schema as confluent_json
from confluent_kafka.schema_registry import protobuf as confluent_protobuf
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from harness.registry import RegistryInMemory
from penstock.client.errors import BadArgumentType, BadConfiguration, RegistryError
from penstock.client.serializers import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    Reference,
    Registry,
    Schema,
    deserializer_of,
    serializer_of,
)
from penstock.client.settings import ConsumerSettings, ProducerSettings


@pytest.fixture
def confluent(registry: RegistryInMemory) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


CONTEXT = SerializationContext("orders", MessageField.VALUE)


def write(serializer: Any, value: Any, *, topic: str = "orders", is_key: bool = False) -> bytes:
    data: bytes = serializer.for_topic(topic, is_key=is_key)(value)
    return data


def read(deserializer: Any, data: bytes) -> Any:
    return deserializer.for_topic("orders", is_key=False)(data)


@dataclasses.dataclass
class Order:
    id: int
    name: str


class Model(pydantic.BaseModel):
    id: int
    name: str


class Struct(msgspec.Struct):
    id: int
    name: str


ORDER = {"id": 7, "name": "grün"}
AVRO = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
}


class TestAvro:
    def test_bytes_match_confluents(
        self, registry: RegistryInMemory, confluent: SchemaRegistryClient
    ) -> None:
        theirs = confluent_avro.AvroSerializer(confluent, json.dumps(AVRO))

        data = write(AvroSerializer(registry.url, AVRO), ORDER)

        assert data[5:] == theirs(ORDER, CONTEXT)[5:]
        assert data[:1] == b"\0"

    def test_each_side_reads_what_the_other_wrote(
        self, registry: RegistryInMemory, confluent: SchemaRegistryClient
    ) -> None:
        written = confluent_avro.AvroSerializer(confluent, json.dumps(AVRO))(ORDER, CONTEXT)

        assert read(AvroDeserializer(registry.url), written) == ORDER
        ours = write(AvroSerializer(registry.url, AVRO), ORDER)
        assert confluent_avro.AvroDeserializer(confluent)(ours, CONTEXT) == ORDER

    @pytest.mark.parametrize("kind", [Order, Model, Struct])
    def test_objects_round_trip(self, registry: RegistryInMemory, kind: Any) -> None:
        value = kind(**ORDER)

        data = write(AvroSerializer(registry.url, AVRO), value)

        assert read(AvroDeserializer(registry.url, into=kind), data) == value

    def test_a_reader_resolves_values_to_its_own_schema(self, registry: RegistryInMemory) -> None:
        newer = {**AVRO, "fields": [AVRO["fields"][0], {"name": "count", "type": "int", "default": 1}]}

        data = write(AvroSerializer(registry.url, AVRO), ORDER)

        assert read(AvroDeserializer(registry.url, newer), data) == {"id": 7, "count": 1}

    def test_keys_and_values_have_their_own_subjects(self, registry: RegistryInMemory) -> None:
        serializer = AvroSerializer(registry.url, AVRO)

        write(serializer, ORDER)
        write(serializer, ORDER, is_key=True)

        assert registry.asked == [
            "POST /subjects/orders-value/versions",
            "POST /subjects/orders-key/versions",
        ]

    @pytest.mark.parametrize(
        ("rule", "subject"),
        [
            ("record", "shop.Order"),
            ("topic-record", "orders-shop.Order"),
            (lambda topic, is_key, record: f"{topic}.{record}.{is_key}", "orders.shop.Order.False"),
        ],
    )
    def test_subjects_are_named_by_a_rule(self, registry: RegistryInMemory, rule: Any, subject: str) -> None:
        write(AvroSerializer(registry.url, AVRO, subject=rule), ORDER)

        assert registry.asked == [f"POST /subjects/{subject}/versions"]

    def test_one_topic_sends_one_request(self, registry: RegistryInMemory) -> None:
        serialize = AvroSerializer(registry.url, AVRO).for_topic("orders", is_key=False)

        for _ in range(5):
            serialize(ORDER)

        assert len(registry.asked) == 1

    def test_the_latest_schema_of_a_subject_can_be_used(self, registry: RegistryInMemory) -> None:
        write(AvroSerializer(registry.url, AVRO), ORDER)
        settings = {"schema.registry.url": registry.url}

        data = write(serializer_of("avro", ProducerSettings.of(None, settings)), ORDER)

        assert read(deserializer_of("avro", ConsumerSettings.of(None, settings)), data) == ORDER

    def test_without_auto_register_the_schema_must_exist(self, registry: RegistryInMemory) -> None:
        with pytest.raises(RegistryError):
            write(AvroSerializer(registry.url, AVRO, auto_register=False), ORDER)

    def test_schemas_may_have_references(self, registry: RegistryInMemory) -> None:
        Registry(registry.url).register("shop.Order", Schema(json.dumps(AVRO)))
        basket = {
            "type": "record",
            "name": "Basket",
            "fields": [{"name": "orders", "type": {"type": "array", "items": "shop.Order"}}],
        }
        schema = Schema(json.dumps(basket), "AVRO", (Reference("shop.Order", "shop.Order", 1),))

        data = write(AvroSerializer(registry.url, schema), {"orders": [ORDER]})

        assert read(AvroDeserializer(registry.url), data) == {"orders": [ORDER]}

    def test_a_primitive_type_is_a_schema_too(self, registry: RegistryInMemory) -> None:
        data = write(AvroSerializer(registry.url, "string"), "tea")

        assert read(AvroDeserializer(registry.url), data) == "tea"

    def test_invalid_values_and_foreign_bytes_are_rejected(self, registry: RegistryInMemory) -> None:
        with pytest.raises(Exception):  # noqa: B017  the library's own
            write(AvroSerializer(registry.url, AVRO), {"id": "x"})
        with pytest.raises(ValueError):
            read(AvroDeserializer(registry.url), b"plain")
        with pytest.raises(RegistryError):
            read(AvroDeserializer(registry.url), b"\0\0\0\0\x63")

    def test_a_schema_is_needed(self, registry: RegistryInMemory) -> None:
        with pytest.raises(BadConfiguration):
            AvroSerializer(registry.url)
        with pytest.raises(BadConfiguration, match="unknown subject rule"):
            AvroSerializer(registry.url, AVRO, subject="planet")


JSON_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
    "required": ["id"],
}


class TestJsonSchema:
    def test_each_side_reads_what_the_other_wrote(
        self, registry: RegistryInMemory, confluent: SchemaRegistryClient
    ) -> None:
        text = json.dumps(JSON_SCHEMA)
        theirs = confluent_json.JSONSerializer(text, confluent)(ORDER, CONTEXT)
        ours = write(JsonSchemaSerializer(registry.url, JSON_SCHEMA), ORDER)

        assert read(JsonSchemaDeserializer(registry.url), theirs) == ORDER
        assert confluent_json.JSONDeserializer(text)(ours, CONTEXT) == ORDER
        assert json.loads(ours[5:]) == json.loads(theirs[5:])

    @pytest.mark.parametrize("kind", [Order, Model, Struct])
    def test_objects_round_trip(self, registry: RegistryInMemory, kind: Any) -> None:
        value = kind(**ORDER)

        data = write(JsonSchemaSerializer(registry.url, JSON_SCHEMA), value)

        assert read(JsonSchemaDeserializer(registry.url, into=kind), data) == value

    def test_invalid_values_are_not_written(self, registry: RegistryInMemory) -> None:
        with pytest.raises(ValueError, match="id"):
            write(JsonSchemaSerializer(registry.url, JSON_SCHEMA), {"name": "tea"})
        data = write(JsonSchemaSerializer(registry.url, JSON_SCHEMA, validate=False), {"name": "tea"})
        with pytest.raises(ValueError, match="id"):
            read(JsonSchemaDeserializer(registry.url), data)
        assert read(JsonSchemaDeserializer(validate=False), data) == {"name": "tea"}

    def test_schemas_may_have_references(self, registry: RegistryInMemory) -> None:
        Registry(registry.url).register("order", Schema(json.dumps(JSON_SCHEMA), "JSON"))
        basket = {"type": "array", "items": {"$ref": "order.json"}}
        schema = Schema(json.dumps(basket), "JSON", (Reference("order.json", "order", 1),))
        serializer = JsonSchemaSerializer(registry.url, schema)

        data = write(serializer, [ORDER])

        assert read(JsonSchemaDeserializer(registry.url), data) == [ORDER]
        with pytest.raises(ValueError, match="id"):
            write(serializer, [{}])

    def test_references_are_never_loaded_from_the_internet(self, registry: RegistryInMemory) -> None:
        schema = {"$ref": f"{registry.url}/secret.json"}

        with pytest.raises(ValueError):
            write(JsonSchemaSerializer(registry.url, schema), ORDER)

        assert registry.asked == ["POST /subjects/orders-value/versions"]

    def test_by_name_the_latest_schema_is_used(self, registry: RegistryInMemory) -> None:
        write(JsonSchemaSerializer(registry.url, JSON_SCHEMA), ORDER)
        settings = {"schema.registry.url": registry.url}

        data = write(serializer_of("json-schema", ProducerSettings.of(None, settings)), ORDER)

        assert read(deserializer_of("json-schema", ConsumerSettings.of(None, settings)), data) == ORDER


def _message_classes() -> dict[str, Any]:
    """Classes as a compiler would make them from two files: `line.proto`, and `order.proto`, which imports it."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    number, text, message = (
        descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
        descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
        descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE,
    )
    optional = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
    line = descriptor_pb2.FileDescriptorProto(name="line.proto", package="shop", syntax="proto3")
    line.message_type.add(name="Line").field.add(name="article", number=1, type=text, label=optional)
    pool.Add(line)
    order = descriptor_pb2.FileDescriptorProto(
        name="order.proto",
        package="shop",
        syntax="proto3",
        dependency=["line.proto", "google/protobuf/timestamp.proto"],
    )
    order.message_type.add(name="Unused")
    declared = order.message_type.add(name="Order")
    declared.field.add(name="id", number=1, type=number, label=optional)
    declared.field.add(name="line", number=2, type=message, type_name=".shop.Line", label=optional)
    declared.field.add(
        name="at", number=3, type=message, type_name=".google.protobuf.Timestamp", label=optional
    )
    declared.nested_type.add(name="Note").field.add(name="text", number=1, type=text, label=optional)
    pool.Add(order)
    names = ("shop.Line", "shop.Order", "shop.Order.Note")
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names}


CLASSES = _message_classes()
Line, OrderMessage, Note = CLASSES["shop.Line"], CLASSES["shop.Order"], CLASSES["shop.Order.Note"]


class TestProtobuf:
    @pytest.mark.parametrize(
        "message",
        [Line(article="tea"), OrderMessage(id=7, line=Line(article="tea")), Note(text="hi")],
        ids=["first", "with import", "nested"],
    )
    def test_bytes_match_confluents(
        self, registry: RegistryInMemory, confluent: SchemaRegistryClient, message: Any
    ) -> None:
        theirs = confluent_protobuf.ProtobufSerializer(
            type(message), confluent, {"use.deprecated.format": False, "skip.known.types": True}
        )(message, CONTEXT)

        data = write(ProtobufSerializer(registry.url, type(message)), message)

        assert data == theirs
        ours = confluent_protobuf.ProtobufDeserializer(type(message), {"use.deprecated.format": False})
        assert ours(data, CONTEXT) == message
        assert read(ProtobufDeserializer(type(message)), theirs) == message

    @pytest.mark.parametrize("kind", [OrderMessage, Note])
    def test_classes_are_made_from_the_registrys_schemas(self, registry: RegistryInMemory, kind: Any) -> None:
        message = OrderMessage(id=7, line=Line(article="tea")) if kind is OrderMessage else Note(text="hi")
        data = write(ProtobufSerializer(registry.url, kind), message)
        settings = ConsumerSettings.of(None, {"schema.registry.url": registry.url})

        found = read(deserializer_of("protobuf", settings), data)

        assert found.DESCRIPTOR.full_name == kind.DESCRIPTOR.full_name
        assert found.SerializeToString() == message.SerializeToString()

    def test_a_schema_in_source_text_is_requested_in_binary(self, registry: RegistryInMemory) -> None:
        Registry(registry.url).register("a", Schema('syntax = "proto3"; message A {}', "PROTOBUF"))

        with pytest.raises(ValueError, match="needs a Protobuf compiler"):
            read(ProtobufDeserializer(registry=registry.url), b"\0\0\0\0\1\0")

        assert registry.asked[-1] == "GET /schemas/ids/1?format=serialized"

    def test_a_message_that_is_not_in_the_schema_is_rejected(self, registry: RegistryInMemory) -> None:
        write(ProtobufSerializer(registry.url, Line), Line(article="tea"))

        with pytest.raises(ValueError, match="has no message at"):
            read(ProtobufDeserializer(registry=registry.url), b"\0\0\0\0\1\2\x14")

    def test_a_message_of_another_type_is_rejected(self, registry: RegistryInMemory) -> None:
        with pytest.raises(TypeError, match=r"must be a message of type shop\.Line"):
            write(ProtobufSerializer(registry.url, Line), Note(text="hi"))

    def test_a_class_or_a_registry_is_needed(self) -> None:
        with pytest.raises(BadConfiguration):
            ProtobufDeserializer()
        with pytest.raises(BadConfiguration, match="not a Protobuf message class"):
            ProtobufSerializer("http://localhost:8081", dict)


@pytest.mark.parametrize("make", [AvroSerializer, AvroDeserializer, JsonSchemaSerializer])
def test_wrong_arguments_are_named(make: Any) -> None:
    """AvroSerializer(None, ...) raised "'NoneType' object is not iterable"."""
    with pytest.raises(BadArgumentType, match=r"registry must be a Registry or .*, not None"):
        make(None, {"type": "string"})
    with pytest.raises(BadArgumentType, match=r"registry must be a Registry or .*, not the integer 8081"):
        make(8081, {"type": "string"})
    with pytest.raises(BadArgumentType, match=r"schema must be a string or .*, not bytes"):
        make("http://localhost:8081", b"{}")
    with pytest.raises(BadConfiguration, match="the schema is not JSON"):
        make("http://localhost:8081", "{")
    with pytest.raises(BadArgumentType, match="url must be a string or a list of strings"):
        Registry(None)  # type: ignore[arg-type]
