"""Every consumer reads every codec of every producer.

Each producer writes the same records once per codec, each to its own topic. Then each consumer reads all topics.
There is one test per (producer, codec, consumer), so a failure names the pair that is incompatible.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from compat.clients.aio import AiokafkaConsumer, AiokafkaProducer
from compat.clients.base import Consumer, Producer, WriteJob
from compat.clients.confluent import ConfluentConsumer, ConfluentProducer
from compat.clients.console import ConsoleConsumer, ConsoleProducer
from compat.clients.java import JavaConsumer, JavaProducer
from compat.clients.kafka_python import KafkaPythonConsumer, KafkaPythonProducer
from compat.clients.kcat import KcatConsumer, KcatProducer
from harness.admin import create_topics
from harness.brokers import Broker
from harness.samples import Sample, samples

PRODUCERS: list[Producer] = [
    KcatProducer(),
    ConfluentProducer(),
    AiokafkaProducer(),
    KafkaPythonProducer(),
    KafkaPythonProducer("1.4.7"),
    JavaProducer(),
    JavaProducer("3.9.2"),
    ConsoleProducer(),
]
CONSUMERS: list[Consumer] = [
    KcatConsumer(),
    ConfluentConsumer(),
    AiokafkaConsumer(),
    KafkaPythonConsumer(),
    KafkaPythonConsumer("1.4.7"),
    JavaConsumer(),
    JavaConsumer("3.9.2"),
    ConsoleConsumer(),
]
SAMPLES = samples()


class Matrix:
    """The topics that producers wrote, and what consumers read, with each program run once.

    A producer or consumer that fails is kept with its error, which then fails only its own tests.
    """

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._written: dict[str, list[Sample]] = {}
        self._failures: dict[str, Exception] = {}
        self._found: dict[str, dict[str, list[Sample]]] = {}
        for producer in PRODUCERS:
            self._write(producer)

    def written(self, producer: Producer, codec: str) -> list[Sample]:
        """The content of the topic, as its producer meant it."""
        if failure := self._failures.get(producer.name):
            pytest.fail(f"{producer.name} could not write: {failure}")
        return self._written[topic_of(producer, codec)]

    def found(self, consumer: Consumer, producer: Producer, codec: str) -> list[Sample]:
        if consumer.name not in self._found:
            counts = {
                topic_of(producer, codec): len(SAMPLES)
                for producer in PRODUCERS
                if producer.name not in self._failures
                for codec in producer.codecs
                if codec in consumer.codecs
            }
            self._found[consumer.name] = consumer.consume(self._bootstrap, counts)
        return self._found[consumer.name][topic_of(producer, codec)]

    def _write(self, producer: Producer) -> None:
        jobs = [WriteJob(topic_of(producer, codec), codec, SAMPLES) for codec in producer.codecs]
        create_topics(self._bootstrap, *(job.topic for job in jobs))
        try:
            producer.produce(self._bootstrap, jobs)
        except Exception as exc:
            self._failures[producer.name] = exc
        expected = [
            replace(producer.expected(sample), offset=offset) for offset, sample in enumerate(SAMPLES)
        ]
        self._written |= {job.topic: expected for job in jobs}


@pytest.fixture(scope="module")
def matrix(cluster: Broker) -> Matrix:
    return Matrix(cluster.bootstrap)


CELLS = [
    pytest.param(producer, codec, consumer, id=f"{producer.name}-{codec}-{consumer.name}")
    for consumer in CONSUMERS
    for producer in PRODUCERS
    for codec in producer.codecs
    if codec in consumer.codecs
]


@pytest.mark.parametrize(("producer", "codec", "consumer"), CELLS)
def test_every_consumer_reads_what_every_producer_writes(
    producer: Producer, codec: str, consumer: Consumer, matrix: Matrix
) -> None:
    expected = matrix.written(producer, codec)

    found = matrix.found(consumer, producer, codec)

    # If the producer sets no timestamp, all consumers must at least see the same stored one.
    reference = matrix.found(CONSUMERS[0], producer, codec)
    expected = [
        replace(record, timestamp_ms=other.timestamp_ms) if record.timestamp_ms is None else record
        for record, other in zip(expected, reference, strict=True)
    ]
    assert found == expected


def topic_of(producer: Producer, codec: str) -> str:
    return f"matrix-{producer.name}-{codec}"
