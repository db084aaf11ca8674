"""Load for group tests: keyed, numbered records, and the offset of each."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from typing import Any, Self

from confluent_kafka import Consumer, Producer, TopicPartition

from harness.waiting import wait_until

Offset = tuple[int, int]
"""Partition and offset."""
KEY_COUNT = 97
BURST_RECORDS = 10
PAUSE_SECONDS = 0.02
FLUSH_SECONDS = 30.0


class NumberedLoad(ABC):
    """A thread that writes numbered records; `written` has the number at each offset."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.written: dict[Offset, int] = {}
        self._bootstrap = bootstrap
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        self._thread.start()

    def abandon(self) -> None:
        """Stop sending, and wait for nothing."""
        self._stopping.set()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @abstractmethod
    def stop(self) -> None:
        """Return when all records are acknowledged."""

    def wait_for_more(self, *, seconds: float = 60) -> None:
        """Return when more records are acknowledged: a broker that starts may take a while."""
        before = len(self.written)
        wait_until(lambda: len(self.written) > before, "more records are acknowledged", seconds=seconds)

    @abstractmethod
    def _run(self) -> None: ...


class Load(NumberedLoad):
    """Writes with confluent-kafka's idempotent producer."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(bootstrap, topic)
        self._unplaced_count = 0
        self._refused: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(FLUSH_SECONDS + 1)
        assert not self._refused, self._refused[0]
        if self._unplaced_count:
            self._find_unplaced()
            self._unplaced_count = 0

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(PAUSE_SECONDS):
            for _ in range(BURST_RECORDS):
                key = b"key-%d" % (number % KEY_COUNT)
                self._producer.produce(self._topic, b"%d" % number, key, on_delivery=self._take_delivery)
                number += 1
            self._producer.poll(0)
        left = self._producer.flush(FLUSH_SECONDS)
        if left:
            self._refused.append(f"{left} records were never acknowledged")

    def _take_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            self._refused.append(f"{message.value()!r} was rejected: {error}")
        elif message.offset() is None:  # acknowledged on a retry, which does not return the offset
            self._unplaced_count += 1
        else:
            self.written[message.partition(), message.offset()] = int(message.value())

    def _find_unplaced(self) -> None:
        """Read the topic up to the last record written."""
        count = len(self.written) + self._unplaced_count
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "unused", "log_level": 0})
        partitions = consumer.list_topics(self._topic, timeout=FLUSH_SECONDS).topics[self._topic].partitions
        consumer.assign([TopicPartition(self._topic, partition, 0) for partition in partitions])
        deadline = time.monotonic() + FLUSH_SECONDS
        while len(self.written) < count:
            assert time.monotonic() < deadline, (
                f"{count} records were acknowledged, {len(self.written)} were found"
            )
            for message in consumer.consume(1_000, timeout=0.1):
                if message.error() is None:
                    self.written[message.partition(), message.offset()] = int(message.value())
        consumer.close()
