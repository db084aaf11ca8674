"""Audits everything after the last fault: every transaction must end and be complete.

Open transactions of crashed clients are aborted after their timeout; prepared ones stay open until a client completes
them. Then the last stable offset of each partition is its end, and its markers, the lists of aborted transactions and
the history must agree.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.list_transactions import ListTransactionsRequest
from simulator.clients.client import LATEST, LostConnection, SimulatedClient
from simulator.simulation import BrokenPromise
from simulator.transactions.checker import find_anomalies
from simulator.transactions.history import Partition, Poll, Seen
from simulator.transactions.isolation import (
    Batch,
    committed_by_markers,
    keep_all,
    keep_committed,
    read_batches,
)
from simulator.transactions.offsets import GROUP_KEY_TYPE, RETRIABLE_OR_UNSTABLE, read_offset
from simulator.transactions.shared import RETRIABLE, TOPICS, SharedState

UNCOMMITTED, COMMITTED = 0, 1
PARTITION_BYTES = 1 << 14
LOOK_S = 0.5
ANSWERS_S_MAX = 60.0  # how long a log may withhold records after a crash, until they are synced
ANOMALIES_SHOWN = 5
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


class TransactionAuditor(SimulatedClient):
    def __init__(self, shared: SharedState, name: str) -> None:
        super().__init__(shared.simulation, name)
        self._shared = shared
        self._audits = 0

    async def wait_until_ended(self, *, within_s: float, but: Sequence[str] = ()) -> None:
        """Return when no transaction is open, except those in `but`, which were prepared."""
        until = self.simulation.loop.time() + within_s
        while True:
            left: object = "not told"
            with contextlib.suppress(LostConnection):
                left = await self._open_transactions()
                if left is not None and all(name in but for name in left):
                    return
            if self.simulation.loop.time() > until:
                raise BrokenPromise(f"after {within_s:.1f} s there are still transactions open: {left}")
            await asyncio.sleep(LOOK_S)

    async def is_open(self, transactional_id: str) -> bool:
        while True:
            with contextlib.suppress(LostConnection):
                found = await self._open_transactions()
                if found is not None:
                    return transactional_id in found
            await asyncio.sleep(LOOK_S)

    async def _open_transactions(self) -> dict[str, str] | None:
        """Their states; None if the coordinator cannot list them for now."""
        response = await self.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=[]))
        if response.error_code in RETRIABLE:
            return None
        if response.error_code != ErrorCode.NONE:
            raise BrokenPromise(f"transactions are not listed: {response.error_code.name}")
        return {
            state.transactional_id: state.transaction_state
            for state in response.transaction_states
            if state.transaction_state in OPEN_STATES
        }

    async def audit(self, groups: Sequence[tuple[str, Partition]]) -> None:
        """Read every partition and offset once more, and check the history."""
        self._audits += 1
        for topic in TOPICS:
            found = await self._retry_find_topic(topic)
            for index in range(found[1] if found is not None else 0):
                await self._retry(self._audit_partition, (topic, index))
        for group_id, partition in groups:
            await self._retry(self._audit_offset, group_id, partition)
        anomalies = find_anomalies(self._shared.history)
        if anomalies:
            shown = "\n".join(map(str, anomalies[:ANOMALIES_SHOWN]))
            raise BrokenPromise(f"{len(anomalies)} anomalies in the history of transactions:\n{shown}")

    async def _retry(self, audit: Callable[..., Awaitable[bool]], *arguments: Any) -> None:
        """Repeat until it succeeds: connections may have been lost long before."""
        until = self.simulation.loop.time() + ANSWERS_S_MAX
        while True:
            with contextlib.suppress(LostConnection):
                if await audit(*arguments):
                    return
            if self.simulation.loop.time() > until:
                raise BrokenPromise(f"{audit.__name__}: no result for {arguments}")
            await asyncio.sleep(LOOK_S)

    async def _retry_find_topic(self, topic: str) -> tuple[bytes, int] | None:
        while True:
            with contextlib.suppress(LostConnection):
                return await self.find_topic(topic)

    async def _audit_offset(self, group_id: str, partition: Partition) -> bool:
        request = FindCoordinatorRequest(key_type=GROUP_KEY_TYPE, coordinator_keys=[group_id])
        (coordinator,) = (await self.ask(request)).coordinators
        if coordinator.error_code != ErrorCode.NONE:
            return False
        found = await read_offset(self, self._shared.history, group_id, partition)
        if isinstance(found, ErrorCode) and found not in RETRIABLE_OR_UNSTABLE:
            raise BrokenPromise(f"the offset of {group_id} in {partition} cannot be fetched: {found.name}")
        return not isinstance(found, ErrorCode)

    async def _audit_partition(self, partition: Partition) -> bool:
        """False if the end of the partition is not known yet."""
        name = f"{partition[0]}-{partition[1]}"
        end_offset = await self._end_offset(partition, UNCOMMITTED)
        stable_offset = await self._end_offset(partition, COMMITTED)
        if end_offset is None or stable_offset is None:
            return False
        if stable_offset != end_offset:
            raise BrokenPromise(f"{name} ends at {end_offset}, but its last stable offset is {stable_offset}")
        await self._check_producers(partition)
        batches, everything = await self._read(partition, end_offset, UNCOMMITTED)
        _, committed = await self._read(partition, end_offset, COMMITTED)
        by_markers, left = committed_by_markers(batches)
        if left:
            raise BrokenPromise(
                f"{name} is stable to its end, but no marker ends the transactions of {left[:3]}"
            )
        for message, one, other in (
            ("is returned as committed, but its marker says otherwise", committed, by_markers),
            ("is committed by its marker, but not returned", by_markers, committed),
        ):
            strange = sorted(set(one) - set(other))
            if strange:
                raise BrokenPromise(f"{name}: {strange[0].value!r} at {strange[0].offset} {message}")
        now = self.simulation.loop.time()
        for is_committed, records in ((False, everything), (True, committed)):
            reader = f"{self.name}/{self._audits}/{is_committed}/{now}"
            self._shared.history.polls.append(
                Poll(reader, is_committed, partition, 0, end_offset, records, now)
            )
        return True

    async def _end_offset(self, partition: Partition, isolation_level: int) -> int | None:
        topic, index = partition
        wanted = ListOffsetsPartition(partition_index=index, timestamp=LATEST)
        response = await self.ask(
            ListOffsetsRequest(
                replica_id=-1,
                isolation_level=isolation_level,
                topics=[ListOffsetsTopic(name=topic, partitions=[wanted])],
            )
        )
        (found,) = response.topics[0].partitions
        if found.error_code == ErrorCode.OFFSET_NOT_AVAILABLE:
            return None
        if found.error_code != ErrorCode.NONE:
            raise BrokenPromise(f"the end of {partition} cannot be fetched: {found.error_code.name}")
        offset: int = found.offset
        return offset

    async def _check_producers(self, partition: Partition) -> None:
        topic, index = partition
        request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[index])])
        (found,) = (await self.ask(request)).topics[0].partitions
        if found.error_code != ErrorCode.NONE:
            raise BrokenPromise(f"producers of {partition} are not described: {found.error_code.name}")
        for producer in found.active_producers:
            if producer.current_txn_start_offset >= 0:
                raise BrokenPromise(f"{partition}: nothing is open, but {producer} is described")

    async def _read(
        self, partition: Partition, end_offset: int, isolation_level: int
    ) -> tuple[list[Batch], list[Seen]]:
        found = await self.find_topic(partition[0])
        assert found is not None, "topics of transactions are never deleted"
        batches: list[Batch] = []
        records: list[Seen] = []
        position = 0
        while position < end_offset:
            wanted = FetchPartition(
                partition=partition[1], fetch_offset=position, partition_max_bytes=PARTITION_BYTES
            )
            response = await self.ask(
                FetchRequest(
                    max_wait_ms=500,
                    min_bytes=1,
                    isolation_level=isolation_level,
                    topics=[FetchTopic(topic_id=found[0], partitions=[wanted])],
                )
            )
            data: PartitionData = response.responses[0].partitions[0]
            if data.error_code != ErrorCode.NONE:
                raise BrokenPromise(f"{partition} cannot be read: {data.error_code.name}")
            new = read_batches(data, partition, position)
            if not new:
                raise BrokenPromise(
                    f"{partition}: a fetch at {position} returned nothing, but the log ends at {end_offset}"
                )
            records += (
                keep_committed(data, new, partition, position)
                if isolation_level == COMMITTED
                else keep_all(new, position)
            )
            batches += new
            position = new[-1].header.next_offset
        return batches, records
