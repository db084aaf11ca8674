"""Clients that commit offsets through every crash, and keep what the broker acknowledged.

- `RawCommitter` commits for a group without members as fast as it gets responses, always a higher offset.
- `Churn` is a group whose members constantly join, read, commit and leave, so that crashes hit rebalances.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, Message

from harness.requests import ClosedByPeer, ask
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

COMMIT_VERSION = 8
RECONNECT_SECONDS = 0.02
GIVE_UP_SECONDS = 120.0
BATCH_RECORDS = 100
NOT_YET = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""Errors of a broker that has just started."""


@dataclass(slots=True)
class Promises:
    """By partition of one group, the highest acknowledged offset and the highest one sent."""

    group: str
    acknowledged: dict[int, int] = field(default_factory=dict)
    asked: dict[int, int] = field(default_factory=dict)
    count: int = 0
    errors: list[str] = field(default_factory=list)

    def ask_for(self, partition: int, offset: int) -> None:
        self.asked[partition] = max(offset, self.asked.get(partition, -1))

    def acknowledge(self, partition: int, offset: int) -> None:
        self.acknowledged[partition] = max(offset, self.acknowledged.get(partition, -1))
        self.count += 1


class RawCommitter:
    """One commit after the other on one connection, with the offset in its metadata as well."""

    def __init__(self, port: int, group: str, topic: str, partitions: list[int]) -> None:
        self.promises = Promises(group)
        self._port = port
        self._topic = topic
        self._partitions = partitions
        self._offset = 0
        self._free = threading.Event()
        self._free.set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=group, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(GIVE_UP_SECONDS)
        assert not self._thread.is_alive()

    def hold(self) -> None:
        """While the broker is down: wait for `release`, or new commits would hide the loss of old ones."""
        self._free.clear()

    def release(self) -> None:
        self._free.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            if not self._free.wait(RECONNECT_SECONDS):
                continue
            try:
                connection = WireConnection(self._port)
            except OSError:
                self._stopping.wait(RECONNECT_SECONDS)
                continue
            with connection, contextlib.suppress(ClosedByPeer, OSError):
                while not self._stopping.is_set():
                    self._commit(connection)

    def _commit(self, connection: WireConnection) -> None:
        self._offset += 1
        for partition in self._partitions:
            self.promises.ask_for(partition, self._offset)
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=self._offset,
                committed_metadata=f"at {self._offset}",
            )
            for partition in self._partitions
        ]
        topic = OffsetCommitRequestTopic(name=self._topic, partitions=partitions)
        request = OffsetCommitRequest(group_id=self.promises.group, topics=[topic])
        for answer in ask(connection, request, COMMIT_VERSION).topics[0].partitions:
            if answer.error_code is ErrorCode.NONE:
                self.promises.acknowledge(answer.partition_index, self._offset)
            elif answer.error_code not in NOT_YET:
                self.promises.errors.append(f"a commit of {self._offset} was rejected: {answer.error_code!r}")


class Churn:
    """Three members. Each leaves after a few seconds and comes back as a new one."""

    MEMBER_COUNT = 3

    def __init__(
        self, bootstrap: str, group: str, topic: str, *, settings: dict[str, object], seed: int
    ) -> None:
        self.promises = Promises(group)
        self.read_end: dict[int, int] = {}
        """By partition: all records before this offset were delivered to some member."""
        self._topic = topic
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
            "log_level": 0,
            **settings,
        }
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=[random.Random(seed + number)], daemon=True)
            for number in range(self.MEMBER_COUNT)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(GIVE_UP_SECONDS)
            assert not thread.is_alive(), f"a member of {self.promises.group} did not stop"

    def read_to(self, ends: dict[int, int]) -> None:
        """One more member reads and commits everything that is left."""
        consumer = self._join()
        while self.read_end != ends or self.promises.acknowledged != ends:
            self._read(consumer)
        consumer.close()

    def _run(self, rng: random.Random) -> None:
        while not self._stopping.is_set():
            consumer = self._join()
            leaves_at = time.monotonic() + rng.uniform(1.0, 4.0)
            while time.monotonic() < leaves_at and not self._stopping.is_set():
                self._read(consumer)
            consumer.close()
            self._stopping.wait(rng.uniform(0.0, 0.2))

    def _join(self) -> Consumer:
        consumer = Consumer(self._settings)
        consumer.subscribe([self._topic])
        return consumer

    def _read(self, consumer: Consumer) -> None:
        messages = []
        message = consumer.poll(0.05)
        while message is not None and len(messages) < BATCH_RECORDS:
            if message.error() is None:
                messages.append(message)
            message = consumer.poll(0)
        if message is not None and message.error() is None:
            messages.append(message)
        if not messages:
            return
        self._note(messages)
        try:
            committed = consumer.commit(asynchronous=False) or []
        except KafkaException:
            return  # fenced, rebalancing, or the broker is down: nothing was acknowledged
        with self._lock:
            for place in committed:
                if place.error is None and place.offset >= 0:
                    self.promises.acknowledge(place.partition, place.offset)

    def _note(self, messages: list[Message]) -> None:
        with self._lock:
            for message in messages:
                partition, offset = message.partition(), message.offset()
                end = self.read_end.get(partition, 0)
                if offset > end:
                    self.promises.errors.append(f"partition {partition}: read up to {offset}, but not {end}")
                self.read_end[partition] = max(end, offset + 1)
                self.promises.ask_for(partition, offset + 1)
