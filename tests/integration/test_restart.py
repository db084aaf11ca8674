"""All data is there after a restart, whether the broker was stopped or killed."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)

from compat.clients.base import WriteJob
from compat.clients.confluent import ConfluentConsumer, ConfluentProducer
from harness.admin import admin, create_topics
from harness.brokers import Broker
from harness.samples import samples
from harness.waiting import wait_until
from harness.wire import (
    PRODUCE,
    PRODUCE_VERSION,
    WireConnection,
    end_offset,
    parse_produce_response,
    produce_body,
    record_batch,
)

INIT_PRODUCER_ID = 22
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
COORDINATOR_LOAD_IN_PROGRESS = 14
WAIT_SECONDS = 30.0
NOW_MS = int(time.time() * 1000)


def stop_and_start(broker: Broker) -> None:
    broker.restart()


def kill_and_start(broker: Broker) -> None:
    broker.kill()
    broker.start()


@pytest.fixture
def broker(tmp_path: Path, make_broker: Callable[..., Broker]) -> Iterator[Broker]:
    """A broker that writes log start offsets often, and lets a killed predecessor's session expire soon."""
    quick = {
        "log.initial.task.delay.ms": "100",
        "log.flush.start.offset.checkpoint.interval.ms": "200",
        "broker.session.timeout.ms": "1000",
    }
    broker = make_broker(tmp_path / "broker", settings=quick)
    broker.start()
    yield broker
    broker.close()


@pytest.fixture(params=[stop_and_start, kill_and_start], ids=["stopped", "killed"])
def restart(request: pytest.FixtureRequest) -> Callable[[Broker], None]:
    return request.param  # type: ignore[no-any-return]


def topic_ids(broker: Broker, *names: str) -> dict[str, str]:
    client = admin(broker.bootstrap)
    described = client.describe_topics(TopicCollection(list(names)))
    return {name: str(future.result(WAIT_SECONDS).topic_id) for name, future in described.items()}


def config(broker: Broker, kind: ResourceType, name: str, key: str) -> Any:
    client = admin(broker.bootstrap)
    [future] = client.describe_configs([ConfigResource(kind, name)]).values()
    return future.result(WAIT_SECONDS)[key].value


def set_config(broker: Broker, kind: ResourceType, name: str, key: str, value: str) -> None:
    client = admin(broker.bootstrap)
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    [future] = client.incremental_alter_configs(
        [ConfigResource(kind, name, incremental_configs=[entry])]
    ).values()
    future.result(WAIT_SECONDS)


def is_led(broker: Broker, topic: str) -> bool:
    with WireConnection(broker.port) as connection:
        return end_offset(connection, topic, 0) >= 0


def wait_until_led(broker: Broker, topic: str) -> None:
    """Apache Kafka answers before its partitions are loaded; Penstock does not."""
    wait_until(lambda: is_led(broker, topic), f"{topic} has a leader")


def test_topics_keep_their_ids_partitions_and_configs(
    broker: Broker, restart: Callable[[Broker], None]
) -> None:
    create_topics(broker.bootstrap, "kept", partitions=3, config={"retention.ms": "1000000"})
    create_topics(broker.bootstrap, "deleted")
    client = admin(broker.bootstrap)
    client.create_partitions([NewPartitions("kept", 5)])["kept"].result(WAIT_SECONDS)
    client.delete_topics(["deleted"])["deleted"].result(WAIT_SECONDS)
    set_config(broker, ResourceType.TOPIC, "kept", "flush.ms", "777")
    [node] = client.list_topics(timeout=WAIT_SECONDS).brokers
    set_config(broker, ResourceType.BROKER, str(node), "log.cleaner.threads", "2")
    ids = topic_ids(broker, "kept")
    cluster_id = client.list_topics(timeout=WAIT_SECONDS).cluster_id

    restart(broker)

    wait_until_led(broker, "kept")
    metadata = admin(broker.bootstrap).list_topics(timeout=WAIT_SECONDS)
    assert metadata.cluster_id == cluster_id
    assert list(metadata.brokers) == [node]
    assert len(metadata.topics["kept"].partitions) == 5
    assert "deleted" not in metadata.topics
    assert topic_ids(broker, "kept") == ids
    assert config(broker, ResourceType.TOPIC, "kept", "retention.ms") == "1000000"
    assert config(broker, ResourceType.TOPIC, "kept", "flush.ms") == "777"
    assert config(broker, ResourceType.BROKER, str(node), "log.cleaner.threads") == "2"


def test_records_can_be_read_after_a_restart(broker: Broker, restart: Callable[[Broker], None]) -> None:
    names = {codec: f"records-{codec}" for codec in ("none", "zstd")}
    create_topics(broker.bootstrap, *names.values())
    jobs = [WriteJob(topic, codec, samples()) for codec, topic in names.items()]
    ConfluentProducer().produce(broker.bootstrap, jobs)
    counts = {job.topic: len(job.records) for job in jobs}
    before = ConfluentConsumer().consume(broker.bootstrap, counts)

    restart(broker)

    assert ConfluentConsumer().consume(broker.bootstrap, counts) == before
    ConfluentProducer().produce(broker.bootstrap, jobs[:1])
    more = ConfluentConsumer().consume(broker.bootstrap, {jobs[0].topic: 2 * len(samples())})[jobs[0].topic]
    assert [record.offset for record in more] == list(range(2 * len(samples())))


def test_the_log_start_offset_stays_after_records_were_deleted(
    broker: Broker, restart: Callable[[Broker], None]
) -> None:
    create_topics(broker.bootstrap, "shortened")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(10):
        producer.produce("shortened", b"%d" % number, partition=0)
    assert producer.flush(WAIT_SECONDS) == 0
    client = admin(broker.bootstrap)
    [deleted] = client.delete_records([TopicPartition("shortened", 0, 7)]).values()
    assert deleted.result(WAIT_SECONDS).low_watermark == 7
    if restart is kill_and_start:
        # The start offset is written in the background; a crash before that restores deleted records, as in Kafka.
        checkpoint = broker.log_directories[0] / "log-start-offset-checkpoint"
        wait_until(
            lambda: checkpoint.exists() and "shortened 0 7" in checkpoint.read_text(),
            "the start offset is written",
        )

    restart(broker)

    wait_until_led(broker, "shortened")
    client = admin(broker.bootstrap)
    [found] = client.list_offsets({TopicPartition("shortened", 0): OffsetSpec.earliest()}).values()
    assert found.result(WAIT_SECONDS).offset == 7


def test_a_producers_sequence_continues(broker: Broker, restart: Callable[[Broker], None]) -> None:
    create_topics(broker.bootstrap, "sequenced")
    wait_until_led(broker, "sequenced")
    with WireConnection(broker.port) as connection:
        producer_id, epoch = init_producer_id(connection)
        batches = [
            record_batch(
                [b"%d" % number, b"again"],
                timestamp_ms=NOW_MS,
                producer_id=producer_id,
                epoch=epoch,
                sequence=2 * number,
            )
            for number in range(4)
        ]
        for number, batch in enumerate(batches[:3]):
            assert produce(connection, "sequenced", batch) == (0, 2 * number)

    restart(broker)

    wait_until_led(broker, "sequenced")
    with WireConnection(broker.port) as connection:
        # The last batch again, like a retry after a lost response. The response has its offset, and it is written
        # once.
        assert produce(connection, "sequenced", batches[2]) == (0, 4)
        assert end_offset(connection, "sequenced", 0) == 6
        too_far = record_batch(
            [b"gap"], timestamp_ms=NOW_MS, producer_id=producer_id, epoch=epoch, sequence=50
        )
        assert produce(connection, "sequenced", too_far)[0] == OUT_OF_ORDER_SEQUENCE_NUMBER
        assert produce(connection, "sequenced", batches[3]) == (0, 6)
        other_id, _ = init_producer_id(connection)
        assert other_id > producer_id  # ids are never assigned twice


def init_producer_id(connection: WireConnection) -> tuple[int, int]:
    error_code = COORDINATOR_LOAD_IN_PROGRESS
    while (
        error_code == COORDINATOR_LOAD_IN_PROGRESS
    ):  # Apache Kafka returns this while it fetches a block of ids
        payload = connection.request(INIT_PRODUCER_ID, 1, struct.pack(">hi", -1, 60_000))
        _throttle_ms, error_code, producer_id, epoch = struct.unpack(">ihqh", payload)
    assert error_code == 0
    return producer_id, epoch


def produce(connection: WireConnection, topic: str, batch: bytes) -> tuple[int, int]:
    return parse_produce_response(connection.request(PRODUCE, PRODUCE_VERSION, produce_body(topic, 0, batch)))


def test_a_clean_stop_leaves_its_marker_file(broker: Broker) -> None:
    marker = broker.log_directories[0] / ".kafka_cleanshutdown"
    assert not marker.exists()

    status = broker.stop()

    assert status in (0, 128 + 15)  # the exit status of a JVM after SIGTERM
    assert marker.exists()
    broker.start()
    assert not marker.exists()  # or the next crash would look like a clean stop
    broker.kill()
    assert not marker.exists()


def test_producers_and_consumers_survive_a_restart(broker: Broker) -> None:
    create_topics(broker.bootstrap, "through")
    delivered: list[int] = []
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "enable.idempotence": True,
        "reconnect.backoff.max.ms": 200,
    }
    producer = Producer({**settings, "log_level": 0})
    for number in range(2_000):
        producer.produce(
            "through",
            b"%d" % number,
            partition=0,
            on_delivery=lambda error, message: delivered.append(message.offset()) if not error else None,
        )
        producer.poll(0)
        if number == 500:
            broker.restart()
        elif number == 1_000:
            broker.kill()
        elif number == 1_200:
            broker.start()

    assert producer.flush(60) == 0
    assert delivered == list(range(2_000))
    found = ConfluentConsumer().consume(broker.bootstrap, {"through": 2_000})["through"]
    assert [record.value for record in found] == [b"%d" % number for number in range(2_000)]
