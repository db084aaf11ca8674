"""Administration by Python clients: confluent-kafka and aiokafka here, kafka-python as a separate program."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition as AioPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from aiokafka.admin.records_to_delete import RecordsToDelete as AioRecordsToDelete
from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from harness.admin import admin, create_topic, new_name
from harness.brokers import Broker
from harness.waiting import wait_until

WAIT_SECONDS = 30.0
PROGRAM = Path(__file__).parent / "programs" / "kafka_python_admin.py"


@pytest.fixture
def confluent(cluster: Broker) -> AdminClient:
    return admin(cluster.bootstrap)


def only(futures: dict[Any, Future[Any]]) -> Any:
    """The only result of an operation."""
    [future] = futures.values()
    return future.result(WAIT_SECONDS)


def refusal(futures: dict[Any, Future[Any]]) -> KafkaError:
    with pytest.raises(KafkaException) as caught:
        only(futures)
    return caught.value.args[0]  # type: ignore[no-any-return]


def write(bootstrap: str, topic: str, *timestamps_ms: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for timestamp_ms in timestamps_ms:
        producer.produce(topic, value=b"x", partition=0, timestamp=timestamp_ms)
    assert producer.flush(WAIT_SECONDS) == 0


def test_confluent_creates_describes_grows_and_deletes(confluent: AdminClient) -> None:
    name = new_name("admin-confluent")
    assert only(confluent.create_topics([NewTopic(name, 2, 1, config={"retention.ms": "1000000"})])) is None
    assert refusal(confluent.create_topics([NewTopic(name, 2, 1)])).code() == KafkaError.TOPIC_ALREADY_EXISTS

    only(confluent.create_partitions([NewPartitions(name, 4)]))
    description = only(confluent.describe_topics(TopicCollection([name])))
    assert [partition.id for partition in description.partitions] == [0, 1, 2, 3]
    assert description.name == name
    assert str(description.topic_id) != "AAAAAAAAAAAAAAAAAAAAAA"
    assert all(partition.leader.id == partition.isr[0].id for partition in description.partitions)

    assert only(confluent.delete_topics([name])) is None
    assert refusal(confluent.delete_topics([name])).code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert name not in confluent.list_topics(timeout=WAIT_SECONDS).topics


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("no/slash", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("..", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("no-partitions", 0, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic("three-replicas", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("bad-config", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        (NewTopic("unknown-config", 1, 1, config={"no.such": "1"}), KafkaError.INVALID_CONFIG),
        (NewTopic("nobody", 1, replica_assignment=[[77]]), KafkaError.INVALID_REPLICA_ASSIGNMENT),
    ],
    ids=lambda value: value.topic if isinstance(value, NewTopic) else str(value),
)
def test_confluent_gets_errors_for_bad_topics(confluent: AdminClient, topic: NewTopic, code: int) -> None:
    error = refusal(confluent.create_topics([topic]))
    assert error.code() == code
    assert len(error.str()) > 10  # with a reason


def test_confluent_only_validates_when_asked_to(confluent: AdminClient) -> None:
    name = new_name("admin-validated")
    only(confluent.create_topics([NewTopic(name, 1, 1)], validate_only=True))
    assert name not in confluent.list_topics(timeout=WAIT_SECONDS).topics


def test_confluent_describes_and_alters_configs(cluster: Broker, confluent: AdminClient) -> None:
    name = create_topic(cluster.bootstrap, "admin-configs")
    resource = ConfigResource(ResourceType.TOPIC, name)

    before = only(confluent.describe_configs([resource]))
    assert before["cleanup.policy"].value == "delete"
    assert before["cleanup.policy"].is_default
    assert before["max.message.bytes"].synonyms.keys() == {"message.max.bytes"}

    entries = [
        ConfigEntry("retention.ms", "12345", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
    ]
    only(
        confluent.incremental_alter_configs(
            [ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)]
        )
    )

    def value(key: str) -> Any:
        return only(confluent.describe_configs([resource]))[key].value

    wait_until(lambda: value("retention.ms") == "12345", "the change is in effect")
    after = only(confluent.describe_configs([resource]))
    assert after["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert after["cleanup.policy"].value == "delete,compact"

    undo = [ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE)]
    only(
        confluent.incremental_alter_configs(
            [ConfigResource(ResourceType.TOPIC, name, incremental_configs=undo)]
        )
    )
    wait_until(lambda: value("retention.ms") == "604800000", "the default is in effect again")

    bad = [ConfigEntry("segment.bytes", "-5", incremental_operation=AlterConfigOpType.SET)]
    altered = confluent.incremental_alter_configs(
        [ConfigResource(ResourceType.TOPIC, name, incremental_configs=bad)]
    )
    assert refusal(altered).code() == KafkaError.INVALID_CONFIG


def test_confluent_describes_a_broker(confluent: AdminClient) -> None:
    cluster = confluent.describe_cluster().result(WAIT_SECONDS)
    [node] = cluster.nodes
    assert cluster.controller.id == node.id
    configs = only(confluent.describe_configs([ConfigResource(ResourceType.BROKER, str(node.id))]))
    assert configs["log.dirs"].is_read_only
    assert configs["log.retention.hours"].value == "168"


def test_confluent_lists_offsets_and_deletes_records(cluster: Broker, confluent: AdminClient) -> None:
    name = create_topic(cluster.bootstrap, "admin-offsets")
    write(cluster.bootstrap, name, 1_000, 5_000, 3_000)
    partition = TopicPartition(name, 0)

    def offset(spec: OffsetSpec) -> tuple[int, int]:
        result = only(confluent.list_offsets({partition: spec}))
        return result.offset, result.timestamp

    assert offset(OffsetSpec.earliest()) == (0, -1)
    assert offset(OffsetSpec.latest()) == (3, -1)
    assert offset(OffsetSpec.max_timestamp()) == (1, 5_000)
    assert offset(OffsetSpec.for_timestamp(2_000)) == (1, 5_000)
    assert offset(OffsetSpec.for_timestamp(6_000)) == (-1, -1)

    assert only(confluent.delete_records([TopicPartition(name, 0, 2)])).low_watermark == 2
    assert offset(OffsetSpec.earliest()) == (2, -1)
    assert (
        refusal(confluent.delete_records([TopicPartition(name, 0, 99)])).code()
        == KafkaError.OFFSET_OUT_OF_RANGE
    )


async def test_aiokafka_administers(cluster: Broker) -> None:
    name = new_name("admin-aiokafka")
    client = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await client.start()
    try:
        created = await client.create_topics(
            [AioNewTopic(name, 1, 1, topic_configs={"retention.ms": "1000000"})]
        )
        assert created.topic_errors[0][1] == 0
        await client.create_partitions({name: AioNewPartitions(3)})
        [topic] = await client.describe_topics([name])
        assert len(topic["partitions"]) == 3
        assert name in await client.list_topics()
        assert len((await client.describe_cluster())["brokers"]) == 1

        resource = AioConfigResource(AioConfigResourceType.TOPIC, name)
        [described] = await client.describe_configs([resource])
        values = {entry[0]: entry[1] for entry in described.resources[0][4]}
        assert values["retention.ms"] == "1000000"
        # The older AlterConfigs replaces all settings: those not named return to their default.
        change = AioConfigResource(AioConfigResourceType.TOPIC, name, configs={"flush.ms": "777"})
        await client.alter_configs([change])
        [described] = await client.describe_configs([resource])
        values = {entry[0]: entry[1] for entry in described.resources[0][4]}
        assert (values["flush.ms"], values["retention.ms"]) == ("777", "604800000")

        write(cluster.bootstrap, name, 1_000, 2_000)
        partition = AioPartition(name, 0)
        deleted = await client.delete_records({partition: AioRecordsToDelete(before_offset=1)})
        assert deleted == {partition: 1}

        deletion = await client.delete_topics([name])
        assert deletion.topic_error_codes[0][1] == 0
        assert name not in await client.list_topics()
    finally:
        await client.close()


def test_kafka_python_administers(cluster: Broker) -> None:
    name = new_name("admin-kafka-python")
    command = [sys.executable, str(PROGRAM), cluster.bootstrap, name]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["partitions"] == 3
    assert found["configs"] == {"retention.ms": "1000000"}
    assert found["altered"] == {"retention.ms": "2000000", "flush.ms": "777"}
    assert found["reset"] == {"retention.ms": "2000000"}
    assert found["offsets"] == {"earliest": 0, "latest": 3, "max timestamp": 1, "for 2000": 1}
    assert found["low watermark"] == 2
    assert found["log size"] > 0
    assert found["producers"] == 1
    assert found["is listed"] is True
    assert found["is listed after deletion"] is False
    assert found["metadata.version"] > 0
    assert found["quorum leader"] == found["controller"]
