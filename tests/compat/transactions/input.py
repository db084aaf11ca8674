"""What pipelines read: numbered records, spread over the partitions of a topic, so many at a time."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer

from harness.load import FLUSH_SECONDS, Offset


class Input:
    """Writes to a topic and knows where each record lies."""

    def __init__(self, bootstrap: str, topic: str, partition_count: int) -> None:
        self.written: dict[Offset, int] = {}
        self._topic = topic
        self._partition_count = partition_count
        self._sent = 0
        self._ends = dict.fromkeys(range(partition_count), 0)
        self._refused: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def write(self, count: int) -> None:
        """Returns when all is acknowledged. The producer is idempotent and alone, so that it knows every offset."""
        for _ in range(count):
            partition = self._sent % self._partition_count
            self._producer.produce(
                self._topic,
                b"%d" % self._sent,
                b"key-%d" % self._sent,
                partition=partition,
                on_delivery=self._take_delivery,
            )
            self.written[partition, self._ends[partition]] = self._sent
            self._ends[partition] += 1
            self._sent += 1
        left = self._producer.flush(FLUSH_SECONDS)
        assert (left, self._refused) == (0, [])

    def _take_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            self._refused.append(f"{message.value()!r} was refused: {error}")
