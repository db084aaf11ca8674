"""Reading a coordinator's log back into a shard.

A record matters only until the next one of its key, so records are gathered by key first, undecoded, and
the last of each is replayed, in the order in which the last ones stand: what compaction would have left. A
group that committed a million times costs a million dict entries overwritten, not a million decoded.

Records of a transaction count from the marker that commits it on, but in the place where they stand: whatever was
written for the same key after them, and before the marker, is newer. Those of transactions that are still open are
replayed as such, in their place too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, Protocol, runtime_checkable

from penstock.coordinator.framing import CorruptRecord, RecordFraming, UnknownRecord
from penstock.coordinator.log import CoordinatorLog
from penstock.records import kernel
from penstock.records.batch import NO_PRODUCER_ID, BatchHeader
from penstock.records.control import read_end_transaction

logger = logging.getLogger(__name__)

AT_ONCE = 500
"""Records replayed before others get their turn on the event loop; a few milliseconds."""

DECOMPRESSED_BYTES_MAX = 256 << 20  # of one batch; these logs are written by coordinators alone

Placed = tuple[int, bytes | None]
"""The offset of a record, and its value. A plain tuple, which the garbage collector soon leaves alone."""


class Replaying(Protocol):
    def replay(self, key: Any, value: Any | None) -> None: ...


@runtime_checkable
class ReplayingTransactions(Protocol):
    def replay_in_transaction(self, producer_id: int, key: Any, value: Any | None) -> None: ...


async def load(
    log: CoordinatorLog, partition: int, *, end_offset: int, framing: RecordFraming, shard: Replaying
) -> int:
    """Replay a partition up to `end_offset`; the number of records that it held. Nothing is awaited if it is empty."""
    offset, _ = log.bounds(partition)
    gathered = _Gathered()
    while offset < end_offset:
        data = await log.read(partition, offset)
        if data is None:
            break
        view, position = memoryview(data), 0
        for header in kernel.read_headers(view):
            if header.next_offset > offset:
                gathered.add(header, view, position)
                offset = header.next_offset
            position += header.size_bytes
        await asyncio.sleep(0)
    for number, (producer_id, _, key_bytes, value_bytes) in enumerate(gathered.in_order(), start=1):
        try:
            key, value = framing.decode(key_bytes, value_bytes)
        except UnknownRecord as error:
            logger.warning("partition %d holds %s, from newer software; passing over it", partition, error)
            continue
        if producer_id == NO_PRODUCER_ID:
            shard.replay(key, value)
        elif isinstance(shard, ReplayingTransactions):
            shard.replay_in_transaction(producer_id, key, value)
        else:
            raise CorruptRecord(f"producer {producer_id} has a transaction open where there are none")
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)
    return gathered.count


class _Gathered:
    """What of a log still matters."""

    __slots__ = ("_has_transactions", "_latest", "_open", "count")

    def __init__(self) -> None:
        self.count = 0
        """Of all records, whether they matter or not."""
        self._latest: dict[bytes, Placed] = {}
        """By key; in the order of their offsets, unless there were transactions."""
        self._open: dict[int, dict[bytes, Placed]] = {}
        """Of open transactions, by producer and key."""
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
                latest.pop(key, None)  # so that it moves to the end
                latest[key] = (offset, value)
                count += 1
                if value is None and has_open:
                    self._forget_open(key)
        self.count += count

    def _forget_open(self, key: bytes) -> None:
        """What is no more takes with it what open transactions have written for it before. This cannot wait for the
        replay, because something newer may come, and then nobody remembers that the key was gone in between."""
        for records in self._open.values():
            records.pop(key, None)

    def _end(self, producer_id: int, is_commit: bool) -> None:
        ended = self._open.pop(producer_id, {})
        if not is_commit:
            return
        for key, placed in ended.items():
            visible = self._latest.get(key)
            if visible is None or visible[0] < placed[0]:
                self._latest[key] = placed

    def in_order(self) -> Iterable[tuple[int, int, bytes, bytes | None]]:
        """Offset, key and value, after the producer in whose open transaction they stand, or -1."""
        settled = ((NO_PRODUCER_ID, offset, key, value) for key, (offset, value) in self._latest.items())
        if not self._has_transactions:
            return settled
        still_open = (
            (producer_id, offset, key, value)
            for producer_id, records in self._open.items()
            for key, (offset, value) in records.items()
        )
        return sorted((*settled, *still_open), key=itemgetter(1))
