"""An in-memory coordinator log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.coordinator.result import Guard
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.records import kernel
from penstock.records.batch import assign_offsets
from penstock.records.control import TxnMarkerEntry, end_transaction_batch


class ListWait:
    def __init__(self, log: ListLog, listener: Callable[[ErrorCode], None]) -> None:
        self._log = log
        self._listener = listener

    def cancel(self) -> None:
        self._log.waits = [wait for wait in self._log.waits if wait[2] is not self._listener]


class ListLog:
    """Partitions as lists of batches. A write is committed at once, or by `commit()`."""

    def __init__(self) -> None:
        self.batches: dict[int, list[bytes]] = {}
        self.ends: dict[int, int] = {}
        self.committed: dict[int, int] = {}
        self.commits_at_once = True
        self.refusal: ErrorCode | None = None
        self.guards: list[Guard | None] = []
        """The arguments of each append."""
        self.waits: list[tuple[int, int, Callable[[ErrorCode], None]]] = []

    def append(self, partition: int, batches: bytearray, guard: Guard | None = None) -> int:
        if self.refusal is not None:
            raise Refused(self.refusal)
        self.guards.append(guard)
        position = 0
        for header in kernel.read_headers(memoryview(batches)):
            end = self.ends.get(partition, 0)
            assign_offsets(memoryview(batches), position, base_offset=end, leader_epoch=0)
            self.batches.setdefault(partition, []).append(
                bytes(batches[position : position + header.size_bytes])
            )
            self.ends[partition] = end + header.record_count
            position += header.size_bytes
        if self.commits_at_once:
            self.committed[partition] = self.ends[partition]
        return self.ends[partition]

    def append_marker(self, partition: int, marker: TxnMarkerEntry) -> int:
        batch = end_transaction_batch(
            is_commit=marker.is_commit,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp_ms=0,
        )
        return self.append(partition, batch)

    def is_committed(self, partition: int, end_offset: int) -> bool:
        return end_offset <= self.committed.get(partition, 0)

    def wait_for_commit(
        self, partition: int, end_offset: int, listener: Callable[[ErrorCode], None]
    ) -> ListWait | None:
        if self.is_committed(partition, end_offset):
            return None
        self.waits.append((partition, end_offset, listener))
        return ListWait(self, listener)

    def bounds(self, partition: int) -> tuple[int, int]:
        return 0, self.ends.get(partition, 0)

    async def read(self, partition: int, offset: int) -> bytes | None:
        await asyncio.sleep(0.001)
        for batch in self.batches.get(partition, []):
            header = kernel.read_header(memoryview(batch))
            if header.next_offset > offset:
                return batch
        return None

    def commit(self, partition: int = 0) -> None:
        self.committed[partition] = self.ends[partition]
        waits, self.waits = self.waits, []
        for index, end_offset, listener in waits:
            if index == partition and end_offset <= self.committed[partition]:
                listener(ErrorCode.NONE)
            else:
                self.waits.append((index, end_offset, listener))

    def lose_leadership(self) -> None:
        waits, self.waits = self.waits, []
        for _, _, listener in waits:
            listener(ErrorCode.NOT_LEADER_OR_FOLLOWER)
