"""Where an application's records come in, in plain Python: partition queues, room, and the way of one `send`.

A `send` finds the topic, takes bytes and text as they are, chooses the partition by key or stays with the current one,
appends to the open batch and gives a receipt. What is out of the ordinary (an unknown topic, a full buffer, a record
too large, interceptors, a partitioner of the user's own, a wrong type) is left to `host.send_otherwise`.

Many threads may send while another takes batches away. The compiled `_intake.pyx` relies on the interpreter's lock;
this one, in which any two lines may have another thread between them, takes a lock of its own. The host is never
called with the lock held.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from penstock.records.append_twin import ProducerBatch, Receipt, murmur2
from penstock.records.batch import HEADER_BYTES, Buffer
from penstock.records.delivery import AnyHeaders, Waiting, lasting, plain_headers
from penstock.records.varint import append_varint

RECORD_OVERHEAD = (
    31  # its length 5, attributes 1, timestamp 10, offset 5, the lengths of key and value 5 each
)

PlainHeaders = list[tuple[str, bytes | None]]


class Host(Waiting, Protocol):
    """What an intake needs of the producer round it. Called in the thread that sends."""

    def send_otherwise(
        self, topic: Any, value: Any, key: Any, headers: Any, partition: Any, timestamp_ms: Any
    ) -> Receipt:
        """Send what the short way cannot: make the topic known, wait for room, or raise."""
        ...

    def choose(self, topic: TopicQueues) -> PartitionQueue:
        """Where records without a key go from now on."""
        ...

    def opened(self) -> None:
        """A batch was opened: somebody must look after it when its time comes."""
        ...

    def filled(self) -> None:
        """A batch is full, and can be sent now."""
        ...

    def serialization_failed(
        self, error: Exception, topic: str, value: object, is_key: bool
    ) -> Exception: ...


class PartitionQueue:
    """The batches of one partition that have not been sent: one that is open, behind those that are closed."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.open: ProducerBatch | None = None
        self.closed: deque[ProducerBatch] = deque()
        self.line: Any = None
        """For whoever takes the batches away."""
        self.is_told = False
        self.lock = threading.RLock()

    def close_open(self) -> None:
        """Let no more records into the open batch."""
        with self.lock:
            if self.open is not None:
                self.closed.append(self.open)
                self.open = None

    def take(self) -> ProducerBatch | None:
        """The first batch, the open one where it is the only one; None where there is none."""
        with self.lock:
            if self.closed:
                return self.closed.popleft()
            batch, self.open = self.open, None
            return batch

    def forget(self) -> bool:
        """Nothing is left to look after: tell again when a record comes. False where one came meanwhile."""
        with self.lock:
            if self.open is not None or self.closed:
                return False
            self.is_told = False
            return True


class TopicQueues:
    """The partitions of one topic, and the one that records without a key go to at present."""

    def __init__(
        self,
        name: str,
        count: int,
        serialize_key: Callable[[Any], Any] | None = None,
        serialize_value: Callable[[Any], Any] | None = None,
    ) -> None:
        self.name = name
        self.queues: list[PartitionQueue] = []
        self.sticky: PartitionQueue | None = None
        self.sticky_bytes = 0
        self.serialize_key = serialize_key
        self.serialize_value = serialize_value
        self.grow(count)

    def grow(self, count: int) -> None:
        """Have at least so many partitions."""
        self.queues += [PartitionQueue(self.name, index) for index in range(len(self.queues), count)]


class Intake:
    def __init__(
        self,
        host: Host,
        *,
        batch_bytes_max: int,
        buffer_bytes: int,
        record_bytes_max: int,
        now_ms: Callable[[], int] | None = None,
        wall_ms: Callable[[], int] | None = None,
        ignores_keys: bool = False,
    ) -> None:
        self.topics: dict[str, TopicQueues] = {}
        self.is_plain = True
        """Whether a send may go the short way at all."""
        self.is_open = True
        """Whether records may come in. A send that began before this became False is told so too."""
        self.room_bytes = buffer_bytes
        self.batch_bytes_max = max(batch_bytes_max, 1)
        self.record_bytes_max = record_bytes_max
        self._host = host
        self._now_ms = now_ms or (lambda: time.monotonic_ns() // 1_000_000)
        self._wall_ms = wall_ms or (lambda: time.time_ns() // 1_000_000)
        self.ignores_keys = ignores_keys
        self._news: list[PartitionQueue] = []
        self._lock = threading.RLock()

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: AnyHeaders | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Receipt:
        host = self._host
        queues = self.topics.get(topic) if self.is_plain and type(topic) is str else None
        if queues is None:
            return host.send_otherwise(topic, value, key, headers, partition, timestamp_ms)
        key_data = self._serialized(queues, queues.serialize_key, key, True)
        value_data = self._serialized(queues, queues.serialize_value, value, False)
        try:
            key_bytes, value_bytes = _plain(key_data), _plain(value_data)
        except (TypeError, UnicodeEncodeError):
            return host.send_otherwise(topic, value, key, headers, partition, timestamp_ms)
        queue = None
        if partition is not None:
            if type(partition) is not int or not 0 <= partition < len(queues.queues):
                return host.send_otherwise(topic, value, key, headers, partition, timestamp_ms)
            queue = queues.queues[partition]
        elif key_bytes is not None and not self.ignores_keys:
            queue = queues.queues[(murmur2(key_bytes) & 0x7FFF_FFFF) % len(queues.queues)]
        if timestamp_ms is not None and (type(timestamp_ms) is not int or not 0 <= timestamp_ms < 2**63):
            return host.send_otherwise(topic, value, key, headers, partition, timestamp_ms)
        timestamp = self._wall_ms() if timestamp_ms is None else timestamp_ms
        headers = None if headers is None else lasting(headers)
        try:
            pairs = [] if headers is None else plain_headers(headers)
        except TypeError:
            return host.send_otherwise(topic, value, key, headers, partition, timestamp_ms)
        receipt = self._add(queues, queue, timestamp, key_bytes, value_bytes, pairs)
        if receipt is None:
            return host.send_otherwise(topic, value, key, headers, partition, timestamp_ms)
        return receipt

    def append(
        self,
        topic: TopicQueues,
        partition: int,
        timestamp_ms: int | None,
        key: Buffer | None,
        value: Buffer | None,
        headers: AnyHeaders | None,
    ) -> Receipt | None:
        """Add a record of bytes or None and of plain headers to a partition; None where there is no room for it.

        A negative partition stands for the current one of records without a key.
        """
        return self._add(
            topic,
            None if partition < 0 else topic.queues[partition],
            self._wall_ms() if timestamp_ms is None else timestamp_ms,
            None if key is None else bytes(key),
            None if value is None else bytes(value),
            plain_headers(headers) if headers else [],
        )

    def take_news(self) -> list[PartitionQueue]:
        """Partitions that got a record since they were last forgotten, once each."""
        with self._lock:
            news, self._news = self._news, []
            return news

    def give_back(self, batch: ProducerBatch) -> None:
        """The batch is done: its bytes are free for other records."""
        with self._lock:
            self.room_bytes += batch.charged_bytes
            batch.charged_bytes = 0

    def charge(self, batch: ProducerBatch) -> None:
        """Count a batch that came by splitting another."""
        with self._lock:
            batch.charged_bytes = batch.size_bytes
            self.room_bytes -= batch.size_bytes

    def _serialized(
        self, topic: TopicQueues, serialize: Callable[[Any], Any] | None, value: Any, is_key: bool
    ) -> Any:
        if value is None or serialize is None:
            return value
        try:
            return serialize(value)
        except Exception as error:
            raise self._host.serialization_failed(error, topic.name, value, is_key) from error

    def _add(
        self,
        topic: TopicQueues,
        queue: PartitionQueue | None,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: PlainHeaders,
    ) -> Receipt | None:
        """Append to the queue, or to the topic's current one where there is none; None where it cannot come in now."""
        is_sticky = queue is None
        is_filled = False
        size_max = largest_size(key, value, headers)
        if queue is None:
            queue, is_filled = self._sticky_queue(topic, size_max)
        with self._lock, queue.lock:
            whole_size_max = size_max + HEADER_BYTES
            if not self.is_open or whole_size_max > self.record_bytes_max or whole_size_max > self.room_bytes:
                return None
            if queue.open is not None and queue.open.size_bytes + size_max > self.batch_bytes_max:
                queue.close_open()
                is_filled = True
            is_opened = queue.open is None
            if queue.open is None:
                queue.open = ProducerBatch(queue.topic, queue.partition, self._host)
                queue.open.created_ms = self._now_ms()
                queue.open.charged_bytes = HEADER_BYTES
                self.room_bytes -= HEADER_BYTES
            batch = queue.open
            before = batch.size_bytes
            receipt = batch.append(timestamp, key, value, tuple(headers))
            size = batch.size_bytes - before
            batch.charged_bytes += size
            self.room_bytes -= size
            if is_sticky:
                topic.sticky_bytes += size
            if not queue.is_told:
                queue.is_told = True
                self._news.append(queue)
        if is_filled:
            self._host.filled()
        elif is_opened:
            self._host.opened()
        return receipt

    def _sticky_queue(self, topic: TopicQueues, size_max: int) -> tuple[PartitionQueue, bool]:
        """The queue for records without a key, and whether its predecessor's batch was closed for it.

        It changes when a batch's worth went to it, but not before a batch ends: half a batch left behind would have to
        wait for its time.
        """
        queue = topic.sticky
        is_filled = False
        is_due = topic.sticky_bytes + HEADER_BYTES + size_max > self.batch_bytes_max
        if queue is not None and is_due:
            with queue.lock:
                if queue.open is not None and queue.open.size_bytes + size_max > self.batch_bytes_max:
                    queue.close_open()
                    is_filled = True
        if queue is None or (is_due and queue.open is None):
            topic.sticky_bytes = 0
            queue = topic.sticky = self._host.choose(topic)
        return queue, is_filled


class Sending:
    """The base of a sync producer: its `send` is the intake's, compiled, and not a Python call that makes another."""

    _intake_of_sending: Intake

    def _begin_sending(self, intake: Intake) -> None:
        self._intake_of_sending = intake

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: AnyHeaders | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Receipt:
        """Send a record. Returns at once with a receipt, unless the buffer is full or the topic not known yet: then it
        waits, for `max.block.ms` at most.

        Keys and values are made bytes by the producer's serializers; without one they are bytes or text. Records of one
        key go to one partition, unless `partition` names it.
        """
        if not hasattr(self, "_intake_of_sending"):
            raise TypeError(
                "Producer.__init__ was not called: a class derived from it calls super().__init__()"
            )
        return self._intake_of_sending.send(
            topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )


def _plain(data: Any) -> bytes | None:
    if data is None or type(data) is bytes:
        return data
    if type(data) is str:
        return data.encode()
    raise TypeError("not bytes, text or None")


def largest_size(key: bytes | None, value: bytes | None, headers: PlainHeaders) -> int:
    """What a record takes at most, wherever in a batch it stands."""
    headers_bytes = sum(_field_size(name.encode()) + _field_size(content) for name, content in headers)
    count = bytearray()
    append_varint(count, len(headers))
    return RECORD_OVERHEAD + len(key or b"") + len(value or b"") + headers_bytes + len(count)


def _field_size(data: bytes | None) -> int:
    out = bytearray()
    append_varint(out, -1 if data is None else len(data))
    return len(out) + len(data or b"")
