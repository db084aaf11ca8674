"""Global tables in each worker process: a topic read to its end before a task starts, and cached.

A process keeps what it has read and continues from there with the next task, so a small batch costs one lookup of the
topic's end. If the topic was recreated, the cache is discarded.

As in `interpret.state`, keys are equal if their bytes are equal, and each lookup returns a new object: a joiner that
changes it in place changes no row.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from penstock.client.cluster import TopicPartition
from penstock.client.consumer.sync import Consumer
from penstock.spark import clients
from penstock.streams.compile.failures import OperatorFailed
from penstock.streams.serdes import Serde
from penstock.streams.topology import GlobalTable, Node


class Rows:
    """The rows of a global table by their serialized keys."""

    def __init__(self, key: Serde[Any], value: Serde[Any]) -> None:
        self._key = key
        self._value = value
        # Such a key equals its own bytes: encoding it for every record would take a quarter of a join's time.
        self._plain_key = key.spec if key.spec in (str, int, bytes) else None
        # A pickle is read three times as fast as JSON.
        self._pickled = value.spec in (dict, list)
        self._shared = value.spec in (str, int, float, bool, bytes, UUID)
        self._rows: dict[Any, Any] = {}

    def put(self, key: bytes, value: bytes | None) -> None:
        """Store a record; None deletes. Raises if key or value cannot be decoded."""
        place = self._place(self._key.decode(key))
        if value is None:
            self._rows.pop(place, None)
            return
        read = self._value.decode(value)
        self._rows[place] = read if self._shared else pickle.dumps(read, -1) if self._pickled else value

    def get(self, key: Any) -> Any:
        """The value of a key; None if there is none. Raises if the key cannot be a key of this table."""
        if type(key) is self._plain_key:
            row = self._rows.get(key)
            if row is None:
                self._key.encode(key)
        else:
            row = self._rows.get(self._place(key))
        if row is None or self._shared:
            return row
        return pickle.loads(row) if self._pickled else self._value.decode(row)

    def _place(self, key: Any) -> Any:
        data = self._key.encode(key)
        return data if self._plain_key is None else self._key.decode(data)


class WorkerTables:
    """The global tables of one task."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._settings = settings
        self._fresh: dict[str, Rows] = {}

    def rows(self, node: Node) -> Rows:
        assert isinstance(node, GlobalTable)
        found = self._fresh.get(node.name)
        if found is None:
            found = self._fresh[node.name] = _held(node, self._settings)
        return found


class _Held:
    def __init__(self, node: GlobalTable, topic_id: str | None) -> None:
        assert node.key is not None
        assert node.value is not None
        self.read_as = _read_as(node)
        self.topic_id = topic_id
        self.positions: dict[TopicPartition, int] = {}
        self.rows = Rows(
            node.key.for_topic(node.topic, is_key=True), node.value.for_topic(node.topic, is_key=False)
        )

    def read(self, node: GlobalTable, consumer: Consumer, ends: dict[TopicPartition, int]) -> None:
        consumer.assign(ends)
        begins = consumer.beginning_offsets(ends)
        for partition in ends:
            consumer.seek(partition, max(begins[partition], self.positions.get(partition, 0)))
        for batch in consumer.read(ends):
            keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
            for at, (key, value) in enumerate(zip(keys, values, strict=True)):
                if key is None:
                    continue
                try:
                    self.rows.put(key, value)
                except Exception as error:
                    place = (batch.column(name)[at].as_py() for name in ("topic", "partition", "offset"))
                    raise OperatorFailed(node.name, error).at(*place) from error
        self.positions = ends


_HELD: dict[tuple[int, str, str, str, str], _Held] = {}
"""By process, cluster, topic, and the types of keys and values: several programs in one session may use different
types for a topic."""


def _held(node: GlobalTable, settings: Mapping[str, object]) -> Rows:
    assert node.key is not None
    assert node.value is not None
    name = (os.getpid(), str(settings.get("bootstrap.servers")), node.topic, node.key.name, node.value.name)
    own = {**settings, "isolation.level": "read_committed"}
    with clients.consumer(own) as consumer:
        while True:
            count = len(consumer.partitions_for(node.topic))
            topic_id = consumer.topic_id(node.topic)
            ends = consumer.end_offsets([TopicPartition(node.topic, index) for index in range(count)])
            held = _HELD.get(name)
            if held is None or not _goes_on(held, node, topic_id, ends):
                held = _HELD[name] = _Held(node, topic_id)
            held.read(node, consumer, ends)
            # A cached consumer learns only while it fetches that the topic was recreated.
            if consumer.topic_id(node.topic) == topic_id:
                return held.rows


def _goes_on(
    held: _Held, node: GlobalTable, topic_id: str | None, ends: Mapping[TopicPartition, int]
) -> bool:
    """Whether the cached rows are a prefix of the current topic, decoded with the current types."""
    is_same_log = held.topic_id == topic_id and all(
        ends.get(partition, -1) >= position for partition, position in held.positions.items()
    )
    return is_same_log and held.read_as == _read_as(node)


def _read_as(node: GlobalTable) -> list[type | None]:
    """The classes of keys and values: a class redefined in a notebook has the same name as the old one."""
    return [
        serde.spec if serde is not None and isinstance(serde.spec, type) else None
        for serde in (node.key, node.value)
    ]
