"""Compacted topics on a cluster under faults: the last value of each key survives compaction on every replica.

`TableWriter` updates and deletes keys, alone and in transactions, and knows the values that each key may have.
`check_tables_equal` compares the logs of replicas: they may have been compacted up to different offsets, but the last
value of each key is the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock import errors
from penstock.aio import Consumer, Producer
from penstock.protocol.types import Uuid
from penstock.records import kernel
from penstock.records.batch import BatchHeader
from penstock.records.control import read_marker
from penstock.runtime.clock import Clock
from penstock.runtime.network import Network
from simulator.cluster import SimulatedCluster
from simulator.clusters.inside import image_of, partitions_of
from simulator.clusters.logs import find_folder, scan_batches
from simulator.world import BrokenPromise

TABLE = "durable-table"
PARTITIONS = 2
KEYS = 8
TOMBSTONE_CHANCE = 0.25
TRANSACTION_CHANCE = 0.4
ABORT_CHANCE = 0.3
PAUSE_S_MAX = 0.3

Value = bytes | None
"""None: the key has no value, or was deleted."""
Table = dict[bytes, bytes]
Batches = Iterable[tuple[BatchHeader, memoryview]]


@dataclass(frozen=True, slots=True)
class Connection:
    bootstrap: str
    network: Network
    clock: Clock


class TableWriter:
    """Every key is written either outside of transactions or only in them, so each has one writer at a time."""

    def __init__(self, connection: Connection, rng: random.Random, *, is_over: Callable[[], bool]) -> None:
        self._connection = connection
        self._random = rng
        self._is_over = is_over
        self._number = 0
        self._possible: dict[bytes, set[Value]] = {}
        """More than one value if the outcome of a transaction is unknown."""

    async def run(self) -> None:
        async with self._make_producer() as producer:
            while not self._is_over():
                if self._random.random() < TRANSACTION_CHANCE:
                    await self._write_transactions()
                else:
                    await self._write(producer, "plain")
                await asyncio.sleep(self._random.uniform(0, PAUSE_S_MAX))

    async def _write(self, producer: Producer, kind: str) -> tuple[bytes, Value]:
        key = b"%s-%d" % (kind.encode(), self._random.randrange(KEYS))
        self._number += 1
        value = None if self._random.random() < TOMBSTONE_CHANCE else b"%d" % self._number
        await producer.send(TABLE, value, key=key, partition=key[-1] % PARTITIONS)
        if kind == "plain":
            self._possible[key] = {value}
        return key, value

    async def _write_transactions(self) -> None:
        """A few transactions of one producer, until one fails."""
        written: dict[bytes, Value] = {}
        try:
            async with self._make_producer(transactional_id="table") as producer:
                for _ in range(self._random.randint(1, 3)):
                    written.clear()
                    with contextlib.suppress(_Abort):
                        async with producer.transaction():
                            for _ in range(self._random.randint(1, 3)):
                                key, value = await self._write(producer, "txn")
                                written[key] = value
                            if self._random.random() < ABORT_CHANCE:
                                written.clear()
                                raise _Abort
                    for key, value in written.items():
                        self._possible[key] = {value}
                    written.clear()
        except errors.PenstockError:
            for key, value in written.items():
                self._possible.setdefault(key, {None}).add(value)

    def _make_producer(self, *, transactional_id: str | None = None) -> Producer:
        patience_ms = 400_000 if transactional_id is None else 10_000
        return Producer(
            self._connection.bootstrap,
            network=self._connection.network,
            clock=self._connection.clock,
            rng=random.Random(self._random.random()),
            transactional_id=transactional_id,
            transaction_timeout_ms=10_000,
            request_timeout_ms=3_000,
            delivery_timeout_ms=patience_ms,
            max_block_ms=patience_ms,
        )

    async def delete_plain_keys(self, *, until: Callable[[], bool]) -> None:
        """Delete every key that is not written in transactions, and then update one until there is nothing left of
        the others: a log without new records is not compacted."""
        async with self._make_producer() as producer:
            for number in range(KEYS):
                key = b"plain-%d" % number
                await producer.send(TABLE, None, key=key, partition=key[-1] % PARTITIONS)
                self._possible[key] = {None}
            await producer.flush()
            while not until():
                for partition in range(PARTITIONS):
                    self._number += 1
                    key, value = b"last-%d" % partition, b"%d" % self._number
                    await producer.send(TABLE, value, key=key, partition=partition)
                    self._possible[key] = {value}
                await asyncio.sleep(5)

    async def find_wrong_values(self) -> list[str]:
        """The keys for which a consumer that reads from the start does not end with the value that was written last."""
        table: Table = {}
        consumer = Consumer(
            TABLE,
            network=self._connection.network,
            clock=self._connection.clock,
            rng=random.Random(self._random.random()),
            settings={
                "bootstrap.servers": self._connection.bootstrap,
                "isolation.level": "read_committed",
            },
        )
        async with consumer:
            for message in await consumer.read(until="end").to_messages():
                assert message.key is not None
                if message.value is None:
                    table.pop(message.key, None)
                else:
                    table[message.key] = message.value
        return [
            f"{key!r} has the value {table.get(key)!r}, not one of {possible}"
            for key in sorted({*self._possible, *table})
            if table.get(key) not in (possible := self._possible.get(key, {None}))
        ]


class _Abort(Exception):
    pass


def table_of(batches: Batches, *, end_offset: int) -> Table:
    """The last committed value of each key below `end_offset`."""
    kept = [(header, data) for header, data in batches if header.base_offset < end_offset]
    is_committed: dict[int, bool] = {}
    """By producer id: the outcome of the transaction that ends next, seen from the end of the log."""
    committed = []
    for header, data in reversed(kept):
        if header.is_control:
            marker = read_marker(data, 0) if header.record_count else None
            if marker is not None:
                is_committed[header.producer_id] = marker.is_commit
        elif not header.is_transactional or is_committed.get(header.producer_id, False):
            committed.append(data)
    table: Table = {}
    for data in reversed(committed):
        for record in kernel.iterate_records(data):
            if record.key is None or record.offset >= end_offset:
                continue
            if record.value is None:
                table.pop(record.key, None)
            else:
                table[record.key] = record.value
    return table


def check_tables_equal(cluster: SimulatedCluster, topics: Iterable[str]) -> None:
    """All in-sync replicas of these topics have the same last value of each key below the high watermark."""
    image = image_of(cluster.all_nodes[0])
    for name in topics:
        topic = image.topics.by_name.get(name)
        for index, partition in enumerate(topic.partitions if topic is not None else ()):
            assert topic is not None
            end_offset = _high_watermark(cluster, topic.topic_id, index, leader=partition.leader)
            tables = {}
            for node_id in partition.isr:
                node = cluster.nodes[node_id]
                folder = find_folder(node, f"{name}-{index}")
                if folder is None:
                    raise BrokenPromise(f"{name}-{index}: node {node_id} is in sync, but has no log")
                tables[node_id] = table_of(scan_batches(node, folder), end_offset=end_offset)
            expected = tables[partition.isr[0]]
            for node_id, table in tables.items():
                if table != expected:
                    keys = sorted({*table.items()} ^ {*expected.items()})
                    raise BrokenPromise(
                        f"{name}-{index}: in-sync replicas {partition.isr[0]} and {node_id} have different last"
                        f" values below {end_offset}: {keys[:4]}"
                    )


def keys_on_disk(cluster: SimulatedCluster, prefix: bytes) -> set[bytes]:
    """Keys of the compacted topic of which any replica has a record, if only a tombstone."""
    found = set()
    for node in cluster.all_nodes:
        for partition in range(PARTITIONS):
            folder = find_folder(node, f"{TABLE}-{partition}")
            for header, data in scan_batches(node, folder) if folder is not None else ():
                if not header.is_control:
                    found |= {record.key for record in kernel.iterate_records(data) if record.key is not None}
    return {key for key in found if key.startswith(prefix)}


def _high_watermark(cluster: SimulatedCluster, topic_id: Uuid, index: int, *, leader: int) -> int:
    for partition in partitions_of(cluster.nodes[leader]):
        if partition.topic_id == topic_id and partition.index == index:
            return partition.high_watermark
    raise BrokenPromise(f"node {leader} does not have the partition that it leads")
