"""Serializers in the sync and the asyncio client, on a real broker."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer as ConfluentAvroDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as ConfluentAvroSerializer

from harness.admin import new_name
from harness.brokers import PenstockBroker
from harness.registry import RegistryInMemory, serve_registry
from penstock import Consumer, Message, Producer, TopicPartition, aio, errors
from penstock.serializers import AvroDeserializer, AvroSerializer

pytestmark = pytest.mark.penstock_only("does not depend on the broker")

AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


@dataclasses.dataclass
class Order:
    id: int


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    broker = PenstockBroker(tmp_path_factory.mktemp("serializers"))
    broker.start()
    yield broker.bootstrap
    broker.close()


@pytest.fixture
def registry() -> Iterator[RegistryInMemory]:
    with serve_registry() as serving:
        yield serving


def send(bootstrap: str, topic: str, *values: Any, **options: Any) -> None:
    with Producer(bootstrap, **options) as producer:
        for value in values:
            producer.send(topic, value, key=value)


def read(bootstrap: str, topic: str, **options: Any) -> list[Message]:
    with Consumer(topic, bootstrap_servers=bootstrap, **options) as consumer:
        return consumer.read().to_messages()


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("string", "grün"),
        ("json", {"a": [1, None]}),
        ("int", -5),
        ("float", 1.5),
        (UUID, UUID(int=5)),
        (Order, Order(5)),
        ("arrow", pa.RecordBatch.from_pylist([{"a": 1}])),
        ("org.apache.kafka.common.serialization.LongSerializer", 5),
    ],
    ids=str,
)
def test_keys_and_values_come_back_unchanged(bootstrap: str, spec: Any, value: Any) -> None:
    topic = new_name("format")
    send(bootstrap, topic, value, None, serializer=spec, key_serializer=spec)
    if isinstance(spec, str):
        spec = spec.replace("Serializer", "Deserializer")

    full, empty = read(bootstrap, topic, deserializer=spec, key_deserializer=spec)

    assert (full.key, full.value) == (value, value)
    assert (empty.key, empty.value) == (None, None)


def test_without_a_serializer_bytes_and_text_are_accepted(bootstrap: str) -> None:
    topic = new_name("plain")

    send(bootstrap, topic, b"bytes", "text")

    assert [message.value for message in read(bootstrap, topic)] == [b"bytes", b"text"]


@pytest.mark.parametrize(
    ("options", "value", "message"),
    [
        ({}, 5, "without a serializer it must be bytes or str"),
        ({"serializer": "int"}, "five", "the value 'five' of type str"),
        ({"serializer": lambda value: 1 / value}, 0, "ZeroDivisionError"),
        ({"serializer": lambda value: [value]}, 0, "returned list"),
    ],
)
def test_a_value_that_cannot_be_serialized_is_rejected_and_not_sent(
    bootstrap: str, options: dict[str, Any], value: Any, message: str
) -> None:
    topic = new_name("refused")

    with Producer(bootstrap, **options) as producer, pytest.raises(errors.SerializationFailed) as failure:
        producer.send(topic, value)

    assert str(failure.value).startswith(f"{topic}: ")
    assert message in str(failure.value)


def test_a_consumer_stays_before_a_message_that_it_cannot_deserialize(bootstrap: str) -> None:
    topic = new_name("unreadable")
    send(bootstrap, topic, '{"id": 1}', "no json", '{"id": 2}')
    seen: list[Any] = []

    with Consumer(topic, bootstrap_servers=bootstrap, deserializer="json") as consumer:
        messages = iter(consumer)
        seen.append(next(messages).value)
        with pytest.raises(errors.DeserializationFailed) as failure:
            next(messages)
        assert (failure.value.topic, failure.value.offset, failure.value.data) == (topic, 1, b"no json")
        consumer.seek(TopicPartition(topic, 0), 2)
        seen.append(next(iter(consumer)).value)

    assert seen == [{"id": 1}, {"id": 2}]


def test_serializers_of_confluent_kafka_work_unchanged(bootstrap: str, registry: RegistryInMemory) -> None:
    topic = new_name("avro")
    with SchemaRegistryClient({"url": registry.url}) as client:
        send(
            bootstrap,
            topic,
            {"id": 1},
            serializer=ConfluentAvroSerializer(client, json.dumps(AVRO)),
            key_serializer=str_of,
        )
        send(bootstrap, topic, Order(2), serializer=AvroSerializer(registry.url, AVRO), key_serializer=str_of)

        ours = read(bootstrap, topic, deserializer=AvroDeserializer(registry.url, into=Order))
        theirs = read(bootstrap, topic, deserializer=ConfluentAvroDeserializer(client))

    assert [message.value for message in ours] == [Order(1), Order(2)]
    assert [message.value for message in theirs] == [{"id": 1}, {"id": 2}]
    assert any(f"/subjects/{topic}-value/versions" in asked for asked in registry.asked)


def str_of(value: object) -> bytes:
    return str(value).encode()


def test_an_unavailable_registry_is_the_cause_of_the_failure(bootstrap: str) -> None:
    serializer = AvroSerializer("http://127.0.0.1:1", AVRO)

    with (
        Producer(bootstrap, serializer=serializer) as producer,
        pytest.raises(errors.SerializationFailed) as failure,
    ):
        producer.send(new_name("unregistered"), {"id": 1})

    assert isinstance(failure.value.__cause__, errors.RegistryError)


async def test_asynchronous_clients_serialize_the_same_way(
    bootstrap: str, registry: RegistryInMemory
) -> None:
    topic = new_name("async")
    settings = {"bootstrap.servers": bootstrap, "schema.registry.url": registry.url}

    async with aio.Producer(bootstrap, serializer=AvroSerializer(registry.url, AVRO)) as producer:
        await (await producer.send(topic, {"id": 1}))
    async with aio.Consumer(topic, settings=settings, deserializer="avro") as consumer:
        message = await anext(aiter(consumer))

    assert message.value == {"id": 1}


def test_a_kafka_properties_file_configures_a_client(bootstrap: str, tmp_path: Path) -> None:
    from penstock.client.settings import ProducerSettings

    file = tmp_path / "client.properties"
    java = "org.apache.kafka.common.serialization"
    file.write_text(
        f"bootstrap.servers={bootstrap}\nvalue.serializer={java}.IntegerSerializer\nkey.serializer={java}.VoidSerializer\n"
    )
    topic = new_name("file")

    with Producer(ProducerSettings.of_file(str(file)).originals) as producer:
        producer.send(topic, 5)

    assert [message.value for message in read(bootstrap, topic)] == [b"\0\0\0\5"]
