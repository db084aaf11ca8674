"""Shards in motion: decide, append, replay, keep the answer back until it is committed.

A shard is the state of one partition of an internal topic, and lives where that partition is led. `write`
lets a decision look at the shard, appends the records that it returns, replays them, which alone changes
the state, and gives the answer away when everything that the decision could have seen is committed. There
is no await between these steps, which is all the locking there is. A refused append leaves the state as it
was. `read` answers from committed state (`timeline`), at once.

When the partition's leader changes, the shard is dropped whole, with whatever was not committed; the new
leader replays the log and serves when all of that is committed. Until then it answers
COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

from penstock.coordinator.batching import build_batches
from penstock.coordinator.framing import CorruptRecord, RecordFraming
from penstock.coordinator.loading import load
from penstock.coordinator.log import CoordinatorLog
from penstock.coordinator.outcome import DONE, Answer, CoordinatorRecord, Outcome, ProducerIdentity
from penstock.coordinator.timeline import Timeline
from penstock.coordinator.timers import Timers
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.records import kernel
from penstock.records.batch import Compression
from penstock.records.control import EndedTransaction
from penstock.records.errors import RecordsError

logger = logging.getLogger(__name__)

COMMIT_TIMEOUT_MS = 5_000
RETRY_MS = 500  # after a timer's write was refused
TIMERS_AT_ONCE = 100  # then others get their turn on the event loop

UNREADABLE = (Refused, RecordsError, CorruptRecord, OSError)
"""What may be wrong with a log that is loaded. Anything else is a bug, told with where it happened."""


@dataclass(frozen=True, slots=True)
class ShardContext:
    """What the runtime gives to a shard."""

    partition: int
    timeline: Timeline
    timers: Timers
    now_ms: Callable[[], int]
    """Monotonic, for durations."""
    wall_ms: Callable[[], int]
    """For timestamps in records."""


class Shard(Protocol):
    def replay(self, key: Any, value: Any | None) -> None:
        """Take over one record. The only place where replicated state changes; must not fail."""
        ...

    def loaded(self) -> None:
        """Everything is replayed and committed: set the timers."""
        ...

    def unloaded(self) -> None:
        """Another node has taken over: send those away who wait, with NOT_COORDINATOR."""
        ...


class TransactionalShard(Shard, Protocol):
    """One that may return outcomes with a `producer`. What is replayed in a transaction holds once it is committed."""

    def replay_in_transaction(self, producer_id: int, key: Any, value: Any | None) -> None: ...

    def transaction_ended(self, producer_id: int, is_commit: bool) -> None:
        """As `replay`: what follows from it is the state of all who come later."""
        ...


S = TypeVar("S", bound=Shard)
R = TypeVar("R")


class _Held(Generic[S]):
    """One shard that this node owns, or is about to."""

    __slots__ = (
        "alarm",
        "committed_end",
        "context",
        "end_offset",
        "is_active",
        "is_failed",
        "shard",
    )

    def __init__(self, context: ShardContext, shard: S) -> None:
        self.context = context
        self.shard = shard
        self.is_active = False
        self.is_failed = False
        self.end_offset = 0
        """Where the last write ended."""
        self.committed_end = 0
        self.alarm: asyncio.TimerHandle | None = None


class CoordinatorRuntime(Generic[S]):
    def __init__(
        self,
        *,
        topic: str,
        log: CoordinatorLog,
        framing: RecordFraming,
        make_shard: Callable[[ShardContext], S],
        wall_ms: Callable[[], int],
        compression: Callable[[], Compression] = lambda: Compression.NONE,
        commit_timeout_ms: Callable[[], int] = lambda: COMMIT_TIMEOUT_MS,
    ) -> None:
        self._topic = topic
        self._log = log
        self._framing = framing
        self._make_shard = make_shard
        self._wall_ms = wall_ms
        self._compression = compression
        self._commit_timeout_ms = commit_timeout_ms
        self._held: dict[int, _Held[S]] = {}
        self._to_load: deque[_Held[S]] = deque()
        self._loading: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # -- who leads

    def elected(self, partition: int) -> None:
        """This node leads the partition: replay it, if it did not lead it before. An empty one serves at once."""
        held = self._held.get(partition)
        if held is not None:
            if not held.is_failed:
                return
            self.resigned(partition)
        timeline = Timeline()
        timers = Timers(self._now_ms, lambda: self._set_alarm(partition))
        context = ShardContext(partition, timeline, timers, self._now_ms, self._wall_ms)
        held = self._held[partition] = _Held(context, self._make_shard(context))
        start_offset, end_offset = self._log.bounds(partition)
        if start_offset == end_offset:
            self._activate(held, end_offset)
            return
        self._to_load.append(held)
        if self._loading is None:
            self._loading = asyncio.create_task(self._load_all(), name=f"load {self._topic}")

    def resigned(self, partition: int) -> None:
        """This node leads the partition no more."""
        held = self._held.pop(partition, None)
        if held is not None:
            self._unload(held)

    def _unload(self, held: _Held[S]) -> None:
        if held.alarm is not None:
            held.alarm.cancel()
        held.context.timers.clear()
        if held.is_active:
            held.is_active = False
            held.shard.unloaded()

    async def close(self) -> None:
        for partition in list(self._held):
            self.resigned(partition)
        self._to_load.clear()
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)

    # -- what is asked

    def write(self, partition: int, decide: Callable[[S], Outcome[R]]) -> R | asyncio.Future[R]:
        """Let `decide` look at a shard and act on what it returns. `Refused` where it refuses, or the log does."""
        held = self._find(partition)
        return self._apply(held, decide(held.shard))

    def end_transaction(self, partition: int, marker: EndedTransaction) -> asyncio.Future[None] | None:
        """Append a marker; done when it is committed. `Refused` where the log refuses it, by the log's own error."""
        held = self._find(partition)
        try:
            end_offset = self._log.append_marker(partition, marker)
        except Refused as refusal:
            self._look_after(held, refusal.error)
            raise
        self._written(held, end_offset)
        cast(TransactionalShard, held.shard).transaction_ended(marker.producer_id, marker.is_commit)
        return self._apply(held, DONE)

    def read(self, partition: int, question: Callable[[S], R]) -> R:
        """Ask a shard for committed state."""
        return question(self._find(partition).shard)

    def write_all(self, decide: Callable[[S], Outcome[None]]) -> None:
        """Let `decide` look at every shard, as when the metadata changed. Nobody hears of a write that is refused."""
        for held in list(self._held.values()):
            if held.is_active:
                self._apply_quietly(held, lambda held=held: decide(held.shard))  # type: ignore[misc]

    def shards(self) -> Iterator[S]:
        """Those that can be asked now."""
        for held in self._held.values():
            if held.is_active:
                yield held.shard

    @property
    def is_loading(self) -> bool:
        return any(not held.is_active and not held.is_failed for held in self._held.values())

    def _find(self, partition: int) -> _Held[S]:
        held = self._held.get(partition)
        if held is None or held.is_failed:
            raise Refused(
                ErrorCode.NOT_COORDINATOR, f"{self._topic}-{partition} is not coordinated by this node"
            )
        if not held.is_active:
            raise Refused(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self._topic}-{partition} is being loaded"
            )
        return held

    # -- decide, append, replay, park

    def _apply(self, held: _Held[S], outcome: Outcome[R]) -> R | asyncio.Future[R]:
        response, told = outcome.response, outcome.when_committed
        if outcome.records:
            try:
                if outcome.producer is None:
                    self._append(held, outcome.records)
                else:
                    self._append_in_transaction(held, outcome.records, outcome.producer)
            except Refused as refusal:
                error = _as_coordinator(refusal)
                if told is not None:
                    told(error.error)
                self._look_after(held, refusal.error)
                if not isinstance(response, Answer):
                    raise error from refusal
                return _future_of(response)
        if held.end_offset == held.committed_end:
            if told is not None:
                told(ErrorCode.NONE)
            return _future_of(response) if isinstance(response, Answer) else response
        return self._park(held, response, told)

    def _append(self, held: _Held[S], records: Sequence[CoordinatorRecord]) -> None:
        laid_out = self._framing.lay_out(records, timestamp_ms=self._wall_ms())
        batches = build_batches(laid_out, compression=self._compression())
        self._written(held, self._log.append(held.context.partition, batches))
        replay = held.shard.replay
        for record in records:
            replay(record.key, record.value)

    def _append_in_transaction(
        self, held: _Held[S], records: Sequence[CoordinatorRecord], producer: ProducerIdentity
    ) -> None:
        """In one batch, however large: there is one answer for all of it, so a crash must not leave half."""
        batch = kernel.build_batch(
            self._framing.lay_out(records, timestamp_ms=self._wall_ms()),
            compression=self._compression(),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            is_transactional=True,
        )
        self._written(held, self._log.append(held.context.partition, batch, producer.guard))
        replay = cast(TransactionalShard, held.shard).replay_in_transaction
        for record in records:
            replay(producer.producer_id, record.key, record.value)

    def _written(self, held: _Held[S], end_offset: int) -> None:
        """The log has taken what ends there: what is replayed next is that."""
        is_committed = self._log.is_committed(held.context.partition, end_offset)
        held.end_offset = end_offset
        timeline = held.context.timeline
        if is_committed:
            held.committed_end = end_offset
            timeline.commit(end_offset)
        timeline.begin(end_offset, is_committed=is_committed)

    def _park(
        self, held: _Held[S], response: R | Answer[R], told: Callable[[ErrorCode], None] | None
    ) -> asyncio.Future[R]:
        end_offset = held.end_offset
        waiting: asyncio.Future[R] | None = None
        if not isinstance(response, Answer):
            waiting = asyncio.get_running_loop().create_future()

        def committed(error: ErrorCode) -> None:
            patience.cancel()
            refusal = None
            if error is not ErrorCode.NONE:
                refusal = _as_coordinator(Refused(error, "the partition's leader changed"))
            if refusal is None and end_offset > held.committed_end:
                held.committed_end = end_offset
                held.context.timeline.commit(end_offset)
            if told is not None:
                told(ErrorCode.NONE if refusal is None else refusal.error)
            if waiting is not None and not waiting.done():
                assert not isinstance(response, Answer)
                if refusal is None:
                    waiting.set_result(response)
                else:
                    waiting.set_exception(refusal)
            self._look_after(held, error)

        def lost_patience() -> None:
            """The write may still be committed, so only the one who waits is told."""
            if waiting is not None and not waiting.done():
                words = f"a write to {self._topic} was not replicated in time"
                waiting.set_exception(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, words))

        loop = asyncio.get_running_loop()
        patience = loop.call_later(self._commit_timeout_ms() / 1000, lost_patience)
        if self._log.when_committed(held.context.partition, end_offset, committed):
            committed(ErrorCode.NONE)
        if waiting is not None:
            return waiting
        assert isinstance(response, Answer)
        return _future_of(response)

    def _look_after(self, held: _Held[S], error: ErrorCode) -> None:
        """Serve a shard no more whose log directory is offline: it could not write another word, and may have replayed
        what was not written."""
        if error is ErrorCode.KAFKA_STORAGE_ERROR and not held.is_failed:
            held.is_failed = True
            logger.error("%s-%d is not served any more: its log failed", self._topic, held.context.partition)
            self._unload(held)

    def _apply_quietly(self, held: _Held[S], decide: Callable[[], Outcome[None]]) -> bool:
        """For what nobody waits for. False where the log refused it."""
        try:
            result = self._apply(held, decide())
        except Refused as refusal:
            logger.warning("%s-%d cannot be written: %s", self._topic, held.context.partition, refusal)
            return False
        if isinstance(result, asyncio.Future):
            result.add_done_callback(_forget)
        return True

    # -- timers

    def _now_ms(self) -> int:
        # Kept, because asking which loop runs is a system call: bench "classic group", "groups heartbeating".
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        return round(loop.time() * 1000)

    def _set_alarm(self, partition: int) -> None:
        held = self._held.get(partition)
        if held is None or not held.is_active:
            return
        next_ms = held.context.timers.next_ms
        if held.alarm is not None:
            held.alarm.cancel()
            held.alarm = None
        if next_ms is not None:
            loop = asyncio.get_running_loop()
            held.alarm = loop.call_at(next_ms / 1000, self._fire, held)

    def _fire(self, held: _Held[S]) -> None:
        held.alarm = None
        timers = held.context.timers
        for _ in range(TIMERS_AT_ONCE):
            due = timers.take_due()
            if due is None:
                break
            key, action = due
            if not self._apply_quietly(held, action) and key not in timers:
                timers.set(key, RETRY_MS, action)
            if not held.is_active:
                return
        self._set_alarm(held.context.partition)

    # -- loading

    async def _load_all(self) -> None:
        began_ms = self._now_ms()
        partition_count = record_count = 0
        try:
            while self._to_load:
                held = self._to_load.popleft()
                if self._held.get(held.context.partition) is held:
                    record_count += await self._load(held)
                    partition_count += held.is_active
        finally:
            self._loading = None
        logger.info(
            "loaded %d partitions of %s: %d records in %d ms",
            partition_count,
            self._topic,
            record_count,
            self._now_ms() - began_ms,
        )

    async def _load(self, held: _Held[S]) -> int:
        """The number of records that it held; 0 where it can not be served."""
        partition = held.context.partition
        began_ms = self._now_ms()
        try:
            _, end_offset = self._log.bounds(partition)
            count = await load(
                self._log, partition, end_offset=end_offset, framing=self._framing, shard=held.shard
            )
            await self._committed(partition, end_offset)
        except Exception as error:
            # Whatever it was, those of other partitions still have to be loaded.
            if self._held.get(partition) is held:
                held.is_failed = True
                logger.error(
                    "%s-%d cannot be loaded and is not served: %s",
                    self._topic,
                    partition,
                    error,
                    exc_info=not isinstance(error, UNREADABLE),
                )
            return 0
        if self._held.get(partition) is not held:
            return 0  # resigned meanwhile
        self._activate(held, end_offset)
        logger.debug(
            "loaded %s-%d: %d records in %d ms", self._topic, partition, count, self._now_ms() - began_ms
        )
        return count

    async def _committed(self, partition: int, end_offset: int) -> None:
        reached: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def listener(error: ErrorCode) -> None:
            if not reached.done():
                reached.set_result(error)

        if not self._log.when_committed(partition, end_offset, listener):
            error = await reached
            if error is not ErrorCode.NONE:
                raise Refused(error, "the partition's leader changed while it was loaded")

    def _activate(self, held: _Held[S], end_offset: int) -> None:
        held.end_offset = held.committed_end = end_offset
        held.is_active = True
        held.shard.loaded()
        self._set_alarm(held.context.partition)


_COORDINATOR_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE: ErrorCode.INVALID_TXN_STATE,
}
"""What clients of a coordinator are told instead of the error that its log met: they know nothing of that log. The
last two speak of their own transaction."""


def _as_coordinator(refusal: Refused) -> Refused:
    return Refused(_COORDINATOR_ERRORS.get(refusal.error, ErrorCode.UNKNOWN_SERVER_ERROR), str(refusal))


def _future_of(answer: Answer[R]) -> asyncio.Future[R]:
    future: asyncio.Future[R] = asyncio.get_running_loop().create_future()

    def given(response: R) -> None:
        if not future.done():  # the peer may be gone
            future.set_result(response)

    answer.then(given)
    return future


def _forget(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()
