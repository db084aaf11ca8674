"""The topic `__penstock_spark`, in which sinks record which run holds them and what was decided. Compacted, one
partition.

An entry is appended with acks=all and read back from the partition leader, so every later reader sees what was
acknowledged. Requests are retried until the timeout on retriable errors, as an Admin does. An existing topic keeps
its settings.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
import uuid
from dataclasses import replace
from typing import Any

from penstock.client import errors
from penstock.client.admin.calls import AdminCalls, Call, MaxVersion
from penstock.client.cluster import TopicPartition
from penstock.protocol.apis import ApiKey
from penstock.protocol.constants import ACKS_ALL
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records.kernel import build_batch, iterate_records, read_headers
from penstock.spark.sink import DECISIONS_TOPIC
from penstock.spark.sink.decision import (
    Entry,
    Ledger,
    SinkStopped,
    key_of,
    next_copy,
    of_json,
    recalled,
    to_json,
)

TOPIC = DECISIONS_TOPIC
PARTITION = TopicPartition(TOPIC, 0)
REPLICAS_MAX = 3
SEGMENT_BYTES = 4 * 2**20
CONFIG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    # A segment is compacted once it is full, and a new reader reads the log from its start.
    "segment.bytes": str(SEGMENT_BYTES),
    # A decision names the transaction of each task, in about a hundred bytes; there may be tens of thousands.
    "max.message.bytes": str(SEGMENT_BYTES),
}
FETCH_BYTES = 8 * 2**20
# How many records at the end of the log are read, one after another, before the whole log is.
TAILS = (1_000, 10_000, 100_000)
PATIENCE_S = 180.0  # a broker may be unavailable for a minute and more
LOOK_AGAIN_S = 0.01

# The last versions that name topics by name; ids would need another request.
BY_NAME = {ApiKey.PRODUCE: 12, ApiKey.FETCH: 12}


class DecisionsAdmin(AdminCalls):
    """The calls of an Admin for the decision log."""

    _checks_arguments = False  # a ledger has an object per task

    async def append(self, entry: Entry) -> int:
        call = self._begin(f"write to {TOPIC}", PATIENCE_S)
        sending = entry

        async def attempt() -> int:
            nonlocal sending
            request = _produce_request(sending, call.request_ms())
            sending = next_copy(sending)  # for a retry: this one may be lost or late
            response = await self._ask_leader(call, request, ApiKey.PRODUCE)
            partition = response.responses[0].partition_responses[0]
            _check(partition.error_code)
            return int(partition.base_offset)

        return await call.retry(attempt)

    async def read(self, ledger: Ledger, *, through: int = -1) -> Ledger:
        call = self._begin(f"read {TOPIC}", PATIENCE_S)
        end: int | None = None
        while True:
            fetched = await call.retry(functools.partial(self._fetch, call, ledger.position))
            if end is None:
                end = max(fetched.high_watermark, through + 1)
            before = ledger.position
            found, position = _entries(ledger.sink, memoryview(fetched.records or b""), before)
            ledger = replace(ledger.after_all(found), position=position)
            if ledger.position >= end:
                return ledger
            if ledger.position == before:
                # It is acknowledged, but a new leader may not return it yet.
                if call.left_ms() == 0:
                    raise errors.TimedOut(f"{PARTITION} did not reach offset {end}")
                await asyncio.sleep(LOOK_AGAIN_S)

    async def recall(self, sink: str, run: str) -> Ledger:
        """The log grows by a record with every micro-batch, and a process that joins a run needs only the last ones."""
        call = self._begin(f"read {TOPIC}", PATIENCE_S)
        end = (await call.retry(functools.partial(self._fetch, call, 0, max_bytes=1))).high_watermark
        for count in TAILS:
            if count >= end:
                break
            start = position = end - count
            tail: list[tuple[int, Entry]] = []
            while position < end:
                fetched = await call.retry(functools.partial(self._fetch, call, position))
                found, next_position = _entries(sink, memoryview(fetched.records or b""), position)
                if next_position == position:
                    return Ledger(sink)  # a new leader: read the whole log
                tail += found
                position = next_position
            if (ledger := recalled(sink, run, start, tail)) is not None:
                return ledger
        return Ledger(sink)

    async def _fetch(self, call: Call, position: int, *, max_bytes: int | None = None) -> Any:
        """The partition's records from a position on."""
        limit = FETCH_BYTES if max_bytes is None else max_bytes
        partition = FetchPartition(
            partition=PARTITION.partition, fetch_offset=position, partition_max_bytes=limit
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=limit,
            isolation_level=0,
            topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
        )
        try:
            response = await self._ask_leader(call, request, ApiKey.FETCH)
        except errors.UnknownTopicOrPartition:
            await self._create(call)
            response = await self._ask_leader(call, request, ApiKey.FETCH)
        _check(response.error_code)
        fetched = response.responses[0].partitions[0]
        if fetched.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise SinkStopped(
                f"{TOPIC} no longer has offset {position}: the topic or some of its records were deleted"
            )
        _check(fetched.error_code)
        return fetched

    async def _ask_leader(self, call: Call, request: Any, key: ApiKey) -> Any:
        leader = (await call.find_leaders([PARTITION]))[PARTITION]
        if isinstance(leader, errors.PenstockError):
            raise leader
        return await call.ask_node(leader, request, max_version=MaxVersion(key, BY_NAME[key]))

    async def _create(self, call: Call) -> None:
        replicas = min(REPLICAS_MAX, len(self._client.cluster.nodes) or 1)
        config = CONFIG | {"min.insync.replicas": str(min_insync_replicas(replicas))}
        with contextlib.suppress(errors.TopicAlreadyExists):
            await self.create_topic(  # type: ignore[attr-defined]  # of Admin, the other base class
                TOPIC, partitions=1, replication_factor=replicas, config=config, timeout=call.left_s()
            )


def min_insync_replicas(replicas: int) -> int:
    """How many replicas must have an entry before it is acknowledged. One broker may be down, as in Kafka's default
    for `__transaction_state`: 2 of 3. With 1, an acknowledged decision could be lost with its leader."""
    return max(1, replicas - 1)


def _produce_request(entry: Entry, timeout_ms: int) -> ProduceRequest:
    key = key_of(entry, uuid.uuid4().hex[:12])
    record = (int(time.time() * 1000), key.encode(), to_json(entry), ())
    data = PartitionProduceData(index=PARTITION.partition, records=build_batch([record]))
    return ProduceRequest(
        transactional_id=None,
        acks=ACKS_ALL,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
    )


def _check(code: ErrorCode) -> None:
    if code is not ErrorCode.NONE:
        raise errors.of(code, about=PARTITION)


def _entries(sink: str, records: memoryview, position: int) -> tuple[list[tuple[int, Entry]], int]:
    """The fetched entries of a sink from a position on, and the next position. Records of other sinks are not
    parsed."""
    own = f":{sink}:".encode()
    found = []
    at = 0
    next_position = position
    for header in read_headers(records):
        for record in iterate_records(records, at):
            is_own = record.key is not None and own in bytes(record.key)
            if is_own and record.offset >= position and record.value is not None:
                found.append((record.offset, of_json(bytes(record.value))))
        at += header.size_bytes
        next_position = max(next_position, header.last_offset + 1)
    return found, next_position
