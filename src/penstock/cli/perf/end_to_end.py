"""One record at a time, written and read back: what a request and its answer over a topic take at least."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.cli.ending import consuming, producing
from penstock.cli.failures import Refusal
from penstock.cli.perf.measuring import Latencies
from penstock.cli.perf.producing import LETTERS

if TYPE_CHECKING:
    from penstock import Message

PATIENCE_S = 60.0

Told = Callable[[int, float], None]
"""Which record it was, and how many milliseconds it took."""


def measure(
    topic: str, *, count: int, size: int, acks: str, settings: Mapping[str, object], told: Told
) -> Latencies:
    """Send a record, wait for it to be acknowledged and read, and again."""
    from penstock import TopicPartition

    latencies = Latencies()
    rng = random.Random(0)
    common = dict(settings)
    with (
        producing({**common, "linger.ms": 0, "acks": acks}) as producer,
        consuming({**common, "auto.offset.reset": "latest", "fetch.max.wait.ms": 500}) as consumer,
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
            producer.send(topic, value).result(timeout=PATIENCE_S)
            messages = consumer.poll(timeout=PATIENCE_S)
            took_ms = (time.perf_counter() - began) * 1000
            _check(value, messages)
            latencies.add(took_ms)
            told(number, took_ms)
    return latencies


def _check(value: bytes, messages: Sequence[Message]) -> None:
    if not messages:
        raise Refusal(f"no record came back within {PATIENCE_S:.0f} s")
    if len(messages) > 1 or messages[0].value != value:
        raise Refusal("another record came back than was sent; is somebody else writing to the topic?")
