"""One partition on this node, and what can be done with it: append, end transactions, read, wait, delete.

As leader it accepts appends; as follower it only holds what its leader sends. It does not ask the disk or the
network for anything itself and never waits; those who must wait leave word in its `delayed` queues. The state and the
role that all this rests on are `replica.Replica`.
"""

from __future__ import annotations

from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.records import kernel
from penstock.records.batch import BatchHeader, stamp_append_time
from penstock.records.control import EndedTransaction, end_transaction_batch
from penstock.replication.delayed import FetchWait, OffsetListener, OffsetWait
from penstock.replication.replica import NO_EPOCH, Replica
from penstock.replication.validation import NEWEST_PRODUCE_VERSION, Effort, admit
from penstock.runtime.network import FileSlice
from penstock.storage.errors import StorageError
from penstock.storage.log import AppendInfo
from penstock.storage.pages import ColdPages
from penstock.storage.transactions.aborted import AbortedTransaction
from penstock.storage.transactions.guards import VerificationGuard

ACKS_ALL = -1


class NeedsPages(Exception):
    """Batches were admitted, but the log must read `piece` first: load it in a worker, then `append_admitted`."""

    def __init__(self, piece: FileSlice, batches: memoryview, headers: list[BatchHeader]) -> None:
        super().__init__(f"{piece.file.path} is not in memory")
        self.piece = piece
        self.batches = batches
        """Gone when the request yields."""
        self.headers = headers


class Partition(Replica):
    __slots__ = ()

    # -- appending

    def append_as_leader(
        self,
        records: memoryview,
        *,
        acks: int,
        now_ms: int,
        request_version: int = NEWEST_PRODUCE_VERSION,
        effort: Effort | None = None,
        guard: VerificationGuard | None = None,
    ) -> AppendInfo:
        """Write what a producer sent, after checking it. The bytes may be changed in place and are not kept.

        `TakesLong` if checking takes more than `effort`: then `admit` them in a worker, and `append_admitted`.
        `NeedsPages` if something must be read first that is not in memory. A batch that begins a transaction here is
        refused without the `guard` that is in force.
        """
        self._check_can_append(acks)
        batches, headers = admit(
            records, self.rules, request_version=request_version, now_ms=now_ms, effort=effort
        )
        try:
            return self._append(batches, headers, now_ms, guard)
        except ColdPages as cold:
            raise NeedsPages(cold.piece, batches, headers) from cold

    def append_admitted(
        self,
        batches: memoryview,
        headers: list[BatchHeader],
        *,
        acks: int,
        now_ms: int,
        guard: VerificationGuard | None = None,
    ) -> AppendInfo:
        """Write what was admitted elsewhere, by the rules of this partition; may raise ColdPages."""
        self._check_can_append(acks)
        return self._append(batches, headers, now_ms, guard)

    def _check_can_append(self, acks: int) -> None:
        if self._log is None:
            raise self._offline_refusal()
        if not self.is_leader:
            self.check_access(leader_epoch=NO_EPOCH, leader_only=True)
        # The setting first: it is a bound of `min_isr`, and takes no call (bench "one-record latency").
        if (
            acks == ACKS_ALL
            and len(self.isr) < self.rules.min_insync_replicas
            and len(self.isr) < self.min_isr
        ):
            raise Refused(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self} has {len(self.isr)} in-sync replica(s), and acks=all needs min.insync.replicas={self.min_isr}",
            )

    def _append(
        self,
        batches: memoryview,
        headers: list[BatchHeader],
        now_ms: int,
        guard: VerificationGuard | None,
    ) -> AppendInfo:
        log = self._log
        assert log is not None, "whoever appends has checked that it can"
        try:
            info = log.append(batches, headers, leader_epoch=self.leader_epoch, now_ms=now_ms, guard=guard)
        except StorageError as error:
            raise self._refusal(error) from error
        if not info.is_duplicate:
            self._unannounced_bytes += len(batches)
            if self._replica_waits:
                self._replica_waits.arrived(len(batches))
            self._move_high_watermark(log)
        return info

    def prepare_append(self) -> None:
        """Read what the next append needs of the disk, so that it need not. ColdPages where that is not in memory."""
        try:
            self.log.prepare_append()
        except StorageError as error:
            raise self._refusal(error) from error

    def wait_for_acknowledgement(
        self, end_offset: int, *, acks: int, listener: OffsetListener
    ) -> OffsetWait | None:
        """None if an append that ended at `end_offset` may be acknowledged now. If not, `listener` is told later,
        unless the caller cancels the wait that is returned.

        acks=all means committed. Any other means written, and durable where a flush policy asks for that.
        """
        if acks == ACKS_ALL:
            if end_offset <= self.high_watermark:
                return None
            return self._commit_waits.add(end_offset, listener)
        if end_offset <= self.log.durable_end_offset:
            return None
        return self._durable_waits.add(end_offset, listener)

    def commit_error(self) -> ErrorCode:
        """What is to be said of a committed append: the replicas in sync may have become too few meanwhile."""
        if len(self.isr) < self.min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    # -- transactions

    def needs_verification(self, producer_id: int, producer_epoch: int | None = None) -> bool:
        """Whether a transactional batch of the producer would begin a transaction here, for which it needs a guard.

        A batch with another epoch than that of the open transaction does so too.
        """
        producer = self.log.producers.get(producer_id)
        if producer is None or producer.transaction_start_offset < 0:
            return True
        return producer_epoch is not None and producer_epoch != producer.epoch

    def guard(
        self, producer_id: int, producer_epoch: int, sequence: int, *, is_version_2: bool = False
    ) -> VerificationGuard:
        """What lets the batch of `sequence` begin a transaction here; to be taken before its coordinator is asked.

        With `is_version_2` the transaction's first batch must have sequence 0 (KIP-890).
        """
        log = self.log
        try:
            return log.producers.guard(
                producer_id,
                producer_epoch,
                sequence,
                is_version_2=is_version_2,
                now_ms=log.volume.clock.wall_ms(),
            )
        except StorageError as error:
            raise self._refusal(error) from error

    def give_back(self, guard: VerificationGuard) -> None:
        """The coordinator has refused for good what the guard was taken for."""
        if self._log is not None:
            self._log.producers.guards.give_back(guard)

    def append_marker(self, marker: EndedTransaction, *, now_ms: int) -> AppendInfo:
        """Write the end of a transaction. It counts when it is committed, so it needs replicas as acks=all does.

        ColdPages if something must be read first that is not in memory.
        """
        self._check_can_append(ACKS_ALL)
        log = self.log
        batch = memoryview(
            end_transaction_batch(
                is_commit=marker.is_commit,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                timestamp_ms=now_ms,
            )
        )
        if self.rules.stamps_append_time:
            stamp_append_time(batch, 0, now_ms)
        try:
            info = log.append_marker(
                batch, kernel.read_header(batch, 0), marker, leader_epoch=self.leader_epoch, now_ms=now_ms
            )
        except StorageError as error:
            raise self._refusal(error) from error
        self._unannounced_bytes += len(batch)
        if self._replica_waits:
            self._replica_waits.arrived(len(batch))
        self._move_high_watermark(log)
        return info

    # -- reading

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        at_least_one: bool,
        for_replica: bool = False,
        read_committed: bool = False,
        aborted: list[AbortedTransaction] | None = None,
    ) -> FileSlice | None:
        """Bytes from `offset` on: whole batches up to the high watermark, to the log's end for another replica, or
        to the last stable offset for a reader of committed data.

        The transactions whose records such a reader must skip in them are added to `aborted`. ColdPages if finding the
        bytes takes pages that are not in memory.
        """
        log = self.log
        if for_replica:
            end_offset = log.end_offset
        else:
            end_offset = self.last_stable_offset if read_committed else self.high_watermark
        try:
            return log.read(
                offset,
                max_bytes=max_bytes,
                end_offset=end_offset,
                at_least_one=at_least_one,
                aborted=aborted,
            )
        except StorageError as error:
            raise self._refusal(error) from error

    def has_more_than_read(self, offset: int, *, read_committed: bool = False) -> bool:
        """Whether a reader who read from `offset` finds more right behind what it got: a read ends with a segment."""
        end_offset = self.last_stable_offset if read_committed else self.high_watermark
        return end_offset > offset and self.log.has_segment_between(offset, end_offset)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Those that may have records from `start_offset` on, below `end_offset`, in the order of their markers."""
        try:
            return self.log.aborted_transactions(start_offset, end_offset)
        except StorageError as error:
            raise self._refusal(error) from error

    def diverging_epoch(self, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
        """Where a reader's log parts from this one, as (epoch, end offset), or None where they agree
        (KIP-595)."""
        log = self.log
        epoch, end_offset = log.epoch_end_offset(last_fetched_epoch)
        if epoch < 0 or end_offset < 0 or fetch_offset < log.start_offset:
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self} does not know where leader epoch {last_fetched_epoch} ended, for offset {fetch_offset}",
            )
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return epoch, end_offset
        return None

    def add_fetch_wait(
        self, wait: FetchWait, *, for_replica: bool = False, read_committed: bool = False
    ) -> None:
        """Have `wait` count what comes to be visible to such a reader."""
        if for_replica:
            self._replica_waits.add(wait)
        elif read_committed:
            if not self._committed_fetch_waits:
                self._stable_offset_told = self.last_stable_offset
            self._committed_fetch_waits.add(wait)
        else:
            self._fetch_waits.add(wait)

    def discard_fetch_wait(self, wait: FetchWait) -> None:
        self._fetch_waits.discard(wait)
        self._committed_fetch_waits.discard(wait)
        self._replica_waits.discard(wait)

    # -- deleting

    def delete_records(self, offset: int) -> int:
        """Move the log's start to `offset` (-1: to the high watermark) and return where that is."""
        self.check_access(leader_epoch=NO_EPOCH, leader_only=True)
        log = self.log
        if not log.settings.delete:
            raise Refused(
                ErrorCode.POLICY_VIOLATION,
                f"records of {self} cannot be deleted: its cleanup.policy is compact and does not include delete",
            )
        if offset == -1:
            offset = self.high_watermark
        if offset < 0 or offset > self.high_watermark:
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self} cannot be deleted up to offset {offset}: its high watermark is {self.high_watermark}",
            )
        try:
            log.advance_start(offset)
        except StorageError as error:
            raise self._refusal(error) from error
        self._low_watermark_moved()
        if self._committed_fetch_waits:
            self._tell_stable_offset()  # the transaction that held it back may have begun before the new start
        return offset

    def wait_for_deletion(self, offset: int, listener: OffsetListener) -> OffsetWait | None:
        """None if records below `offset` are gone from every in-sync replica. If not, `listener` is told later, unless
        the caller cancels the wait that is returned."""
        if self.low_watermark >= offset:
            return None
        return self._low_waits.add(offset, listener)
