"""Where a consumer stands in each of its partitions, and what has to be found out before it can go on. No I/O.

A partition has two places: `offset`, the next one that the application is given, and `fetch_offset`, the next one to be
fetched; what lies between waits in memory. Whatever moves the consumer elsewhere (a seek, a reset, a new assignment)
begins a new `generation`: answers to questions of an older one are not taken.

A place is found in up to three steps: the group's committed offset, else the reset policy, and where the leader
changed a check that the log still holds what was read (KIP-320). Invariant: a partition is fetched only while `need`
is NOTHING.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import NamedTuple

from penstock.client import errors
from penstock.client.backoff import Backoff
from penstock.client.cluster import NO_EPOCH, NO_NODE, Cluster, Leader, TopicPartition
from penstock.client.group.nouns import Offset
from penstock.config.durations import BY_DURATION, parse_duration_ms
from penstock.protocol.errors import ErrorCode

UNKNOWN = -1
EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
READ_REPLICA_MS = 5 * 60 * 1000  # after this the leader is asked again which replica is near (KIP-392)


class Need(Enum):
    """What a partition lacks."""

    NOTHING = auto()
    COMMITTED = auto()
    """The offset that the group has committed."""
    RESET = auto()
    """The offset at one end of the log, or at a time."""
    VALIDATION = auto()
    """The word of a new leader that its log holds what was read."""


class Reset(NamedTuple):
    """Where to go: a timestamp as ListOffsets has it, -2 for the beginning and -1 for the end."""

    timestamp: int


EARLIEST = Reset(EARLIEST_TIMESTAMP)
LATEST = Reset(LATEST_TIMESTAMP)


class ResetPolicy:
    """What `auto.offset.reset` says."""

    def __init__(self, text: str, wall_ms: Callable[[], int]) -> None:
        self.text = text
        self._wall_ms = wall_ms

    def reset(self) -> Reset | None:
        """Where to go now; None where the application has to be asked."""
        if self.text == "earliest":
            return EARLIEST
        if self.text == "latest":
            return LATEST
        if self.text.startswith(BY_DURATION):
            return Reset(max(self._wall_ms() - parse_duration_ms(self.text.removeprefix(BY_DURATION)), 0))
        return None


class PartitionState:
    """One partition that is assigned."""

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
        self.epoch = NO_EPOCH
        """The leader's, when the record before `offset` was written."""
        self.fetch_offset = UNKNOWN
        self.fetch_epoch = NO_EPOCH
        self.base_offset = UNKNOWN
        self.base_epoch = NO_EPOCH
        """Where a rewind leads: the last offset that this consumer committed, else where it began or sought to."""
        self.leader: Leader | None = None
        """For whom the place is known to be right."""
        self.is_paused = False
        self.is_parked = False
        """Excluded from the current bounded read, or read to its end."""
        self.stop_offset: int | None = None
        """Nothing from here on is to be fetched: a bounded read does not want it."""
        self.end_offset = UNKNOWN
        """Where a reader of this isolation level came to the end when it was last told."""
        self.high_watermark = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.read_replica = NO_NODE
        self.read_replica_until_ms = 0
        self.failures = 0
        self.retry_at_ms = 0
        self.error: errors.PenstockError | None = None
        """For the application, which is told once; then the question is asked again."""

    @property
    def has_position(self) -> bool:
        return self.offset >= 0 and self.need in (Need.NOTHING, Need.VALIDATION)

    @property
    def is_held(self) -> bool:
        """Nothing of it is to be given now."""
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
        """The application has been given everything before `offset`."""
        self.offset = offset
        self.epoch = epoch

    def go_to(self, offset: int, epoch: int) -> None:
        """Begin anew at `offset`; what was fetched or asked before does not count any more."""
        self._begin_anew(Need.NOTHING)
        self.offset = self.fetch_offset = offset
        self.epoch = self.fetch_epoch = epoch
        self.base_offset, self.base_epoch = offset, epoch
        self.leader = None

    def fetch_again(self) -> None:
        """Forget what was fetched and not given. A check by a new leader that is under way is asked for again."""
        if self.has_position:
            self.generation += 1
            self.fetch_offset, self.fetch_epoch = self.offset, self.epoch
            if self.fetch_epoch < 0:
                self.need = Need.NOTHING  # nothing to check

    def find(self, need: Need, reset: Reset | None = None) -> None:
        self._begin_anew(need)
        self.reset = reset

    def retry(self, backoff: Backoff, now_ms: int) -> None:
        """Leave it alone for a while."""
        self.failures += 1
        self.retry_at_ms = now_ms + round(backoff.wait_ms(self.failures))

    def _begin_anew(self, need: Need) -> None:
        self.generation += 1
        self.need = need
        self.reset = None
        self.error = None
        self.failures = self.retry_at_ms = 0
        self.read_replica = NO_NODE


class Positions:
    """All partitions of a consumer, in the order in which they were assigned."""

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
            raise errors.IllegalState("it is not assigned to this consumer", about=partition) from None

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        return tuple(self._states)

    # What the consumer reads

    def assign(self, partitions: Collection[TopicPartition]) -> tuple[TopicPartition, ...]:
        """Read exactly these from now on; those that were read before go on where they are. Returns the new ones."""
        wanted = dict.fromkeys(partitions)
        added = tuple(partition for partition in wanted if partition not in self._states)
        for partition, state in self._states.items():
            if partition not in wanted:
                state.generation += 1  # what is here of it, or under way, is nobody's
        self._states = {
            partition: self._states.get(partition) or self._new(partition) for partition in wanted
        }
        return added

    def _new(self, partition: TopicPartition) -> PartitionState:
        state = PartitionState(partition)
        self._look_up(state, self._first_need)
        return state

    def seek(self, partition: TopicPartition, offset: int, epoch: int = NO_EPOCH) -> None:
        self.of(partition).go_to(offset, epoch)

    def reset(self, partitions: Iterable[TopicPartition], reset: Reset) -> None:
        for state in [self.of(partition) for partition in partitions]:
            state.find(Need.RESET, reset)

    def note_committed(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        for partition, offset in offsets.items():
            if (state := self._states.get(partition)) is not None:
                state.base_offset, state.base_epoch = offset.offset, offset.leader_epoch

    def rewind(self) -> None:
        """Go back to what was committed, where something was given since."""
        for state in self._states.values():
            if state.has_position and state.offset != state.base_offset:
                state.go_to(state.base_offset, state.base_epoch)

    # What has to be found out

    def wanting(self, need: Need, now_ms: int) -> list[PartitionState]:
        return [
            state
            for state in self._states.values()
            if state.need is need and state.error is None and state.retry_at_ms <= now_ms
        ]

    def wake_at_ms(self, now_ms: int) -> int | None:
        """When the next one that was left alone may be tried again."""
        times = [state.retry_at_ms for state in self._states.values() if state.retry_at_ms > now_ms]
        return min(times, default=None)

    def take_error(self) -> errors.PenstockError | None:
        """What the application has to be told; afterwards it is tried again."""
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
        """`asked` tells the generation of each partition whose committed offset was asked for."""
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
        """Where the epoch of what was read ended, by the new leader's log; -1 where it does not know."""
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
            words = f"the log was cut at {end_offset}, before offset {state.offset}, up to which it was read"
            state.error = errors.LogTruncated(words, about=partition)
        elif end_offset < 0 or epoch < 0:
            self._look_up(state, Need.RESET)
        else:
            base = (state.base_offset, state.base_epoch)
            state.go_to(end_offset, epoch)
            if base[0] < end_offset:  # what was not committed before the cut may still have to be given again
                state.base_offset, state.base_epoch = base

    def take_out_of_range(self, partition: TopicPartition, generation: int, now_ms: int) -> None:
        """The leader has no record at the place from which it was asked for some."""
        state = self._current(partition, generation)
        if state is None:
            return
        if state.offset != state.fetch_offset:
            state.retry(self._backoff, now_ms)  # what was fetched before is given first
        elif self._policy.reset() is None:
            words = f"offset {state.fetch_offset} is not in the log (any more)"
            state.error = errors.of(ErrorCode.OFFSET_OUT_OF_RANGE, words, about=partition)
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
        """A new leader has to confirm what an old one's epoch wrote."""
        for state in self._states.values():
            leader = cluster.leader_of(state.partition)
            if leader is None or leader == state.leader or state.need not in (Need.NOTHING, Need.VALIDATION):
                continue
            state.leader = leader
            state.read_replica = NO_NODE
            if can_validate and state.fetch_epoch >= 0 and leader.epoch >= 0:
                # What was fetched stays: the answer may say that it is good.
                state.need = Need.VALIDATION
                state.failures = state.retry_at_ms = 0

    def _current(self, partition: TopicPartition, generation: int) -> PartitionState | None:
        state = self._states.get(partition)
        return state if state is not None and state.generation == generation else None

    def _look_up(self, state: PartitionState, need: Need) -> None:
        """Have it found; where that is by a policy which there is not, the application has to be told."""
        reset = self._policy.reset() if need is Need.RESET else None
        state.find(need, reset)
        if need is Need.RESET and reset is None:
            state.error = errors.NoOffset(about=state.partition)
