"""aiokafka: the asyncio client, with an idempotent producer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from compat.clients.base import ALL_CODECS, READ_SECONDS, WriteJob
from harness.samples import Sample


class AiokafkaProducer:
    name = "aiokafka"
    codecs = ALL_CODECS

    def expected(self, sample: Sample) -> Sample:
        return sample

    def produce(self, bootstrap: str, jobs: Sequence[WriteJob]) -> None:
        asyncio.run(_produce(bootstrap, jobs))


class AiokafkaConsumer:
    name = "aiokafka"
    codecs = ALL_CODECS
    reads_headers = True

    def consume(self, bootstrap: str, counts: Mapping[str, int]) -> dict[str, list[Sample]]:
        return asyncio.run(_consume(bootstrap, counts))


async def _produce(bootstrap: str, jobs: Sequence[WriteJob]) -> None:
    for job in jobs:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=True,
            acks="all",
            compression_type=None if job.codec == "none" else job.codec,
            linger_ms=20,
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    job.topic,
                    record.value,
                    key=record.key,
                    partition=0,
                    timestamp_ms=record.timestamp_ms,
                    headers=list(record.headers),
                )
                for record in job.records
            ]
            await asyncio.gather(*futures)
        finally:
            await producer.stop()


async def _consume(bootstrap: str, counts: Mapping[str, int]) -> dict[str, list[Sample]]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest")
    await consumer.start()
    records: dict[str, list[Sample]] = {topic: [] for topic in counts}
    try:
        consumer.assign([TopicPartition(topic, 0) for topic in counts])
        async with asyncio.timeout(READ_SECONDS):
            while any(len(records[topic]) < count for topic, count in counts.items()):
                for partition, messages in (await consumer.getmany(timeout_ms=1000)).items():
                    records[partition.topic] += [
                        Sample(m.key, m.value, tuple(m.headers), m.timestamp, m.offset) for m in messages
                    ]
    finally:
        await consumer.stop()
    return records
