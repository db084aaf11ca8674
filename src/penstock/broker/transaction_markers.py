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
from penstock.runtime.clock import Clock

logger = logging.getLogger(__name__)

ACKS_ALL = -1

MARKERS_AT_ONCE = 100
"""After so many others get their turn on the event loop: two milliseconds, or fifty where nothing was written to the
partitions for long."""

Told = Callable[[ErrorCode], None]


class LocalMarkers:
    """A `coordinator.txn.markers.MarkerWriter` for a cluster whose partitions are all led here."""

    def __init__(self, partitions: PartitionTable, groups: GroupCoordinator, clock: Clock) -> None:
        self._partitions = partitions
        self._groups = groups
        self._clock = clock

    def write(
        self,
        marker: EndedTransaction,
        partitions: Sequence[TopicPartition],
        done: Callable[[TopicPartition, ErrorCode], None],
    ) -> None:
        """`done` is called once for each partition, perhaps before this returns; NONE when the marker is committed."""
        for each in partitions[:MARKERS_AT_ONCE]:
            told = partial(done, each)
            try:
                if each.topic == OFFSETS_TOPIC:
                    self._end_in_groups(marker, each.partition, told)
                else:
                    self._append(marker, each, told)
            except Refused as refusal:
                told(refusal.error)
            except Exception:
                # Without an answer the transaction would stay open for good; with this one the marker is sent again.
                logger.exception("writing a transaction marker to %s-%d failed", *each)
                told(ErrorCode.UNKNOWN_SERVER_ERROR)
        if len(partitions) > MARKERS_AT_ONCE:
            rest = partitions[MARKERS_AT_ONCE:]
            asyncio.get_running_loop().call_soon(self.write, marker, rest, done)

    def _append(self, marker: EndedTransaction, where: TopicPartition, told: Told) -> None:
        partition = self._partitions.find(where.topic, where.partition)
        info = partition.append_marker(marker, now_ms=self._clock.wall_ms())
        wait = partition.wait_for_acknowledgement(info.last_offset + 1, acks=ACKS_ALL, listener=told)
        if wait is None:
            told(ErrorCode.NONE)

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
