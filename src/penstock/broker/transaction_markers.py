"""Writes transaction markers to the partitions that this node leads.

Both the coordinator of this node and those of other nodes (WriteTxnMarkers) use it. In a partition of
`__consumer_offsets` the group coordinator writes the marker, because the marker commits or aborts the pending offsets
of its groups.
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
from penstock.protocol.constants import ACKS_ALL
from penstock.protocol.errors import ErrorCode
from penstock.records.control import TxnMarkerEntry
from penstock.replication.table import PartitionTable
from penstock.replication.transactions import append_marker
from penstock.runtime import Runtime
from penstock.storage.pages import ColdPages, PageLoader

logger = logging.getLogger(__name__)


MARKERS_AT_ONCE = 100
"""Per turn of the event loop: two milliseconds, or fifty if the indexes of the partitions must be decoded first."""

OnCommitted = Callable[[ErrorCode], None]


class LocalMarkers:
    """A `coordinator.txn.markers.MarkerWriter` for the partitions that this node leads."""

    def __init__(self, partitions: PartitionTable, groups: GroupCoordinator, runtime: Runtime) -> None:
        self._partitions = partitions
        self._workers = runtime.workers
        self._groups = groups
        self._clock = runtime.clock

    def write(
        self,
        marker: TxnMarkerEntry,
        partitions: Sequence[TopicPartition],
        done: Callable[[TopicPartition, ErrorCode], None],
    ) -> None:
        """`done` is called once per partition, possibly before this returns, with NONE when the marker is committed."""
        for each in partitions[:MARKERS_AT_ONCE]:
            self._write_one(marker, each, partial(done, each))
        if len(partitions) > MARKERS_AT_ONCE:
            rest = partitions[MARKERS_AT_ONCE:]
            asyncio.get_running_loop().call_soon(self.write, marker, rest, done)

    def _write_one(
        self,
        marker: TxnMarkerEntry,
        where: TopicPartition,
        on_committed: OnCommitted,
        loader: PageLoader | None = None,
    ) -> None:
        try:
            if where.topic == OFFSETS_TOPIC:
                self._end_in_groups(marker, where.partition, on_committed)
            elif loader is None:
                self._append(marker, where, on_committed)
            else:
                loader.run(lambda: self._append(marker, where, on_committed))
        except ColdPages as cold:
            loader = loader or PageLoader(self._workers)
            loader.load([cold.piece], partial(self._loaded, marker, where, on_committed, loader))
        except Refused as refusal:
            on_committed(refusal.error)
        except Exception as error:
            self._fail(where, on_committed, error)

    def _append(self, marker: TxnMarkerEntry, where: TopicPartition, on_committed: OnCommitted) -> None:
        partition = self._partitions.find(where.topic, where.partition)
        info = append_marker(partition, marker, now_ms=self._clock.wall_ms())
        wait = partition.wait_for_acknowledgement(
            info.last_offset + 1, acks=ACKS_ALL, on_complete=on_committed
        )
        if wait is None:
            on_committed(ErrorCode.NONE)

    def _loaded(
        self,
        marker: TxnMarkerEntry,
        where: TopicPartition,
        on_committed: OnCommitted,
        loader: PageLoader,
        error: BaseException | None,
    ) -> None:
        if error is None or isinstance(error, OSError):
            self._write_one(marker, where, on_committed, loader)
        elif not isinstance(error, asyncio.CancelledError):  # the node is stopping
            self._fail(where, on_committed, error)

    def _fail(self, where: TopicPartition, on_committed: OnCommitted, error: BaseException) -> None:
        # Without a result the transaction would stay open forever. A coordinator sends the marker again.
        logger.error("writing a transaction marker to %s-%d failed", *where, exc_info=error)
        on_committed(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _end_in_groups(self, marker: TxnMarkerEntry, partition: int, on_committed: OnCommitted) -> None:
        # Refused if the topic was deleted. The group coordinator would return NOT_COORDINATOR, which is retried
        # forever.
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
