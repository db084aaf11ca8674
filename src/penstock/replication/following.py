"""A partition as follower, for the replica fetcher: where it continues, and what it does with what the leader sends.

Each call names the leader epoch in which it was decided: if the partition has another leader by now, it is refused.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.replication.divergence import truncation_offset
from penstock.replication.partition import Partition
from penstock.storage.errors import StorageError
from penstock.storage.truncation import PendingTruncation

logger = logging.getLogger(__name__)


class FetchPosition(NamedTuple):
    """Where a follower continues."""

    offset: int
    epoch: int
    """The leader epoch of the last record, or -1."""
    start_offset: int


class Following:
    __slots__ = ("index", "leader_epoch", "partition", "topic", "topic_id")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.topic = partition.topic
        self.topic_id = partition.topic_id
        self.index = partition.index
        self.leader_epoch = partition.leader_epoch
        """That of the leader from which it fetches."""

    @property
    def is_current(self) -> bool:
        """Whether that leader still leads."""
        partition = self.partition
        return partition.leader_epoch == self.leader_epoch and not partition.is_leader

    @property
    def is_throttled(self) -> bool:
        return self.partition.is_throttled_follower

    @property
    def is_durable(self) -> bool:
        """Whether a flush policy lets the follower acknowledge its whole log by its next fetch."""
        log = self.partition.log
        return log.durability.end_offset == log.end_offset

    def position(self) -> FetchPosition:
        log = self.partition.log
        return FetchPosition(log.end_offset, log.epochs.latest, log.start_offset)

    def append(self, records: memoryview, *, high_watermark: int, start_offset: int, now_ms: int) -> None:
        """Append what the leader sent, and move the high watermark and the log start offset along.

        Refused or RecordsError if the batches are damaged or do not continue the log: nothing is written then. May
        raise ColdPages.
        """
        self._check_current()
        partition = self.partition
        log = partition.log
        try:
            if len(records) > 0:
                log.append_as_follower(records, now_ms=now_ms, leader_epoch_max=self.leader_epoch)
                partition.count_appended(len(records))
            partition.follow(high_watermark, start_offset)
        except StorageError as error:
            raise partition.refusal(error) from error

    def truncation_offset(self, epoch: int, end_offset: int) -> int:
        """Where to truncate, given that the leader's log has `epoch` up to `end_offset` and differs after that."""
        return truncation_offset(self.partition.log, epoch, end_offset)

    def begin_truncation(self, offset: int, *, end_offset: int, is_full: bool) -> PendingTruncation | None:
        """Truncate to `offset`, or delete everything and start there. This was decided when the log ended at
        `end_offset`; if it ends elsewhere, the follower may have acknowledged what it has fetched since.

        The log is busy until the truncation has run in a worker (`storage.truncation.finish_all`); None if there is
        nothing to do. May raise ColdPages.
        """
        self._check_current()
        partition = self.partition
        log, former = partition.log, partition.high_watermark
        if log.end_offset != end_offset:
            raise Refused(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{partition} ends at offset {log.end_offset}, and ended at {end_offset} when this was decided",
            )
        with partition.refusing():
            pending = log.truncation.begin_fully(offset) if is_full else log.truncation.begin(offset)
        if is_full:
            log.high_watermark = offset
        partition.truncated()
        if partition.high_watermark < former:
            logger.warning(
                "%s was truncated to offset %d, below its high watermark %d: committed records were lost by an"
                " unclean leader election",
                partition,
                log.end_offset,
                former,
            )
        return pending

    def _check_current(self) -> None:
        if not self.is_current:
            raise Refused(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{self.partition} no longer follows the leader of epoch {self.leader_epoch}",
            )
