"""The load under which members of groups come and go: keyed, numbered records, and where each of them lies."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from harness.waiting import wait_until

Offset = tuple[int, int]
"""A partition and an offset in it."""
KEY_COUNT = 97
BURST_RECORDS = 10
PAUSE_SECONDS = 0.02
FLUSH_SECONDS = 30.0


class Load:
    """Writes to a topic from `start` to `stop`; `written` says which number lies where."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.written: dict[Offset, int] = {}
        self._bootstrap = bootstrap
        self._topic = topic
        self._unplaced_count = 0
        self._refused: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Returns when all that was written is acknowledged."""
        self._stopping.set()
        self._thread.join(FLUSH_SECONDS + 1)
        assert not self._refused, self._refused[0]
        if self._unplaced_count:
            self._find_unplaced()
            self._unplaced_count = 0

    def wait_for_more(self) -> None:
        """Until records are acknowledged again, which a broker that starts may keep waiting."""
        before = len(self.written)
        wait_until(lambda: len(self.written) > before, "more records are acknowledged")

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
            self._refused.append(f"{message.value()!r} was refused: {error}")
        elif (
            message.offset() is None
        ):  # acknowledged when it was sent again, and then nobody tells where it lies
            self._unplaced_count += 1
        else:
            self.written[message.partition(), message.offset()] = int(message.value())

    def _find_unplaced(self) -> None:
        """Reads the topic up to the last record that was written."""
        count = len(self.written) + self._unplaced_count
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "unused", "log_level": 0})
        partitions = consumer.list_topics(self._topic, timeout=FLUSH_SECONDS).topics[self._topic].partitions
        consumer.assign([TopicPartition(self._topic, partition, 0) for partition in partitions])
        deadline = time.monotonic() + FLUSH_SECONDS
        while len(self.written) < count:
            assert time.monotonic() < deadline, (
                f"{count} records were acknowledged, {len(self.written)} are there"
            )
            for message in consumer.consume(1_000, timeout=0.1):
                if message.error() is None:
                    self.written[message.partition(), message.offset()] = int(message.value())
        consumer.close()
