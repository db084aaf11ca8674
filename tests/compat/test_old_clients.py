"""Old clients and current ones read what the other writes.

Before 0.11 records had message format v0 (no timestamps) or v1, with a different layout when compressed. The broker
converts what such a producer sends and what such a consumer fetches. Apache Kafka 4.0 dropped this, so against Kafka
use an older one: `--broker=kafka --kafka-libs=<jars of 3.9>`.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest

from compat.clients.base import Consumer, Producer, WriteJob
from compat.clients.confluent import ConfluentConsumer, ConfluentProducer
from compat.clients.java import JavaConsumer, JavaProducer
from compat.clients.kafka_python import KafkaPythonConsumer, KafkaPythonProducer
from harness.admin import create_topics, new_name
from harness.brokers import Broker, tool
from harness.samples import Sample, samples

BEFORE_ZSTD = ("none", "gzip", "snappy", "lz4")
OLD_PRODUCERS: list[Producer] = [
    KafkaPythonProducer("1.4.7", api_version="0.8.2"),
    KafkaPythonProducer("1.4.7", api_version="0.9"),
    KafkaPythonProducer("1.4.7", api_version="0.10.0"),
    KafkaPythonProducer("1.4.7", api_version="0.10.2"),
    KafkaPythonProducer("1.4.7", api_version="0.11.0"),
    KafkaPythonProducer("1.4.7", api_version="1.0.0"),
    JavaProducer("0.10.2.2", BEFORE_ZSTD),
    JavaProducer("2.0.1", BEFORE_ZSTD),
]
OLD_CONSUMERS: list[Consumer] = [
    KafkaPythonConsumer("1.4.7", api_version="0.8.2"),
    KafkaPythonConsumer("1.4.7", api_version="0.9"),
    KafkaPythonConsumer("1.4.7", api_version="0.10.0"),
    KafkaPythonConsumer("1.4.7", api_version="0.10.2"),
    KafkaPythonConsumer("1.4.7", api_version="0.11.0"),
    KafkaPythonConsumer("1.4.7", api_version="1.0.0"),
    JavaConsumer("0.10.2.2", BEFORE_ZSTD),
    JavaConsumer("2.0.1", BEFORE_ZSTD),
]
SAMPLES = samples()


@pytest.fixture(scope="module")
def cluster_of_old(cluster: Broker, request: pytest.FixtureRequest) -> Broker:
    if cluster.name == "kafka" and request.config.getoption("--kafka-libs") is None:
        pytest.skip("Apache Kafka 4 does not serve clients before 0.11")
    return cluster


@pytest.mark.parametrize("producer", OLD_PRODUCERS, ids=lambda producer: producer.name)
def test_current_clients_read_what_an_old_producer_writes(cluster_of_old: Broker, producer: Producer) -> None:
    bootstrap = cluster_of_old.bootstrap
    jobs = {codec: WriteJob(new_name(f"old-producer-{codec}"), codec, SAMPLES) for codec in producer.codecs}
    create_topics(bootstrap, *(job.topic for job in jobs.values()))

    producer.produce(bootstrap, list(jobs.values()))

    found = ConfluentConsumer().consume(bootstrap, {job.topic: len(SAMPLES) for job in jobs.values()})
    for codec, job in jobs.items():
        expected = [replace(producer.expected(sample), offset=at) for at, sample in enumerate(SAMPLES)]
        assert _without_unset_times(found[job.topic], expected) == expected, codec


@pytest.mark.parametrize("consumer", OLD_CONSUMERS, ids=lambda consumer: consumer.name)
def test_an_old_consumer_reads_what_current_clients_write(cluster_of_old: Broker, consumer: Consumer) -> None:
    bootstrap = cluster_of_old.bootstrap
    jobs = {codec: WriteJob(new_name(f"old-consumer-{codec}"), codec, SAMPLES) for codec in consumer.codecs}
    create_topics(bootstrap, *(job.topic for job in jobs.values()))
    ConfluentProducer().produce(bootstrap, list(jobs.values()))

    found = consumer.consume(bootstrap, {job.topic: len(SAMPLES) for job in jobs.values()})

    for codec, job in jobs.items():
        expected = [replace(sample, offset=at) for at, sample in enumerate(SAMPLES)]
        if not consumer.reads_headers:
            expected = [replace(sample, headers=()) for sample in expected]
        if not _reads_timestamps(consumer):
            expected = [replace(sample, timestamp_ms=None) for sample in expected]
        assert found[job.topic] == expected, codec


def _reads_timestamps(consumer: Consumer) -> bool:
    return not (isinstance(consumer, KafkaPythonConsumer) and consumer.is_before("0.10"))


def _without_unset_times(found: list[Sample], expected: list[Sample]) -> list[Sample]:
    """A record of format v0 has no timestamp; current consumers see -1, or the broker's."""
    return [
        replace(record, timestamp_ms=None) if other.timestamp_ms is None else record
        for record, other in zip(found, expected, strict=True)
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("broker_version", ["0.9.0.1", "0.10.0.1", "0.10.2.1", "1.0.0"])
def test_kcat_configured_for_an_old_broker(cluster_of_old: Broker, broker_version: str, codec: str) -> None:
    topic = new_name("old-kcat")
    create_topics(cluster_of_old.bootstrap, topic)
    lines = b"".join(b"line %d of a hundred\n" % number for number in range(100))
    settings = {"api.version.request": "false", "broker.version.fallback": broker_version}
    command = [tool("kcat"), "-b", cluster_of_old.bootstrap, "-t", topic, "-p", "0"]
    command += [word for pair in settings.items() for word in ("-X", "=".join(pair))]

    subprocess.run(
        [*command, "-P", "-z", codec, "-X", "max.in.flight=1"], input=lines, check=True, timeout=60
    )

    read = subprocess.run(
        [*command, "-C", "-o", "beginning", "-e", "-q"], capture_output=True, check=True, timeout=60
    )
    assert read.stdout == lines
