"""Prepares a record for the accumulator if the compiled path of `send` cannot: serializes it, chooses its partition and
checks it.

It runs in the thread that calls `send`, and reads the cluster's metadata only through immutable snapshots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.client import errors
from penstock.client.cluster import Cluster
from penstock.client.producer.interceptors import OutgoingRecord
from penstock.client.producer.partitioners import check_choice, partitioner_of
from penstock.client.serializers import serialization_failed
from penstock.client.settings import ProducerSettings
from penstock.records.batch import HEADER_BYTES
from penstock.records.delivery import plain_headers
from penstock.records.producing import TopicQueues, largest_size, murmur2

TIMESTAMPS = range(2**63)


@dataclass(slots=True)
class Prepared:
    """A record that is ready to be appended."""

    topic: TopicQueues
    partition: int
    """-1: the current sticky partition, for records without a key."""
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]

    @property
    def size_bytes_max(self) -> int:
        """If it is alone in a batch."""
        return HEADER_BYTES + largest_size(self.key, self.value, self.headers)


class Preparer:
    def __init__(self, settings: ProducerSettings, cluster: Callable[[], Cluster]) -> None:
        self._cluster = cluster
        self._record_bytes_max: int = settings.get("max.request.size")
        self._buffer_bytes: int = settings.get("buffer.memory")
        self.partitioner, is_keyless = partitioner_of(settings.get("partitioner.class"))
        """The application's partitioner; None for the compiled default."""
        self.ignores_keys: bool = is_keyless or settings.get("partitioner.ignore.keys")

    def prepare(self, record: OutgoingRecord, topic: TopicQueues, *, is_serialized: bool = False) -> Prepared:
        if record.timestamp_ms is not None and (
            not isinstance(record.timestamp_ms, int) or record.timestamp_ms not in TIMESTAMPS
        ):
            raise errors.BadArgument(
                f"timestamp_ms must be an integer of milliseconds, not {record.timestamp_ms!r}"
            )
        try:
            headers = [] if record.headers is None else plain_headers(record.headers)
        except TypeError as error:
            raise errors.BadArgument(str(error), about=record.topic) from error
        key = _bytes(None if is_serialized else topic.serialize_key, record.key, topic.name, is_key=True)
        value = _bytes(
            None if is_serialized else topic.serialize_value, record.value, topic.name, is_key=False
        )
        partition = self._partition(topic, record.partition, key, value)
        prepared = Prepared(topic, partition, record.timestamp_ms, key, value, headers)
        self._check_size(prepared)
        return prepared

    def _partition(
        self, topic: TopicQueues, partition: int | None, key: bytes | None, value: bytes | None
    ) -> int:
        count = len(topic.queues)
        if partition is not None:
            if not isinstance(partition, int) or isinstance(partition, bool):
                raise errors.BadArgument(f"partition must be an integer, not {partition!r}", about=topic.name)
            if not 0 <= partition < count:
                raise errors.BadArgument(
                    f"partition {partition} does not exist; the topic has partitions 0 to {count - 1}",
                    about=topic.name,
                )
            return partition
        if self.partitioner is not None:
            known = self._cluster().topics.get(topic.name)
            infos = () if known is None else known.partitions
            available = [info.index for info in infos if info.leader_id >= 0 and info.index < count]
            choice = self.partitioner.partition(topic.name, key, value, range(count), available)
            return check_choice(choice, count, topic.name)
        if key is not None and not self.ignores_keys:
            return (murmur2(key) & 0x7FFF_FFFF) % count
        return -1

    def _check_size(self, prepared: Prepared) -> None:
        size = prepared.size_bytes_max
        if size > self._record_bytes_max:
            raise errors.RecordTooLarge(
                f"a record of {size} bytes with its overhead is larger than max.request.size, "
                f"which is {self._record_bytes_max}",
                about=prepared.topic.name,
            )
        if size > self._buffer_bytes:
            raise errors.RecordTooLarge(
                f"a record of {size} bytes does not fit buffer.memory, which is {self._buffer_bytes}",
                about=prepared.topic.name,
            )


def _bytes(serialize: Any, value: Any, topic: str, *, is_key: bool) -> bytes | None:
    if value is None:
        return None
    try:
        data = value if serialize is None else serialize(value)
        if data is None or isinstance(data, bytes):
            return data
        if isinstance(data, str):
            return data.encode()
        if isinstance(data, bytearray | memoryview):
            return bytes(data)
        raise TypeError(
            'without a serializer it must be bytes or str; serializer="json" accepts other types'
            if serialize is None
            else f"its serializer returned {type(data).__name__}, not bytes"
        )
    except Exception as error:
        raise serialization_failed(error, topic, value, is_key=is_key) from error
