"""Loading a shard from its log.

Only the last record of each key matters. So records are collected by key first, without decoding them, and then the
last ones are replayed in the order of their offsets: the records that compaction would leave. A million commits of one
group cost a million dict updates, not a million decoded records.

Records of a transaction count once its commit marker is read, but with their own offsets: a record of the same key
between them and the marker is newer. Records of open transactions are replayed as such, in offset order too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, Protocol, runtime_checkable

from penstock.coordinator.log import CoordinatorLog
from penstock.coordinator.serde import CorruptRecord, RecordSerde, UnknownRecord
from penstock.records import kernel
from penstock.records.batch import NO_PRODUCER_ID, BatchHeader
from penstock.records.control import read_end_transaction

logger = logging.getLogger(__name__)

AT_ONCE = 500
"""Records replayed before the event loop runs other tasks; a few milliseconds."""

DECOMPRESSED_BYTES_MAX = 256 << 20  # of one batch; only coordinators write these logs

OffsetAndValue = tuple[int, bytes | None]
"""Of a record. A plain tuple, because the garbage collector stops tracking it."""


class Replaying(Protocol):
    def replay(self, key: Any, value: Any | None) -> None: ...


@runtime_checkable
class ReplayingTransactions(Protocol):
    def replay_in_transaction(self, producer_id: int, key: Any, value: Any | None) -> None: ...


async def load(
    log: CoordinatorLog, partition: int, *, end_offset: int, framing: RecordSerde, shard: Replaying
) -> int:
    """Replay a partition up to `end_offset`, and return its number of records. Awaits nothing if it is empty."""
    offset, _ = log.bounds(partition)
    records = _LatestRecords()
    while offset < end_offset:
        data = await log.read(partition, offset)
        if data is None:
            break
        view, position = memoryview(data), 0
        for header in kernel.read_headers(view):
            if header.next_offset > offset:
                records.add(header, view, position)
                offset = header.next_offset
            position += header.size_bytes
        await asyncio.sleep(0)
    for number, (producer_id, _, key_bytes, value_bytes) in enumerate(records.in_order(), start=1):
        try:
            key, value = framing.decode(key_bytes, value_bytes)
        except UnknownRecord as error:
            logger.warning("partition %d has %s, written by newer software; skipping it", partition, error)
            continue
        if producer_id == NO_PRODUCER_ID:
            shard.replay(key, value)
        elif isinstance(shard, ReplayingTransactions):
            shard.replay_in_transaction(producer_id, key, value)
        else:
            raise CorruptRecord(
                f"producer {producer_id} has an open transaction in a log without transactions"
            )
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)
    return records.count


class _LatestRecords:
    """The last record of each key, and the records of open transactions."""

    __slots__ = ("_has_transactions", "_latest", "_open", "count")

    def __init__(self) -> None:
        self.count = 0
        """Of all records read."""
        self._latest: dict[bytes, OffsetAndValue] = {}
        """By key; in offset order, unless there were transactions."""
        self._open: dict[int, dict[bytes, OffsetAndValue]] = {}
        """Records of open transactions, by producer and key."""
        self._has_transactions = False

    def add(self, header: BatchHeader, view: memoryview, position: int) -> None:
        records = kernel.iterate_records(view, position, limit_bytes=DECOMPRESSED_BYTES_MAX)
        if header.is_control:
            for record in records:
                end = read_end_transaction(record)
                if end is not None:
                    self._end(header.producer_id, end.is_commit)
            return
        latest, has_open = self._latest, bool(self._open)
        if header.is_transactional:
            self._has_transactions, has_open = True, False
            latest = self._open.setdefault(header.producer_id, {})
        count = 0
        for offset, _, key, value, _ in records:
            if key is not None:
                latest.pop(key, None)  # moves the key to the end
                latest[key] = (offset, value)
                count += 1
                if value is None and has_open:
                    self._forget_open(key)
        self.count += count

    def _forget_open(self, key: bytes) -> None:
        """A tombstone also removes older records of the key in open transactions. This cannot wait for the replay: a
        newer record of the key would replace the tombstone."""
        for records in self._open.values():
            records.pop(key, None)

    def _end(self, producer_id: int, is_commit: bool) -> None:
        ended = self._open.pop(producer_id, {})
        if not is_commit:
            return
        for key, record in ended.items():
            visible = self._latest.get(key)
            if visible is None or visible[0] < record[0]:
                self._latest[key] = record

    def in_order(self) -> Iterable[tuple[int, int, bytes, bytes | None]]:
        """Producer id, offset, key and value. The producer id is -1 outside of open transactions."""
        settled = ((NO_PRODUCER_ID, offset, key, value) for key, (offset, value) in self._latest.items())
        if not self._has_transactions:
            return settled
        still_open = (
            (producer_id, offset, key, value)
            for producer_id, records in self._open.items()
            for key, (offset, value) in records.items()
        )
        return sorted((*settled, *still_open), key=itemgetter(1))
