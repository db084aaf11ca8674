"""The topic `__penstock_spark`, where sinks note who holds them and what was decided. Compacted, one partition.

An entry is appended with acks=all and read back from the partition's leader, so what is acknowledged is read by
everyone who asks later. Requests are repeated until the time is up if an error may pass, as an Admin does. A topic that
exists keeps its settings, whatever they are.
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
from penstock.client.admin.calls import AdminCalls, Call, Newest
from penstock.client.cluster import TopicPartition
from penstock.protocol.apis import ApiKey
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
    of_json,
    recalled,
    sent_again,
    to_json,
)

TOPIC = DECISIONS_TOPIC
PARTITION = TopicPartition(TOPIC, 0)
REPLICAS_MAX = 3
SEGMENT_BYTES = 4 * 2**20
CONFIG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    # A segment is compacted after it is full: the log is read from its start by whoever begins.
    "segment.bytes": str(SEGMENT_BYTES),
    # A decision names the transaction of each task, in some hundred bytes: there may be tens of thousands.
    "max.message.bytes": str(SEGMENT_BYTES),
}
FETCH_BYTES = 8 * 2**20
# How many records at the log's end are looked at, one after the other, before it is all.
TAILS = (1_000, 10_000, 100_000)
ALL_REPLICAS = -1
PATIENCE_S = 180.0  # a broker that goes away for a minute comes back within it
LOOK_AGAIN_S = 0.01

# The last versions that name topics by name; ids would have to be asked for.
BY_NAME = {ApiKey.PRODUCE: 12, ApiKey.FETCH: 12}


class DecisionsAdmin(AdminCalls):
    """The calls of an Admin that are about the log of decisions."""

    _checks_arguments = False  # a ledger holds an object for each task

    async def append(self, entry: Entry) -> int:
        call = self._begin(f"write to {TOPIC}", PATIENCE_S)
        sending = entry

        async def attempt() -> int:
            nonlocal sending
            request = _appending(sending, call.request_ms())
            sending = sent_again(sending)  # next time: this one may be lost, or come late
            response = await self._ask_leader(call, request, ApiKey.PRODUCE)
            told = response.responses[0].partition_responses[0]
            _check(told.error_code)
            return int(told.base_offset)

        return await call.repeat(attempt)

    async def read(self, ledger: Ledger, *, through: int = -1) -> Ledger:
        call = self._begin(f"read {TOPIC}", PATIENCE_S)
        end: int | None = None
        while True:
            told = await call.repeat(functools.partial(self._fetch, call, ledger.position))
            if end is None:
                end = max(told.high_watermark, through + 1)
            before = ledger.position
            found, position = _entries(ledger.sink, memoryview(told.records or b""), before)
            ledger = replace(ledger.after_all(found), position=position)
            if ledger.position >= end:
                return ledger
            if ledger.position == before:
                # Acknowledged, but a leader that has just begun may not tell of it yet.
                if call.left_ms() == 0:
                    raise errors.TimedOut(f"{PARTITION} does not come to offset {end}")
                await asyncio.sleep(LOOK_AGAIN_S)

    async def recall(self, sink: str, run: str) -> Ledger:
        """The log grows by a record with every micro-batch, and a process that joins a run needs the last of them."""
        call = self._begin(f"read {TOPIC}", PATIENCE_S)
        end = (await call.repeat(functools.partial(self._fetch, call, 0, max_bytes=1))).high_watermark
        for count in TAILS:
            if count >= end:
                break
            start = position = end - count
            tail: list[tuple[int, Entry]] = []
            while position < end:
                told = await call.repeat(functools.partial(self._fetch, call, position))
                found, behind = _entries(sink, memoryview(told.records or b""), position)
                if behind == position:
                    return Ledger(sink)  # a leader that has just begun: read as everyone does
                tail += found
                position = behind
            if (ledger := recalled(sink, run, start, tail)) is not None:
                return ledger
        return Ledger(sink)

    async def _fetch(self, call: Call, position: int, *, max_bytes: int | None = None) -> Any:
        """What the leader tells of the partition from there on."""
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
        told = response.responses[0].partitions[0]
        if told.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise SinkStopped(
                f"{TOPIC} has no offset {position} any more: somebody deleted it, or records of it"
            )
        _check(told.error_code)
        return told

    async def _ask_leader(self, call: Call, request: Any, key: ApiKey) -> Any:
        leader = (await call.find_leaders([PARTITION]))[PARTITION]
        if isinstance(leader, errors.PenstockError):
            raise leader
        return await call.ask_node(leader, request, newest=Newest(key, BY_NAME[key]))

    async def _create(self, call: Call) -> None:
        replicas = min(REPLICAS_MAX, len(self._client.cluster.nodes) or 1)
        config = CONFIG | {"min.insync.replicas": str(min_insync_replicas(replicas))}
        with contextlib.suppress(errors.TopicAlreadyExists):
            await self.create_topic(  # type: ignore[attr-defined]  # of TopicsAdmin, which stands beside this
                TOPIC, partitions=1, replication_factor=replicas, config=config, timeout=call.left_s()
            )


def min_insync_replicas(replicas: int) -> int:
    """How many replicas must hold an entry before it is acknowledged. One broker may be down, as Kafka has it for
    `__transaction_state`: 2 of 3. With the default of 1 an acknowledged decision could be lost with its leader."""
    return max(1, replicas - 1)


def _appending(entry: Entry, timeout_ms: int) -> ProduceRequest:
    key = key_of(entry, uuid.uuid4().hex[:12])
    record = (int(time.time() * 1000), key.encode(), to_json(entry), ())
    data = PartitionProduceData(index=PARTITION.partition, records=build_batch([record]))
    return ProduceRequest(
        transactional_id=None,
        acks=ALL_REPLICAS,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
    )


def _check(code: ErrorCode) -> None:
    if code is not ErrorCode.NONE:
        raise errors.of(code, about=PARTITION)


def _entries(sink: str, records: memoryview, position: int) -> tuple[list[tuple[int, Entry]], int]:
    """What was fetched of a sink, from a position on, and the position behind it. Of other sinks nothing is parsed."""
    own = f":{sink}:".encode()
    found = []
    at = 0
    behind = position
    for header in read_headers(records):
        for record in iterate_records(records, at):
            is_own = record.key is not None and own in bytes(record.key)
            if is_own and record.offset >= position and record.value is not None:
                found.append((record.offset, of_json(bytes(record.value))))
        at += header.size_bytes
        behind = max(behind, header.last_offset + 1)
    return found, behind
