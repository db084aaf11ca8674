"""Markers that end transactions in the partitions that this node leads.

The coordinator of a transaction sends them through here, and so do those of other nodes, by WriteTxnMarkers. In a
partition of `__consumer_offsets` the group coordinator writes the marker itself, because the offsets that the
transaction holds become those of their groups with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from penstock.coordinator.group.service import GroupCoordinator
from penstock.coordinator.txn.transaction import TopicPartition
from penstock.metadata.errors import Refused
from penstock.metadata.names import OFFSETS_TOPIC
from penstock.protocol.errors import ErrorCode
from penstock.records.control import EndedTransaction
from penstock.replication.table import PartitionTable
from penstock.runtime import Lane, Runtime
from penstock.runtime.network import FileSlice
from penstock.storage import pages
from penstock.storage.pages import ColdPages

logger = logging.getLogger(__name__)

ACKS_ALL = -1

MARKERS_AT_ONCE = 100
"""After so many others get their turn on the event loop: two milliseconds, or fifty if the indexes of the
partitions have to be decoded first."""

Told = Callable[[ErrorCode], None]


class LocalMarkers:
    """A `coordinator.txn.markers.MarkerWriter` for a cluster whose partitions are all led here."""

    def __init__(self, partitions: PartitionTable, groups: GroupCoordinator, runtime: Runtime) -> None:
        self._partitions = partitions
        self._workers = runtime.workers
        self._groups = groups
        self._clock = runtime.clock

    def write(
        self,
        marker: EndedTransaction,
        partitions: Sequence[TopicPartition],
        done: Callable[[TopicPartition, ErrorCode], None],
    ) -> None:
        """`done` is called once for each partition, perhaps before this returns; NONE when the marker is committed."""
        for each in partitions[:MARKERS_AT_ONCE]:
            self._write_one(marker, each, partial(done, each))
        if len(partitions) > MARKERS_AT_ONCE:
            rest = partitions[MARKERS_AT_ONCE:]
            asyncio.get_running_loop().call_soon(self.write, marker, rest, done)

    def _write_one(self, marker: EndedTransaction, where: TopicPartition, told: Told) -> None:
        try:
            if where.topic == OFFSETS_TOPIC:
                self._end_in_groups(marker, where.partition, told)
            else:
                self._append(marker, where, told)
        except Refused as refusal:
            told(refusal.error)
        except Exception:
            # Without an answer the transaction would stay open for good; with this one the marker is sent again.
            logger.exception("writing a transaction marker to %s-%d failed", *where)
            told(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _append(self, marker: EndedTransaction, where: TopicPartition, told: Told) -> None:
        partition = self._partitions.find(where.topic, where.partition)
        try:
            info = partition.append_marker(marker, now_ms=self._clock.wall_ms())
        except ColdPages as cold:
            loading = self._workers.run(partial(pages.load, [cold.piece]), lane=Lane.READ)
            loading.add_done_callback(partial(self._append_loaded, marker, where, told))
            return
        wait = partition.wait_for_acknowledgement(info.last_offset + 1, acks=ACKS_ALL, listener=told)
        if wait is None:
            told(ErrorCode.NONE)

    def _append_loaded(
        self,
        marker: EndedTransaction,
        where: TopicPartition,
        told: Told,
        loading: asyncio.Future[list[tuple[FileSlice, OSError]]],
    ) -> None:
        if not loading.cancelled():  # as it is when the node stops
            pages.tell(loading.result())
            self._write_one(marker, where, told)

    def _end_in_groups(self, marker: EndedTransaction, partition: int, told: Told) -> None:
        # Refused where it was deleted, of which groups would say that it is elsewhere, and be asked for ever.
        self._partitions.find(OFFSETS_TOPIC, partition)
        waiting = self._groups.end_transaction(partition, marker)
        if waiting is None:
            told(ErrorCode.NONE)
        else:
            waiting.add_done_callback(lambda ended: told(_error_of(ended)))


def _error_of(ended: asyncio.Future[None]) -> ErrorCode:
    if ended.cancelled():
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    error = ended.exception()
    if error is None:
        return ErrorCode.NONE
    if isinstance(error, Refused):
        return error.error
    logger.error("writing a transaction marker to %s failed", OFFSETS_TOPIC, exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR
