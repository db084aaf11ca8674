"""Global tables, as each worker process holds them: a topic read to its end before a task begins, and kept.

A process keeps what it has read and reads on from there with the next task, so that a small batch costs one look at the
topic's end.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from penstock.client.cluster import TopicPartition
from penstock.spark import clients
from penstock.streams.compile.failures import OperatorFailed
from penstock.streams.topology import GlobalTable, Node


class WorkerTables:
    """The global tables of one task."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._settings = settings
        self._fresh: dict[str, dict[Any, Any]] = {}

    def rows(self, node: Node) -> dict[Any, Any]:
        assert isinstance(node, GlobalTable)
        found = self._fresh.get(node.name)
        if found is None:
            found = self._fresh[node.name] = _held(node, self._settings)
        return found


class _Held:
    def __init__(self) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.rows: dict[Any, Any] = {}


_HELD: dict[tuple[int, str, str, str, str], _Held] = {}
"""By process, cluster, topic, and what its keys and values were read as: of several programs in one session each may
have types of its own for a topic."""


def _held(node: GlobalTable, settings: Mapping[str, object]) -> dict[Any, Any]:
    assert node.key is not None
    assert node.value is not None
    servers = str(settings.get("bootstrap.servers"))
    held = _HELD.setdefault((os.getpid(), servers, node.topic, node.key.name, node.value.name), _Held())
    key_serde = node.key.for_topic(node.topic, is_key=True)
    value_serde = node.value.for_topic(node.topic, is_key=False)
    own = {**settings, "isolation.level": "read_committed"}
    with clients.consumer(own) as consumer:
        partitions = [
            TopicPartition(node.topic, index) for index in range(len(consumer.partitions_for(node.topic)))
        ]
        consumer.assign(partitions)
        begins = consumer.beginning_offsets(partitions)
        for partition in partitions:
            consumer.seek(partition, max(begins[partition], held.positions.get(partition, 0)))
        ends = consumer.end_offsets(partitions)
        for batch in consumer.read(ends):
            keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
            for at, (data, value) in enumerate(zip(keys, values, strict=True)):
                if data is None:
                    continue
                try:
                    key = key_serde.decode(data)
                    if value is None:
                        held.rows.pop(key, None)
                    else:
                        held.rows[key] = value_serde.decode(value)
                except Exception as error:
                    place = (batch.column(name)[at].as_py() for name in ("topic", "partition", "offset"))
                    raise OperatorFailed(node.name, error).at(*place) from error
        held.positions = {partition: ends[partition] for partition in partitions}
    return held.rows
