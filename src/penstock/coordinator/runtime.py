"""Shards in motion: decide, append, replay, keep the answer back until it is committed.

A shard is the state of one partition of an internal topic, and lives where that partition is led. `write`
lets a decision look at the shard, appends the records that it returns, replays them, which alone changes
the state, and gives the answer away when everything that the decision could have seen is committed. There
is no await between these steps, which is all the locking there is. A refused append leaves the state as it
was. `read` answers from committed state (`timeline`), at once.

When the partition's leader changes, the shard is dropped whole, with whatever was not committed; the new
leader replays the log and serves when all of that is committed. Until then it answers
COORDINATOR_LOAD_IN_PROGRESS.

If an append, a replay, a timer or a commit callback raises anything but `Refused`, the shard may be behind its log: it
is unloaded and loaded again (`shard_table`). A decision that raises fails its own request only, because it has changed
nothing yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar, cast

from penstock.coordinator.batching import build_batches
from penstock.coordinator.framing import RecordFraming
from penstock.coordinator.log import CoordinatorLog
from penstock.coordinator.outcome import DONE, Answer, CoordinatorRecord, Outcome, ProducerIdentity
from penstock.coordinator.shard import HeldShard, S, ShardContext, TransactionalShard
from penstock.coordinator.shard_table import ShardTable
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.records import kernel
from penstock.records.batch import Compression
from penstock.records.control import EndedTransaction

logger = logging.getLogger(__name__)

COMMIT_TIMEOUT_MS = 5_000
RETRY_MS = 500  # after a timer's write was refused
TIMERS_AT_ONCE = 100  # then others get their turn on the event loop

R = TypeVar("R")
OnCommitted = Callable[[ErrorCode], None]


class _BehindItsLog(Exception):
    """The log took a write, or may have, that the shard has not replayed."""


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
        self._wall_ms = wall_ms
        self._compression = compression
        self._commit_timeout_ms = commit_timeout_ms
        self._shards = ShardTable(
            topic=topic, log=log, framing=framing, make_shard=make_shard, wall_ms=wall_ms, on_due=self._fire
        )
        self._find = self._shards.find  # kept, because every request calls it: bench "groups heartbeating"

    # -- who leads

    def elected(self, partition: int) -> None:
        """This node leads the partition: replay it, if it did not lead it before. An empty one serves at once."""
        self._shards.elected(partition)

    def resigned(self, partition: int) -> None:
        """This node is no longer the leader of the partition."""
        self._shards.resigned(partition)

    async def close(self) -> None:
        await self._shards.close()

    @property
    def is_loading(self) -> bool:
        return self._shards.is_loading

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
            self._shards.log_refused(held, refusal.error)
            raise
        except Exception as error:
            self._shards.fail(held, error, "failed to append a transaction marker")
            raise self._shards.not_coordinator(partition) from error
        try:
            self._written(held, end_offset)
            cast(TransactionalShard, held.shard).transaction_ended(marker.producer_id, marker.is_commit)
        except Exception as error:
            self._shards.fail(held, error, "failed to replay a transaction marker")
            raise self._shards.not_coordinator(partition) from error
        return self._apply(held, DONE)

    def read(self, partition: int, question: Callable[[S], R]) -> R:
        """Ask a shard for committed state."""
        return question(self._find(partition).shard)

    def write_all(self, decide: Callable[[S], Outcome[None]]) -> None:
        """Let `decide` look at every shard, as when the metadata changed. Nobody hears of a write that is refused."""
        for held in self._shards.active():
            self._apply_quietly(held, lambda held=held: decide(held.shard))  # type: ignore[misc]

    def shards(self) -> Iterator[S]:
        """Those that can be asked now."""
        return (held.shard for held in self._shards.active())

    # -- decide, append, replay, park

    def _apply(self, held: HeldShard[S], outcome: Outcome[R]) -> R | asyncio.Future[R]:
        response, on_committed = outcome.response, outcome.when_committed
        if outcome.records:
            try:
                if outcome.producer is None:
                    self._append(held, outcome.records)
                else:
                    self._append_in_transaction(held, outcome.records, outcome.producer)
            except Refused as refusal:
                error = _as_coordinator(refusal)
                self._notify(held, on_committed, error.error)
                self._shards.log_refused(held, refusal.error)
                if not isinstance(response, Answer):
                    raise error from refusal
                return _future_of(response)
            except Exception as failure:
                # Whether the write stays is for the reloaded shard to say, so the client is sent there.
                self._notify(held, on_committed, ErrorCode.NOT_COORDINATOR)
                self._shards.fail(held, failure, "failed to write")
                if isinstance(response, Answer) and response.is_given:
                    return _future_of(response)
                raise self._shards.not_coordinator(held.context.partition) from failure
        if held.end_offset == held.committed_end:
            if on_committed is not None:
                self._notify(held, on_committed, ErrorCode.NONE)
            return _future_of(response) if isinstance(response, Answer) else response
        return self._park(held, response, on_committed, has_written=bool(outcome.records))

    def _append(self, held: HeldShard[S], records: Sequence[CoordinatorRecord]) -> None:
        try:
            laid_out = self._framing.lay_out(records, timestamp_ms=self._wall_ms())
            batches = build_batches(laid_out, compression=self._compression())
        except Exception as error:
            raise self._unencodable(held) from error
        end_offset = self._log.append(held.context.partition, batches)
        self._replay(held, end_offset, held.shard.replay, records)

    def _append_in_transaction(
        self, held: HeldShard[S], records: Sequence[CoordinatorRecord], producer: ProducerIdentity
    ) -> None:
        """In one batch, however large: there is one answer for all of it, so a crash must not leave half."""
        try:
            batch = kernel.build_batch(
                self._framing.lay_out(records, timestamp_ms=self._wall_ms()),
                compression=self._compression(),
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                is_transactional=True,
            )
        except Exception as error:
            raise self._unencodable(held) from error
        end_offset = self._log.append(held.context.partition, batch, producer.guard)
        shard = cast(TransactionalShard, held.shard)
        self._replay(held, end_offset, partial(shard.replay_in_transaction, producer.producer_id), records)

    def _unencodable(self, held: HeldShard[S]) -> Refused:
        """Records that cannot be encoded have changed nothing: only their own request fails."""
        logger.exception("records for %s-%d cannot be encoded", self._topic, held.context.partition)
        return Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "the records cannot be encoded")

    def _replay(
        self,
        held: HeldShard[S],
        end_offset: int,
        replay: Callable[[Any, Any | None], None],
        records: Sequence[CoordinatorRecord],
    ) -> None:
        """The log has taken `records`, so from here on nothing may be refused."""
        try:
            self._written(held, end_offset)
            for record in records:
                replay(record.key, record.value)
        except Exception as error:
            raise _BehindItsLog(f"records up to offset {end_offset} cannot be replayed: {error}") from error

    def _written(self, held: HeldShard[S], end_offset: int) -> None:
        """The log has taken what ends there: what is replayed next is that."""
        is_committed = self._log.is_committed(held.context.partition, end_offset)
        held.end_offset = end_offset
        timeline = held.context.timeline
        if is_committed:
            held.committed_end = end_offset
            timeline.commit(end_offset)
        timeline.begin(end_offset, is_committed=is_committed)

    def _notify(self, held: HeldShard[S], on_committed: OnCommitted | None, error: ErrorCode) -> None:
        """Have the shard bring what it keeps in memory in line with what became of its records."""
        if on_committed is None:
            return
        try:
            # A shard that was dropped meanwhile must not act on what the next one replays.
            on_committed(error if held.is_active else ErrorCode.NOT_COORDINATOR)
        except Exception as failure:
            self._shards.fail(held, failure, "failed after a write")

    def _park(
        self,
        held: HeldShard[S],
        response: R | Answer[R],
        on_committed: OnCommitted | None,
        *,
        has_written: bool,
    ) -> asyncio.Future[R]:
        end_offset = held.end_offset
        waiting: asyncio.Future[R] | None = None
        if not isinstance(response, Answer):
            waiting = asyncio.get_running_loop().create_future()

        def committed(error: ErrorCode) -> None:
            commit_timer.cancel()
            refusal = None
            if error is not ErrorCode.NONE:
                refusal = _as_coordinator(Refused(error, "the partition's leader changed"))
            if refusal is None and end_offset > held.committed_end:
                held.committed_end = end_offset
                held.context.timeline.commit(end_offset)
            self._notify(held, on_committed, ErrorCode.NONE if refusal is None else refusal.error)
            if waiting is not None and not waiting.done():
                assert not isinstance(response, Answer)
                if refusal is None:
                    waiting.set_result(response)
                else:
                    waiting.set_exception(refusal)
            self._shards.log_refused(held, error)

        def timed_out() -> None:
            """The write may still be committed, so only the waiting request fails."""
            if wait is not None and waiting is not None and on_committed is None and not has_written:
                # Nothing else hangs on it, and heartbeats would pile up while the log is stuck.
                wait.cancel()
            if waiting is not None and not waiting.done():
                words = f"a write to {self._topic} was not replicated in time"
                waiting.set_exception(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, words))

        loop = asyncio.get_running_loop()
        commit_timer = loop.call_later(self._commit_timeout_ms() / 1000, timed_out)
        try:
            wait = self._log.wait_for_commit(held.context.partition, end_offset, committed)
        except Exception as error:
            commit_timer.cancel()
            self._notify(held, on_committed, ErrorCode.NOT_COORDINATOR)
            self._shards.fail(held, error, "lost its log after a write")
            raise self._shards.not_coordinator(held.context.partition) from error
        if wait is None:
            committed(ErrorCode.NONE)
        if waiting is not None:
            return waiting
        assert isinstance(response, Answer)
        return _future_of(response)

    def _apply_quietly(self, held: HeldShard[S], decide: Callable[[], Outcome[None]]) -> bool:
        """For what nobody waits for. False where the log refused it, or the shard failed."""
        try:
            result = self._apply(held, decide())
        except Refused as refusal:
            logger.warning("%s-%d cannot be written: %s", self._topic, held.context.partition, refusal)
            return False
        except Exception as error:
            # There is no request that could fail in its place, and what it meant to do would never be done.
            self._shards.fail(held, error, "failed to decide")
            return False
        if isinstance(result, asyncio.Future):
            result.add_done_callback(_forget)
        return True

    # -- timers

    def _fire(self, held: HeldShard[S]) -> None:
        held.alarm = None
        timers = held.context.timers
        for _ in range(TIMERS_AT_ONCE):
            due = timers.take_due()
            if due is None:
                break
            key, action = due
            is_written = self._apply_quietly(held, action)
            if not held.is_active:
                return
            if not is_written and key not in timers:
                timers.set(key, RETRY_MS, action)
        self._shards.set_alarm(held.context.partition)


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
