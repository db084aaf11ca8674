"""Produce a record and consume it, one at a time: the latency of a round trip through a topic."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.cli.clients import open_consumer, open_producer
from penstock.cli.failures import Refusal
from penstock.cli.perf.measurement import Latencies
from penstock.cli.perf.producer import LETTERS

if TYPE_CHECKING:
    from penstock import Message

TIMEOUT_S = 60.0

OnRecord = Callable[[int, float], None]
"""Gets the number of the record and its latency in milliseconds."""


def measure(
    topic: str, *, count: int, size: int, acks: str, settings: Mapping[str, object], on_record: OnRecord
) -> Latencies:
    """Send records one by one; each must be acknowledged and consumed before the next."""
    from penstock import TopicPartition

    latencies = Latencies()
    rng = random.Random(0)
    common = dict(settings)
    with (
        open_producer({**common, "linger.ms": 0, "acks": acks}) as producer,
        open_consumer({**common, "auto.offset.reset": "latest", "fetch.max.wait.ms": 500}) as consumer,
    ):
        producer.partitions_for(topic)
        partitions = [TopicPartition(topic, one.index) for one in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        for partition, end in consumer.end_offsets(partitions).items():
            consumer.seek(partition, end)
        consumer.poll(timeout=0)
        for number in range(count):
            value = bytes([rng.choice(LETTERS)]) * size
            began = time.perf_counter()
            producer.send(topic, value).result(timeout=TIMEOUT_S)
            messages = consumer.poll(timeout=TIMEOUT_S)
            took_ms = (time.perf_counter() - began) * 1000
            _check(value, messages)
            latencies.add(took_ms)
            on_record(number, took_ms)
    return latencies


def _check(value: bytes, messages: Sequence[Message]) -> None:
    if not messages:
        raise Refusal(f"the record was not consumed within {TIMEOUT_S:.0f} s")
    if len(messages) > 1 or messages[0].value != value:
        raise Refusal("consumed another record than was produced; does another producer write to the topic?")
