"""The input of pipelines: numbered records in transactions, with aborted ones between them."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer

from harness.load import FLUSH_SECONDS, Offset

BATCH_RECORDS = 50
NEVER_SEEN = b"aborted"  # not a number: a pipeline that reads it writes wrong output


class Input:
    """Writes to a topic, so many records at a time, and keeps the offset of each."""

    def __init__(self, bootstrap: str, topic: str, partition_count: int) -> None:
        self.written: dict[Offset, int] = {}
        self._topic = topic
        self._partition_count = partition_count
        self._sent = 0
        self._refused: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"{topic}-writer",
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._producer.init_transactions(FLUSH_SECONDS)

    @property
    def ends(self) -> dict[int, int]:
        """By partition, the offset after its last record, where a marker is."""
        return {partition: offset + 1 for partition, offset in sorted(self.written)}

    def write(self, count: int) -> None:
        """Return when everything is committed. The broker must be running."""
        for first in range(self._sent, self._sent + count, BATCH_RECORDS):
            self._roll_back()
            self._producer.begin_transaction()
            for number in range(first, min(first + BATCH_RECORDS, self._sent + count)):
                self._producer.produce(
                    self._topic,
                    b"%d" % number,
                    b"key-%d" % number,
                    partition=number % self._partition_count,
                    on_delivery=self._take_delivery,
                )
            self._producer.commit_transaction(FLUSH_SECONDS)
        self._sent += count
        assert (self._refused, len(self.written)) == ([], self._sent)

    def _roll_back(self) -> None:
        self._producer.begin_transaction()
        for partition in range(self._partition_count):
            self._producer.produce(self._topic, NEVER_SEEN, partition=partition)
        self._producer.flush(FLUSH_SECONDS)  # unsent records would be dropped
        self._producer.abort_transaction(FLUSH_SECONDS)

    def _take_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            self._refused.append(f"{message.value()!r} was rejected: {error}")
        else:
            self.written[message.partition(), message.offset()] = int(message.value())
