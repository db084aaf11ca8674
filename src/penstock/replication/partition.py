"""One replica of one partition on this node: a log, a role, and the offset up to which the log is committed.

As leader it accepts appends and moves the high watermark to the lowest end of the logs in sync; as follower
it only holds what its leader sends. Three offsets stand in order, always: `high_watermark` <=
`log.durable_end_offset` <= `log.end_offset`. The high watermark never goes back while this replica leads, and
never past what a flush policy has made durable.

A partition does not ask the disk or the network for anything itself and never waits; those who must wait
leave word in its `delayed` queues. Changes of role come from `table.PartitionTable` alone.
"""

from __future__ import annotations

from penstock.metadata.errors import Refused
from penstock.metadata.image import PartitionImage
from penstock.metadata.names import is_internal
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid
from penstock.records import kernel
from penstock.records.batch import BatchHeader, stamp_append_time
from penstock.records.control import EndedTransaction, end_transaction_batch
from penstock.replication.delayed import FetchWait, FetchWaits, OffsetListener, OffsetWaits
from penstock.replication.validation import NEWEST_PRODUCE_VERSION, Effort, ProduceRules, admit
from penstock.runtime.network import FileSlice
from penstock.storage.errors import DirectoryOffline, StorageError
from penstock.storage.log import AppendInfo, Log
from penstock.storage.transactions.aborted import AbortedTransaction
from penstock.storage.transactions.guards import VerificationGuard

ACKS_ALL = -1
NO_EPOCH = -1
UNKNOWN_OFFSET = -1


class Follower:
    """What the leader knows of another replica, from that replica's fetches."""

    __slots__ = ("caught_up_ms", "end_offset", "start_offset")

    def __init__(self) -> None:
        self.end_offset = UNKNOWN_OFFSET
        self.start_offset = UNKNOWN_OFFSET
        self.caught_up_ms = 0


class Partition:
    __slots__ = (
        "_commit_waits",
        "_committed_fetch_waits",
        "_durable_waits",
        "_fetch_waits",
        "_followers",
        "_followers_in_sync",
        "_log",
        "_low_waits",
        "_replica_waits",
        "_stable_offset_told",
        "_unannounced_bytes",
        "epoch_start_offset",
        "high_watermark",
        "index",
        "is_internal",
        "is_leader",
        "isr",
        "leader",
        "leader_epoch",
        "node_id",
        "partition_epoch",
        "replicas",
        "rules",
        "topic",
        "topic_id",
    )

    def __init__(
        self, topic: str, index: int, topic_id: Uuid, *, node_id: int, log: Log, rules: ProduceRules
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.node_id = node_id
        self.rules = rules
        self.is_internal = is_internal(topic)
        self.is_leader = False
        self.leader = -1
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.epoch_start_offset = 0
        """Where this replica's leadership began; a high watermark below it may not be the cluster's yet."""
        self.high_watermark = min(log.high_watermark, log.end_offset)
        self._log: Log | None = log
        self._followers: dict[int, Follower] = {}
        self._followers_in_sync: list[Follower] = []
        self._unannounced_bytes = 0
        self._commit_waits = OffsetWaits()
        self._durable_waits = OffsetWaits()
        self._low_waits = OffsetWaits()
        self._fetch_waits = FetchWaits()
        self._committed_fetch_waits = FetchWaits()
        self._stable_offset_told = 0
        """The last stable offset as those know it who wait for it to move; of no meaning while nobody waits."""
        self._replica_waits = FetchWaits()
        log.on_durable = self._durable_end_moved

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    # -- state

    @property
    def log(self) -> Log:
        """The local log; refused while its directory is offline."""
        if self._log is None:
            raise self._offline_refusal()
        return self._log

    @property
    def is_offline(self) -> bool:
        return self._log is None

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction has ended, and its end is committed. Without transactions that is all that is
        committed."""
        log = self._log
        unstable_offset = log.first_unstable_offset if log is not None else None
        if unstable_offset is None or unstable_offset > self.high_watermark:
            return self.high_watermark
        return unstable_offset

    @property
    def low_watermark(self) -> int:
        """The lowest start of the logs in sync: records below it are gone everywhere."""
        start = self.log.start_offset
        for follower in self._followers_in_sync:
            start = min(start, follower.start_offset)
        return start

    @property
    def min_isr(self) -> int:
        return min(self.rules.min_insync_replicas, len(self.replicas))

    def check_access(self, *, leader_epoch: int, leader_only: bool) -> None:
        """Refuse a reader who follows another leadership than this replica's (KIP-320), or who must ask the
        leader."""
        if self._log is None:
            raise self._offline_refusal()
        if leader_epoch != NO_EPOCH and leader_epoch != self.leader_epoch:
            if leader_epoch < self.leader_epoch:
                raise Refused(
                    ErrorCode.FENCED_LEADER_EPOCH,
                    f"{self} is in leader epoch {self.leader_epoch}, past {leader_epoch}",
                )
            raise Refused(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{self} is in leader epoch {self.leader_epoch}, not yet {leader_epoch}",
            )
        if leader_only and not self.is_leader:
            raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self} is led by node {self.leader}")

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

        `TakesLong` if checking takes more than `effort`: then `admit` them in a worker, and `append_admitted`. A batch
        that begins a transaction here is refused without the `guard` that is in force.
        """
        self._check_can_append(acks)
        batches, headers = admit(
            records, self.rules, request_version=request_version, now_ms=now_ms, effort=effort
        )
        return self._append(batches, headers, now_ms, guard)

    def append_admitted(
        self,
        batches: memoryview,
        headers: list[BatchHeader],
        *,
        acks: int,
        now_ms: int,
        guard: VerificationGuard | None = None,
    ) -> AppendInfo:
        """Write what was admitted elsewhere, by the rules of this partition."""
        self._check_can_append(acks)
        return self._append(batches, headers, now_ms, guard)

    def _check_can_append(self, acks: int) -> None:
        if self._log is None:
            raise self._offline_refusal()
        if not self.is_leader:
            self.check_access(leader_epoch=NO_EPOCH, leader_only=True)
        if acks == ACKS_ALL and len(self.isr) < self.min_isr:
            raise Refused(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self} has {len(self.isr)} replicas in sync and needs {self.min_isr} for acks=all",
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
            self._appended(log, len(batches))
        return info

    def _appended(self, log: Log, size: int) -> None:
        self._unannounced_bytes += size
        if self._replica_waits:
            self._replica_waits.arrived(size)
        self._move_high_watermark(log)

    def when_acknowledged(self, end_offset: int, *, acks: int, listener: OffsetListener) -> bool:
        """Whether an append that ended at `end_offset` may be acknowledged now; if not, `listener` is told
        later.

        acks=all means committed. Any other means written, and durable where a flush policy asks for that.
        """
        if acks == ACKS_ALL:
            if end_offset <= self.high_watermark:
                return True
            self._commit_waits.add(end_offset, listener)
        else:
            if end_offset <= self.log.durable_end_offset:
                return True
            self._durable_waits.add(end_offset, listener)
        return False

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

    def append_marker(self, marker: EndedTransaction, *, now_ms: int) -> AppendInfo:
        """Write the end of a transaction. It counts when it is committed, so it needs replicas as acks=all does."""
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
        self._appended(log, len(batch))
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

        The transactions whose records such a reader must skip in them are added to `aborted`.
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
                f"{self} cannot tell where epoch {last_fetched_epoch} ended before offset {fetch_offset}",
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
                f"{self} is only compacted; cleanup.policy must hold delete for records to be deleted",
            )
        if offset == -1:
            offset = self.high_watermark
        if offset < 0 or offset > self.high_watermark:
            raise Refused(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self} has its high watermark at {self.high_watermark}; cannot delete up to {offset}",
            )
        try:
            log.advance_start(offset)
        except StorageError as error:
            raise self._refusal(error) from error
        self._low_watermark_moved()
        if self._committed_fetch_waits:
            self._tell_stable_offset()  # the transaction that held it back may have begun before the new start
        return offset

    def when_deleted(self, offset: int, listener: OffsetListener) -> bool:
        """Whether records below `offset` are gone from every replica in sync; if not, `listener` is told
        later."""
        if self.low_watermark >= offset:
            return True
        self._low_waits.add(offset, listener)
        return False

    # -- followers, as the leader sees them

    def follower_fetched(
        self, node_id: int, *, end_offset: int, start_offset: int, leader_epoch: int, now_ms: int
    ) -> None:
        """A follower asks for `end_offset`, so it has everything below."""
        follower = self._followers.get(node_id)
        if follower is None:
            # Epochs agree, but the assignment that makes it a replica has not come here yet: it will try again.
            raise Refused(
                ErrorCode.NOT_LEADER_OR_FOLLOWER
                if leader_epoch == NO_EPOCH
                else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"node {node_id} is no replica of {self} in leader epoch {self.leader_epoch}",
            )
        follower.end_offset = end_offset
        follower.start_offset = start_offset
        if end_offset >= self.log.end_offset:
            follower.caught_up_ms = now_ms
        self._move_high_watermark(self.log)
        self._low_watermark_moved()

    # -- changes of role, for the partition table

    def lead(self, state: PartitionImage) -> None:
        """Become or stay leader as `state` says."""
        is_new_epoch = state.leader_epoch > self.leader_epoch
        self._take(state)
        if is_new_epoch:
            log = self.log
            self.epoch_start_offset = log.end_offset
            try:
                log.epochs.assign(state.leader_epoch, log.end_offset)
            except StorageError as error:
                raise self._refusal(error) from error
            self._followers = {}
        self.is_leader = True
        self._followers = {
            node: self._followers.get(node) or Follower() for node in state.replicas if node != self.node_id
        }
        self._followers_in_sync = [
            follower for node, follower in self._followers.items() if node in state.isr
        ]
        if self._log is not None:
            self._move_high_watermark(self._log)

    def follow(self, state: PartitionImage) -> None:
        """Become or stay follower; whoever waits for this replica as leader is sent away."""
        self._take(state)
        self.is_leader = False
        self._followers = {}
        self._followers_in_sync = []
        self._dismiss(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def stop(self, error: ErrorCode) -> None:
        """The replica is deleted, moved away, or its node stops: send away all who wait."""
        self.is_leader = False
        self._dismiss(error)
        if self._log is not None:
            self._log.on_durable = None

    def go_offline(self) -> None:
        """The log's directory failed: everything that needs the log is refused from now on."""
        self.stop(ErrorCode.KAFKA_STORAGE_ERROR)
        self._log = None

    def _take(self, state: PartitionImage) -> None:
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.replicas = state.replicas
        self.isr = state.isr

    # -- watermarks

    def _durable_end_moved(self) -> None:
        """The log says that a flush ended, or that its directory went offline meanwhile."""
        log = self._log
        if log is None:
            return
        if log.volume.offline is not None:
            self.go_offline()
            return
        if self._durable_waits:
            self._durable_waits.reach(log.durable_end_offset)
        if self.is_leader:
            self._move_high_watermark(log)

    def _move_high_watermark(self, log: Log) -> None:
        end_offset = log.durable_end_offset
        for follower in self._followers_in_sync:
            end_offset = min(end_offset, follower.end_offset)
        former = self.high_watermark
        if end_offset <= former:
            return
        self.high_watermark = end_offset
        log.high_watermark = end_offset
        if self._commit_waits:
            self._commit_waits.reach(end_offset)
        if self._fetch_waits:
            self._fetch_waits.arrived(self._unannounced_bytes)
        if self._committed_fetch_waits:
            if self._stable_offset_told == former and self.last_stable_offset == end_offset:
                self._stable_offset_told = end_offset
                self._committed_fetch_waits.arrived(self._unannounced_bytes)
            else:
                self._tell_stable_offset()
        self._unannounced_bytes = 0

    def _tell_stable_offset(self) -> None:
        """Wake those who wait for committed data, if there is more. How many bytes a transaction's end made visible
        is not counted: they look."""
        stable_offset = self.last_stable_offset
        if stable_offset > self._stable_offset_told:
            self._stable_offset_told = stable_offset
            self._committed_fetch_waits.wake_all()

    def _low_watermark_moved(self) -> None:
        if self._low_waits:
            self._low_waits.reach(self.low_watermark)

    def _dismiss(self, error: ErrorCode) -> None:
        self._commit_waits.fail(error)
        self._durable_waits.fail(error)
        self._low_waits.fail(error)
        self._fetch_waits.wake_all()
        self._committed_fetch_waits.wake_all()
        self._replica_waits.wake_all()

    def _offline_refusal(self) -> Refused:
        return Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"{self} lies in a log directory that is offline")

    def _refusal(self, error: StorageError) -> Refused:
        if isinstance(error, DirectoryOffline):
            self.go_offline()
        return Refused(ErrorCode[error.error_name], str(error))
