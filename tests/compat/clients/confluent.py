"""confluent-kafka: librdkafka as in most Python programs, with an idempotent producer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from compat.clients.base import ALL_CODECS, READ_SECONDS, WriteJob
from harness.samples import Sample


class ConfluentProducer:
    name = "confluent-kafka"
    codecs = ALL_CODECS

    def expected(self, sample: Sample) -> Sample:
        return sample

    def produce(self, bootstrap: str, jobs: Sequence[WriteJob]) -> None:
        for job in jobs:
            self._produce(bootstrap, job)

    def _produce(self, bootstrap: str, job: WriteJob) -> None:
        options = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "compression.type": job.codec,
            "linger.ms": 20,
        }
        producer = Producer(options)
        failures: list[Any] = []
        for record in job.records:
            producer.produce(
                job.topic,
                key=record.key,
                value=record.value,
                partition=0,
                timestamp=record.timestamp_ms or 0,
                headers=list(record.headers),
                on_delivery=lambda error, _message: failures.append(error) if error else None,
            )
        assert producer.flush(READ_SECONDS) == 0
        assert failures == []


class ConfluentConsumer:
    name = "confluent-kafka"
    codecs = ALL_CODECS
    reads_headers = True

    def consume(self, bootstrap: str, counts: Mapping[str, int]) -> dict[str, list[Sample]]:
        # The library requires a group id, though nothing here joins a group or commits.
        consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
        )
        consumer.assign([TopicPartition(topic, 0, 0) for topic in counts])
        records: dict[str, list[Sample]] = {topic: [] for topic in counts}
        missing = sum(counts.values())
        deadline = time.monotonic() + READ_SECONDS
        while missing and time.monotonic() < deadline:
            for message in consumer.consume(500, timeout=1.0):
                assert message.error() is None, message.error()
                records[message.topic()].append(_sample(message))
                missing -= 1
        consumer.close()
        return records


def _sample(message: Any) -> Sample:
    return Sample(
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
        message.timestamp()[1],
        message.offset(),
    )
