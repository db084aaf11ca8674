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
from penstock.runtime import Runtime
from penstock.storage.pages import ColdPages, PageLoader

logger = logging.getLogger(__name__)

ACKS_ALL = -1

MARKERS_AT_ONCE = 100
"""After so many others get their turn on the event loop: two milliseconds, or fifty if the indexes of the
partitions have to be decoded first."""

OnCommitted = Callable[[ErrorCode], None]


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
            self._write_one(marker, each, partial(done, each), PageLoader(self._workers))
        if len(partitions) > MARKERS_AT_ONCE:
            rest = partitions[MARKERS_AT_ONCE:]
            asyncio.get_running_loop().call_soon(self.write, marker, rest, done)

    def _write_one(
        self, marker: EndedTransaction, where: TopicPartition, on_committed: OnCommitted, loader: PageLoader
    ) -> None:
        try:
            if where.topic == OFFSETS_TOPIC:
                self._end_in_groups(marker, where.partition, on_committed)
            else:
                loader.run(lambda: self._append(marker, where, on_committed))
        except ColdPages as cold:
            loader.load([cold.piece], partial(self._loaded, marker, where, on_committed, loader))
        except Refused as refusal:
            on_committed(refusal.error)
        except Exception as error:
            self._fail(where, on_committed, error)

    def _append(self, marker: EndedTransaction, where: TopicPartition, on_committed: OnCommitted) -> None:
        partition = self._partitions.find(where.topic, where.partition)
        info = partition.append_marker(marker, now_ms=self._clock.wall_ms())
        wait = partition.wait_for_acknowledgement(info.last_offset + 1, acks=ACKS_ALL, listener=on_committed)
        if wait is None:
            on_committed(ErrorCode.NONE)

    def _loaded(
        self,
        marker: EndedTransaction,
        where: TopicPartition,
        on_committed: OnCommitted,
        loader: PageLoader,
        error: BaseException | None,
    ) -> None:
        if error is None or isinstance(error, OSError):
            self._write_one(marker, where, on_committed, loader)
        elif not isinstance(error, asyncio.CancelledError):  # as it is when the node stops
            self._fail(where, on_committed, error)

    def _fail(self, where: TopicPartition, on_committed: OnCommitted, error: BaseException) -> None:
        # Without an answer the transaction would stay open for good; with this one the marker is sent again.
        logger.error("writing a transaction marker to %s-%d failed", *where, exc_info=error)
        on_committed(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _end_in_groups(self, marker: EndedTransaction, partition: int, on_committed: OnCommitted) -> None:
        # Refused where it was deleted, of which groups would say that it is elsewhere, and be asked for ever.
        self._partitions.find(OFFSETS_TOPIC, partition)
        waiting = self._groups.end_transaction(partition, marker)
        if waiting is None:
            on_committed(ErrorCode.NONE)
        else:
            waiting.add_done_callback(lambda ended: on_committed(_error_of(ended)))


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
