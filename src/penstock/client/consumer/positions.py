"""The positions of a consumer, and what must be looked up before a partition can be fetched. No I/O.

A partition has two offsets: `offset`, the next one for the application, and `fetch_offset`, the next one to fetch; the
records between them are buffered. A seek, a reset or a new assignment starts a new `generation`: responses to requests
of an older one are ignored.

A position is found in up to three steps: the group's committed offset, else the reset policy, and after a leader change
a check for truncation (KIP-320). Invariant: a partition is fetched only while `need` is NOTHING.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import NamedTuple

from penstock.client import errors
from penstock.client.cluster import NO_NODE, Cluster, Leader, TopicPartition
from penstock.client.group.types import Offset
from penstock.config.durations import BY_DURATION, parse_duration_ms
from penstock.protocol.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from penstock.protocol.errors import ErrorCode
from penstock.records.batch import NO_LEADER_EPOCH
from penstock.runtime.backoff import Backoff

UNKNOWN = -1
READ_REPLICA_MS = (
    5 * 60 * 1000
)  # after this the leader is asked again for the preferred read replica (KIP-392)


class Need(Enum):
    """What must be looked up for a partition."""

    NOTHING = auto()
    COMMITTED = auto()
    """The group's committed offset."""
    RESET = auto()
    """The offset of one end of the log, or of a timestamp."""
    VALIDATION = auto()
    """Whether the new leader's log still has the records that were read."""


class Reset(NamedTuple):
    """The target of a reset: a timestamp of ListOffsets, -2 for the beginning and -1 for the end."""

    timestamp: int


EARLIEST = Reset(EARLIEST_TIMESTAMP)
LATEST = Reset(LATEST_TIMESTAMP)


class ResetPolicy:
    """The policy of `auto.offset.reset`."""

    def __init__(self, text: str, wall_ms: Callable[[], int]) -> None:
        self.text = text
        self._wall_ms = wall_ms

    def reset(self) -> Reset | None:
        """The target of a reset now; None if the application has to decide."""
        if self.text == "earliest":
            return EARLIEST
        if self.text == "latest":
            return LATEST
        if self.text.startswith(BY_DURATION):
            return Reset(max(self._wall_ms() - parse_duration_ms(self.text.removeprefix(BY_DURATION)), 0))
        return None


class PartitionState:
    """The state of one assigned partition."""

    __slots__ = (
        "base_epoch",
        "base_offset",
        "end_offset",
        "epoch",
        "error",
        "failures",
        "fetch_epoch",
        "fetch_offset",
        "generation",
        "high_watermark",
        "is_parked",
        "is_paused",
        "leader",
        "log_start_offset",
        "need",
        "offset",
        "partition",
        "read_replica",
        "read_replica_until_ms",
        "reset",
        "retry_at_ms",
        "stop_offset",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.generation = 0
        self.need = Need.COMMITTED
        self.reset: Reset | None = None
        self.offset = UNKNOWN
        self.epoch = NO_LEADER_EPOCH
        """The leader epoch of the record before `offset`."""
        self.fetch_offset = UNKNOWN
        self.fetch_epoch = NO_LEADER_EPOCH
        self.base_offset = UNKNOWN
        self.base_epoch = NO_LEADER_EPOCH
        """The target of a rewind: the last offset that this consumer committed, else where it began or sought to."""
        self.leader: Leader | None = None
        """The leader for which the position was validated."""
        self.is_paused = False
        self.is_parked = False
        """Excluded from the current bounded read, or read to its end."""
        self.stop_offset: int | None = None
        """Nothing from here on is fetched: a bounded read does not want it."""
        self.end_offset = UNKNOWN
        """The end offset at this consumer's isolation level, from the last response."""
        self.high_watermark = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.read_replica = NO_NODE
        self.read_replica_until_ms = 0
        self.failures = 0
        self.retry_at_ms = 0
        self.error: errors.PenstockError | None = None
        """Raised once in the application; then the lookup is tried again."""

    @property
    def has_position(self) -> bool:
        return self.offset >= 0 and self.need in (Need.NOTHING, Need.VALIDATION)

    @property
    def is_held(self) -> bool:
        """Whether its messages are not to be returned now."""
        return self.is_paused or self.is_parked

    def is_fetchable(self, now_ms: int) -> bool:
        return (
            self.need is Need.NOTHING
            and not self.is_held
            and (self.stop_offset is None or self.fetch_offset < self.stop_offset)
            and self.error is None
            and self.retry_at_ms <= now_ms
        )

    def move(self, offset: int, epoch: int) -> None:
        """The application has received everything before `offset`."""
        self.offset = offset
        self.epoch = epoch

    def go_to(self, offset: int, epoch: int) -> None:
        """Start again at `offset`; earlier fetches and lookups no longer count."""
        self._restart(Need.NOTHING)
        self.offset = self.fetch_offset = offset
        self.epoch = self.fetch_epoch = epoch
        self.base_offset, self.base_epoch = offset, epoch
        self.leader = None

    def fetch_again(self) -> None:
        """Drop buffered records that were not returned. A validation in progress is repeated."""
        if self.has_position:
            self.generation += 1
            self.fetch_offset, self.fetch_epoch = self.offset, self.epoch
            if self.fetch_epoch < 0:
                self.need = Need.NOTHING  # nothing to validate

    def find(self, need: Need, reset: Reset | None = None) -> None:
        self._restart(need)
        self.reset = reset

    def retry(self, backoff: Backoff, now_ms: int) -> None:
        """Try again after the backoff."""
        self.failures += 1
        self.retry_at_ms = now_ms + round(backoff.wait_ms(self.failures))

    def _restart(self, need: Need) -> None:
        self.generation += 1
        self.need = need
        self.reset = None
        self.error = None
        self.failures = self.retry_at_ms = 0
        self.read_replica = NO_NODE


class Positions:
    """All partitions of a consumer, in the order of their assignment."""

    def __init__(self, policy: ResetPolicy, *, has_group: bool, backoff: Backoff) -> None:
        self._policy = policy
        self._first_need = Need.COMMITTED if has_group else Need.RESET
        self._backoff = backoff
        self._states: dict[TopicPartition, PartitionState] = {}

    def __iter__(self) -> Iterator[PartitionState]:
        return iter(self._states.values())

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._states

    def get(self, partition: TopicPartition) -> PartitionState | None:
        return self._states.get(partition)

    def of(self, partition: TopicPartition) -> PartitionState:
        try:
            return self._states[partition]
        except KeyError:
            raise errors.IllegalState(
                "the partition is not assigned to this consumer", about=partition
            ) from None

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(self._states)

    # Assignment

    def assign(self, partitions: Collection[TopicPartition]) -> tuple[TopicPartition, ...]:
        """Assign exactly these; those that were assigned before keep their positions. Returns the new ones."""
        wanted = dict.fromkeys(partitions)
        added = tuple(partition for partition in wanted if partition not in self._states)
        for partition, state in self._states.items():
            if partition not in wanted:
                state.generation += 1  # its buffered data and requests in flight no longer count
        self._states = {
            partition: self._states.get(partition) or self._new(partition) for partition in wanted
        }
        return added

    def _new(self, partition: TopicPartition) -> PartitionState:
        state = PartitionState(partition)
        self._look_up(state, self._first_need)
        return state

    def seek(self, partition: TopicPartition, offset: int, epoch: int = NO_LEADER_EPOCH) -> None:
        self.of(partition).go_to(offset, epoch)

    def reset(self, partitions: Iterable[TopicPartition], reset: Reset) -> None:
        for state in [self.of(partition) for partition in partitions]:
            state.find(Need.RESET, reset)

    def note_committed(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        for partition, offset in offsets.items():
            if (state := self._states.get(partition)) is not None:
                state.base_offset, state.base_epoch = offset.offset, offset.leader_epoch

    def rewind(self) -> None:
        """Go back to the committed offsets of partitions that were consumed since."""
        for state in self._states.values():
            if state.has_position and state.offset != state.base_offset:
                state.go_to(state.base_offset, state.base_epoch)

    # Lookups

    def needing(self, need: Need, now_ms: int) -> list[PartitionState]:
        return [
            state
            for state in self._states.values()
            if state.need is need and state.error is None and state.retry_at_ms <= now_ms
        ]

    def wake_at_ms(self, now_ms: int) -> int | None:
        """When the next backoff ends."""
        times = [state.retry_at_ms for state in self._states.values() if state.retry_at_ms > now_ms]
        return min(times, default=None)

    def take_error(self) -> errors.PenstockError | None:
        """An error to raise in the application; afterwards the lookup is tried again."""
        for state in self._states.values():
            if state.error is not None:
                error, state.error = state.error, None
                if state.need is Need.RESET and state.reset is None:
                    self._look_up(state, self._first_need)
                return error
        return None

    def take_committed(
        self, asked: Mapping[TopicPartition, int], found: Mapping[TopicPartition, Offset]
    ) -> None:
        """`asked` has the generation of each partition whose committed offset was looked up."""
        for partition, generation in asked.items():
            state = self._current(partition, generation)
            if state is None:
                continue
            if (offset := found.get(partition)) is not None:
                state.go_to(offset.offset, offset.leader_epoch)
            else:
                self._look_up(state, Need.RESET)

    def take_reset(self, partition: TopicPartition, generation: int, offset: int, epoch: int) -> None:
        state = self._current(partition, generation)
        if state is not None:
            state.go_to(offset, epoch)

    def take_validation(
        self, partition: TopicPartition, generation: int, *, end_offset: int, epoch: int
    ) -> None:
        """The end of the epoch that was read, in the new leader's log; -1 if it does not know."""
        state = self._current(partition, generation)
        if state is None or state.need is not Need.VALIDATION:
            return
        if end_offset >= state.fetch_offset:
            state.need = Need.NOTHING
            state.failures = state.retry_at_ms = 0
        elif end_offset >= state.offset:
            state.need = Need.NOTHING
            state.fetch_again()
        elif self._policy.reset() is None:
            message = (
                f"the log was truncated to offset {end_offset}, but it was read up to offset {state.offset}"
            )
            state.error = errors.LogTruncated(message, about=partition)
        elif end_offset < 0 or epoch < 0:
            self._look_up(state, Need.RESET)
        else:
            base = (state.base_offset, state.base_epoch)
            state.go_to(end_offset, epoch)
            if (
                base[0] < end_offset
            ):  # uncommitted records before the truncation may have to be returned again
                state.base_offset, state.base_epoch = base

    def take_out_of_range(self, partition: TopicPartition, generation: int, now_ms: int) -> None:
        """The leader has no record at the fetch position."""
        state = self._current(partition, generation)
        if state is None:
            return
        if state.offset != state.fetch_offset:
            state.retry(self._backoff, now_ms)  # buffered records are returned first
        elif self._policy.reset() is None:
            message = f"offset {state.fetch_offset} is not in the log"
            state.error = errors.of(ErrorCode.OFFSET_OUT_OF_RANGE, message, about=partition)
        else:
            self._look_up(state, Need.RESET)

    def fail(self, partition: TopicPartition, generation: int, error: errors.PenstockError) -> None:
        state = self._current(partition, generation)
        if state is not None:
            state.error = error

    def retry(self, partition: TopicPartition, generation: int, now_ms: int) -> None:
        state = self._current(partition, generation)
        if state is not None:
            state.retry(self._backoff, now_ms)

    def follow_leaders(self, cluster: Cluster, *, can_validate: bool = True) -> None:
        """The new leader must validate the position."""
        for state in self._states.values():
            leader = cluster.leader_of(state.partition)
            if leader is None or leader == state.leader or state.need not in (Need.NOTHING, Need.VALIDATION):
                continue
            state.leader = leader
            state.read_replica = NO_NODE
            if can_validate and state.fetch_epoch >= 0 and leader.epoch >= 0:
                # Buffered records stay: the validation may succeed.
                state.need = Need.VALIDATION
                state.failures = state.retry_at_ms = 0

    def _current(self, partition: TopicPartition, generation: int) -> PartitionState | None:
        state = self._states.get(partition)
        return state if state is not None and state.generation == generation else None

    def _look_up(self, state: PartitionState, need: Need) -> None:
        """Reset by the policy; without one it is an error for the application."""
        reset = self._policy.reset() if need is Need.RESET else None
        state.find(need, reset)
        if need is Need.RESET and reset is None:
            state.error = errors.NoOffset(about=state.partition)
