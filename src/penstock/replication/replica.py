"""The replica that a partition has on this node: its log, its role, what is committed, and who waits for what.

As leader it moves the high watermark to the lowest end of the logs in sync. Three offsets stand in order,
always: `high_watermark` <= `log.durable_end_offset` <= `log.end_offset`. The high watermark never goes back while
this replica leads, and never past what a flush policy has made durable. `last_stable_offset` is not above it, and
moves only when it does, or when the log's start passes the transaction that held it back.

What can be done with a replica is in `partition.Partition`. Changes of role come from `table.PartitionTable` alone.
"""

from __future__ import annotations

from penstock.metadata.errors import Refused
from penstock.metadata.image import PartitionImage
from penstock.metadata.names import is_internal
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid
from penstock.replication.delayed import FetchWaits, OffsetWaits
from penstock.replication.validation import ProduceRules
from penstock.storage.errors import DirectoryOffline, StorageError
from penstock.storage.log import Log

NO_EPOCH = -1
UNKNOWN_OFFSET = -1


class Follower:
    """What the leader knows of another replica, from that replica's fetches."""

    __slots__ = ("caught_up_ms", "end_offset", "start_offset")

    def __init__(self) -> None:
        self.end_offset = UNKNOWN_OFFSET
        self.start_offset = UNKNOWN_OFFSET
        self.caught_up_ms = 0


class Replica:
    __slots__ = (
        "_commit_waits",
        "_committed_fetch_waits",
        "_durable_waits",
        "_fetch_waits",
        "_followers",
        "_followers_in_sync",
        "_log",
        "_low_waits",
        "_offline_reason",
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
        self._offline_reason = "its log directory is offline"
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
        if log is None:
            return self.high_watermark
        unstable_offset = log.first_unstable_offset
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
                    f"the leader epoch of {self} is {self.leader_epoch}, newer than {leader_epoch} in the request",
                )
            raise Refused(
                ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"the leader epoch of {self} is {self.leader_epoch}, older than {leader_epoch} in the request",
            )
        if leader_only and not self.is_leader:
            raise Refused(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"the leader of {self} is broker {self.leader}, not this one",
            )

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
                f"broker {node_id} is not a replica of {self} in leader epoch {self.leader_epoch}",
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
        if self._log is not None and self._log.volume.offline is not None:
            self._offline_reason = str(self._log.volume.offline)
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
        return Refused(ErrorCode.KAFKA_STORAGE_ERROR, f"{self} cannot be served: {self._offline_reason}")

    def _refusal(self, error: StorageError) -> Refused:
        if isinstance(error, DirectoryOffline):
            self.go_offline()
        return Refused(ErrorCode[error.error_name], str(error))
