"""The replica of one partition on this node: its log, its role, its high watermark, and the requests that wait for it.

As leader it accepts appends, and a `Leadership` knows its followers; as follower it only holds what its leader sends
(`following`). It never waits itself: requests that must wait go into its `purgatory`. Only `table.PartitionTable`
changes its role. While its log directory is offline, everything is refused with KAFKA_STORAGE_ERROR.

`high_watermark` <= `log.durability.end_offset` <= `log.end_offset`, always. As leader the replica moves the high
watermark to the lowest end offset of the maximal ISR (`isr`): never back, never past what a flush policy has made
durable, and not while the ISR is smaller than `min.insync.replicas` (KIP-966). `last_stable_offset` is not above it. It
moves with the high watermark, or when the log start offset passes the open transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.metadata.errors import Refused
from penstock.metadata.image import PartitionImage
from penstock.metadata.names import is_internal
from penstock.protocol.constants import ACKS_ALL
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid
from penstock.records.batch import NO_LEADER_EPOCH, BatchHeader
from penstock.replication.followers import UNKNOWN_BROKER_EPOCH, Followers
from penstock.replication.isr import IsrContext
from penstock.replication.leadership import Leadership
from penstock.replication.purgatory import DelayedOperation, OnComplete, PartitionPurgatory
from penstock.replication.quota import ThrottledReplicas
from penstock.replication.validation import NEWEST_PRODUCE_VERSION, Effort, ProduceRules, validate
from penstock.runtime.network import FileSlice
from penstock.storage.errors import DirectoryOffline, StorageError
from penstock.storage.log import AppendInfo, Log
from penstock.storage.pages import ColdPages
from penstock.storage.transactions.aborted import AbortedTransaction
from penstock.storage.transactions.guards import VerificationGuard


class NeedsPages(Exception):
    """Batches were validated, but the log must read `piece` first: load it in a worker, then `append_validated`."""

    def __init__(self, piece: FileSlice, batches: memoryview, headers: list[BatchHeader]) -> None:
        super().__init__(f"{piece.file.path} is not in memory")
        self.piece = piece
        self.batches = batches
        """Valid until the request yields."""
        self.headers = headers


class Partition:
    __slots__ = (
        "_leadership",
        "_log",
        "_offline_reason",
        "_purgatory",
        "_unannounced_bytes",
        "high_watermark",
        "index",
        "is_internal",
        "is_leader",
        "is_throttled_follower",
        "is_throttled_leader",
        "isr",
        "leader",
        "leader_epoch",
        "node_id",
        "on_durable",
        "replicas",
        "rules",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: Uuid,
        *,
        node_id: int,
        log: Log,
        rules: ProduceRules,
        context: IsrContext | None = None,
    ) -> None:
        """Without `context`, the ISR changes only with the metadata."""
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.node_id = node_id
        self.rules = rules
        self.is_internal = is_internal(topic)
        self.is_leader = False
        self.is_throttled_leader = False
        self.is_throttled_follower = False
        self.leader = -1
        self.leader_epoch = NO_LEADER_EPOCH
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        """The committed ISR."""
        self.high_watermark = min(log.high_watermark, log.end_offset)
        self._purgatory: PartitionPurgatory | None = None
        self._unannounced_bytes = 0
        """Appended since the high watermark last moved."""
        self.on_durable: Callable[[], None] | None = None
        """For the replica fetcher: called as follower when a flush has ended."""
        self._leadership = Leadership(topic, index, topic_id, context, self._isr_changed, self._requests_of)
        self._log: Log | None = log
        self._offline_reason = "its log directory is offline"
        log.durability.on_advance = self._on_flush

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    # -- state

    @property
    def purgatory(self) -> PartitionPurgatory:
        """Created with the first request that waits: most partitions of a large broker have none."""
        if self._purgatory is None:
            self._purgatory = PartitionPurgatory(lambda: self.last_stable_offset)
        return self._purgatory

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
        """Every transaction below it has ended with a committed marker. Without transactions: the high watermark."""
        log = self._log
        if log is None:
            return self.high_watermark
        unstable_offset = log.first_unstable_offset
        if unstable_offset is None or unstable_offset > self.high_watermark:
            return self.high_watermark
        return unstable_offset

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of the in-sync replicas: all of them have deleted the records below it."""
        in_sync = self._leadership.followers.in_sync
        return min([self.log.start_offset, *(follower.start_offset for follower in in_sync)])

    @property
    def min_isr(self) -> int:
        return min(self.rules.min_insync_replicas, len(self.replicas))

    @property
    def followers(self) -> Followers:
        """What is known of the followers; empty unless this replica leads."""
        return self._leadership.followers

    @property
    def epoch_start_offset(self) -> int:
        """Where this replica's leadership began; a high watermark below it may not be the cluster's yet."""
        return self._leadership.epoch_start_offset

    def set_throttled(self, throttled: ThrottledReplicas) -> None:
        as_leader, as_follower = throttled
        self.is_throttled_leader = as_leader is None or self.index in as_leader
        self.is_throttled_follower = as_follower is None or self.index in as_follower

    def check_access(self, *, leader_epoch: int, leader_only: bool) -> None:
        """Refuse a request with another leader epoch (KIP-320), or one that only the leader may serve."""
        if self._log is None:
            raise self._offline_refusal()
        if leader_epoch != NO_LEADER_EPOCH and leader_epoch != self.leader_epoch:
            is_fenced = leader_epoch < self.leader_epoch
            raise Refused(
                ErrorCode.FENCED_LEADER_EPOCH if is_fenced else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"the leader epoch of {self} is {self.leader_epoch}, {'newer' if is_fenced else 'older'} than"
                f" {leader_epoch} in the request",
            )
        if leader_only and not self.is_leader:
            raise Refused(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"the leader of {self} is broker {self.leader}, not this one",
            )

    # -- changes of role, for the partition table

    def make_leader(self, state: PartitionImage) -> None:
        """Become or stay leader."""
        leadership = self._leadership
        if self.is_leader and state.partition_epoch < leadership.partition_epoch:
            return  # the controller's response was faster than the metadata
        is_new_epoch = state.leader_epoch > self.leader_epoch
        self._set_state(state)
        if is_new_epoch:
            log = self.log
            leadership.epoch_start_offset = log.end_offset
            with self.refusing():
                log.epochs.assign(state.leader_epoch, log.end_offset)
            if self._purgatory is not None:
                self._purgatory.wake_fetches()  # those of another leader epoch are refused
        self.is_leader = True
        leadership.lead(state, [node for node in state.replicas if node != self.node_id])
        self._isr_changed()

    def make_follower(self, state: PartitionImage) -> None:
        """Become or stay follower; requests that wait for this replica as leader fail."""
        self._set_state(state)
        self._leadership.resign(state)
        self.isr = state.isr
        self.is_leader = False
        self._fail_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _set_state(self, state: PartitionImage) -> None:
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.replicas = state.replicas

    def stop(self, error: ErrorCode) -> None:
        """The replica is deleted or moved away, or its node stops: delayed requests fail."""
        self.is_leader = False
        self._fail_waiting(error)
        if self._log is not None:
            self._log.durability.on_advance = None

    def _fail_waiting(self, error: ErrorCode) -> None:
        if self._purgatory is not None:
            self._purgatory.fail_all(error)

    def go_offline(self) -> None:
        """The log directory failed: refuse everything that needs the log."""
        self.stop(ErrorCode.KAFKA_STORAGE_ERROR)
        if self._log is not None and self._log.io.offline is not None:
            self._offline_reason = str(self._log.io.offline)
        self._log = None

    # -- in-sync replicas

    def follower_fetched(
        self,
        node_id: int,
        *,
        end_offset: int,
        start_offset: int,
        leader_epoch: int,
        now_ms: int,
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
    ) -> None:
        """A follower fetches from `end_offset`, so it has everything below. `now_ms` is monotonic."""
        log = self.log
        if not self._leadership.fetched(
            node_id,
            end_offset=end_offset,
            start_offset=start_offset,
            broker_epoch=broker_epoch,
            leader_end_offset=log.end_offset,
            now_ms=now_ms,
        ):
            # The epochs agree, but the assignment that makes it a replica has not arrived here yet: it retries.
            is_old = leader_epoch == NO_LEADER_EPOCH
            raise Refused(
                ErrorCode.NOT_LEADER_OR_FOLLOWER if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"broker {node_id} is not a replica of {self} in leader epoch {self.leader_epoch}",
            )
        if self._leadership.followers.out_of_sync:
            self._leadership.expand(self.high_watermark)
        self._move_high_watermark(log)
        self._complete_deletions()

    def check_isr(self) -> None:
        """Change the ISR where followers have fallen behind, or may join it now."""
        if self.is_leader and self._log is not None:
            self._leadership.shrink(self._log.end_offset)
            self._leadership.expand(self.high_watermark)
            # It may have waited for a follower that was about to join the ISR, and does not come.
            self._move_high_watermark(self._log)

    def set_rules(self, rules: ProduceRules) -> None:
        """The topic's settings changed. With a lower `min.insync.replicas` the high watermark may move."""
        self.rules = rules
        if self.is_leader and self._log is not None:
            self._move_high_watermark(self._log)

    def _isr_changed(self) -> None:
        self.isr = self._leadership.isr
        purgatory = self._purgatory
        if purgatory is not None and purgatory.produces and len(self.isr) < self.min_isr:
            purgatory.produces.fail_all(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        if self._log is not None:
            self._move_high_watermark(self._log)
            self._complete_deletions()
            self._leadership.expand(self.high_watermark)

    def _requests_of(self, node_id: int) -> list[int]:
        return [] if self._purgatory is None else self._purgatory.requests_of(node_id)

    # -- the high watermark

    def _on_flush(self) -> None:
        """A flush ended, or the log directory went offline meanwhile."""
        log = self._log
        if log is None:
            return
        if log.io.offline is not None:
            self.go_offline()
            return
        purgatory = self._purgatory
        if purgatory is not None and purgatory.flushes:
            purgatory.flushes.complete_up_to(log.durability.end_offset)
        if self.is_leader:
            self._move_high_watermark(log)
        elif self.on_durable is not None:
            self.on_durable()

    def _move_high_watermark(self, log: Log) -> None:
        end_offset = log.durability.end_offset
        followers = self._leadership.followers
        for follower in followers.in_sync:
            if follower.end_offset < end_offset:
                end_offset = follower.end_offset
        if end_offset <= self.high_watermark:
            return
        isr_size = len(self.isr)
        if isr_size < self.rules.min_insync_replicas and isr_size < self.min_isr:
            return  # or a replica that is not in the ISR could lack what consumers have seen (KIP-966)
        if followers.out_of_sync:
            end_offset = self._leadership.joined_end_offset(end_offset, log.end_offset)
            if end_offset <= self.high_watermark:
                return
        self._set_high_watermark(log, end_offset)

    def _set_high_watermark(self, log: Log, end_offset: int) -> None:
        former, self.high_watermark = self.high_watermark, end_offset
        log.high_watermark = end_offset
        if self._purgatory is not None:
            self._purgatory.on_high_watermark(former, end_offset, visible_bytes=self._unannounced_bytes)
        self._unannounced_bytes = 0

    def follow(self, high_watermark: int, start_offset: int) -> None:
        """As follower, move along with the leader, as far as this replica has the records. The high watermark never
        goes back: a new leader may not know it yet."""
        log = self.log
        high_watermark = min(high_watermark, log.durability.end_offset)
        if high_watermark > self.high_watermark:
            self._set_high_watermark(log, high_watermark)
        if log.start_offset < start_offset <= self.high_watermark:
            log.advance_start(start_offset)
            if self._purgatory is not None:
                self._purgatory.on_last_stable_offset()

    def truncated(self) -> None:
        """As follower: the log was truncated, and its high watermark with it."""
        self.high_watermark = self.log.high_watermark

    def start_offset_moved(self) -> None:
        """The log start offset moved as leader. The open transaction may have begun before it."""
        self._complete_deletions()
        if self._purgatory is not None:
            self._purgatory.on_last_stable_offset()
            self._purgatory.on_start_offset()

    def _complete_deletions(self) -> None:
        purgatory = self._purgatory
        if purgatory is not None and purgatory.deletions:
            purgatory.deletions.complete_up_to(self.low_watermark)

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
        """Validate and append a producer's batches. The bytes may be changed in place and are not kept.

        `TakesLong` if validation needs more than `effort`: then `validate` in a worker, and `append_validated`.
        `NeedsPages` if something must be read first that is not in memory. The first batch of a transaction is refused
        without the current `guard`.
        """
        self.check_can_append(acks)
        batches, headers = validate(
            records, self.rules, request_version=request_version, now_ms=now_ms, effort=effort
        )
        try:
            return self._append(batches, headers, now_ms, guard)
        except ColdPages as cold:
            raise NeedsPages(cold.piece, batches, headers) from cold

    def append_validated(
        self,
        batches: memoryview,
        headers: list[BatchHeader],
        *,
        acks: int,
        now_ms: int,
        guard: VerificationGuard | None = None,
    ) -> AppendInfo:
        """Append batches that were validated with the rules of this partition; may raise ColdPages."""
        self.check_can_append(acks)
        return self._append(batches, headers, now_ms, guard)

    def check_can_append(self, acks: int) -> None:
        """Refuse an append of this kind."""
        if self._log is None:
            raise self._offline_refusal()
        if not self.is_leader:
            self.check_access(leader_epoch=NO_LEADER_EPOCH, leader_only=True)
        # The setting first: `min_isr` is not above it, and costs a call (bench "one-record latency").
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
        assert log is not None, "callers call `check_can_append` first"
        try:
            info = log.append(batches, headers, leader_epoch=self.leader_epoch, now_ms=now_ms, guard=guard)
        except StorageError as error:
            raise self.refusal(error) from error
        if not info.is_duplicate:
            self.appended(log, len(batches))
        return info

    def appended(self, log: Log, size: int) -> None:
        """`size` bytes were appended as leader."""
        self.count_appended(size)
        self._move_high_watermark(log)

    def count_appended(self, size: int) -> None:
        """For fetches that wait: the log has `size` bytes more."""
        self._unannounced_bytes += size
        purgatory = self._purgatory
        if purgatory is not None and purgatory.watches:
            purgatory.on_append(size)

    def prepare_append(self) -> None:
        """Read what the next append needs from disk; may raise ColdPages."""
        with self.refusing():
            self.log.prepare_append()

    def wait_for_acknowledgement(
        self, end_offset: int, *, acks: int, on_complete: OnComplete, for_producer: bool = False
    ) -> DelayedOperation | None:
        """None if an append that ended at `end_offset` may be acknowledged now: with acks=all when it is committed,
        otherwise when it is durable. If not, `on_complete` is called later, unless the caller cancels the operation.

        `for_producer`: it fails with NOT_ENOUGH_REPLICAS_AFTER_APPEND as soon as the ISR is too small.
        """
        if acks == ACKS_ALL:
            if end_offset <= self.high_watermark:
                return None
            operations = self.purgatory.produces if for_producer else self.purgatory.commits
            return operations.add(end_offset, on_complete)
        if end_offset <= self.log.durability.end_offset:
            return None
        return self.purgatory.flushes.add(end_offset, on_complete)

    def commit_error(self) -> ErrorCode:
        """The error for a committed append: the ISR may have shrunk below `min.insync.replicas` since it was made."""
        if self._leadership.maximal_isr_size < self.min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

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
        """Whole batches from `offset` on, up to the high watermark; to the log end offset for another replica, to the
        last stable offset with `read_committed`.

        Aborted transactions that may have records in them are added to `aborted`. May raise ColdPages.
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
            raise self.refusal(error) from error

    def has_more_than_read(self, offset: int, *, read_committed: bool = False) -> bool:
        """Whether a read from `offset` ended with its segment, and the next one has more for this reader."""
        end_offset = self.last_stable_offset if read_committed else self.high_watermark
        return end_offset > offset and self.log.reader.has_segment_between(offset, end_offset)

    # -- refusing

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Translate a StorageError into a Refused. Not for hot paths."""
        try:
            yield
        except StorageError as error:
            raise self.refusal(error) from error

    def refusal(self, error: StorageError) -> Refused:
        if isinstance(error, DirectoryOffline):
            self.go_offline()
        return Refused(ErrorCode[error.error_name], str(error))

    def _offline_refusal(self) -> Refused:
        return Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"{self} cannot be served: {self._offline_reason}")
