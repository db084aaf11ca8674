"""The runtime of a coordinator: decide, append, replay, and respond once the records are committed.

A shard is the state of one partition of an internal topic. The leader of that partition owns it. `write` calls a
decision with the shard, appends the records that it returns and replays them; only replay changes the state. The
response is sent when everything that the decision could have seen is committed. There is no await between these steps,
so no locks are needed. A refused append leaves the state unchanged. `read` answers at once from committed state
(`timeline`).

When the partition's leader changes, the shard is dropped with everything that was not committed. The new leader
replays the log, and serves the shard when all of it is committed. Until then it answers COORDINATOR_LOAD_IN_PROGRESS.

If an append, a replay, a timer or a commit callback raises anything but `Refused`, the shard may be behind its log: it
is unloaded and loaded again (`shard_table`). A decision that raises fails its own request only, because it has changed
nothing yet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Generic, TypeVar, cast

from penstock.coordinator.batching import build_batches
from penstock.coordinator.log import CoordinatorLog
from penstock.coordinator.result import (
    DONE,
    CoordinatorRecord,
    CoordinatorResult,
    DeferredResponse,
    ProducerIdentity,
)
from penstock.coordinator.serde import RecordSerde
from penstock.coordinator.shard import OwnedShard, S, ShardContext, TransactionalShard
from penstock.coordinator.shard_table import ShardTable
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.records import kernel
from penstock.records.batch import Compression
from penstock.records.control import TxnMarkerEntry

logger = logging.getLogger(__name__)

COMMIT_TIMEOUT_MS = 5_000
RETRY_MS = 500  # after a timer's write was refused
TIMERS_AT_ONCE = 100  # before the event loop runs other tasks

R = TypeVar("R")
OnCommitted = Callable[[ErrorCode], None]


class _BehindItsLog(Exception):
    """The log has, or may have, appended records that the shard has not replayed."""


class CoordinatorRuntime(Generic[S]):
    def __init__(
        self,
        *,
        topic: str,
        log: CoordinatorLog,
        make_framing: Callable[[], RecordSerde],
        make_shard: Callable[[ShardContext], S],
        wall_ms: Callable[[], int],
        compression: Callable[[], Compression] = lambda: Compression.NONE,
        commit_timeout_ms: Callable[[], int] = lambda: COMMIT_TIMEOUT_MS,
    ) -> None:
        """`make_framing` and `make_shard` are called with the first partition that this node leads, or later."""
        self._topic = topic
        self._log = log
        self._make_framing = make_framing
        self._wall_ms = wall_ms
        self._compression = compression
        self._commit_timeout_ms = commit_timeout_ms
        self._shards = ShardTable(
            topic=topic,
            log=log,
            framing=lambda: self._framing,
            make_shard=make_shard,
            wall_ms=wall_ms,
            on_due=self._fire,
        )
        self._find = self._shards.find  # kept, because every request calls it: bench "groups heartbeating"

    @cached_property
    def _framing(self) -> RecordSerde:
        return self._make_framing()

    # -- leadership

    def elected(self, partition: int) -> None:
        """This node leads the partition: load it, unless it is owned already. An empty one is served at once."""
        self._shards.elected(partition)

    def resigned(self, partition: int) -> None:
        """This node is no longer the leader of the partition."""
        self._shards.resigned(partition)

    async def close(self) -> None:
        await self._shards.close()

    @property
    def is_loading(self) -> bool:
        return self._shards.is_loading

    # -- requests

    def write(self, partition: int, decide: Callable[[S], CoordinatorResult[R]]) -> R | asyncio.Future[R]:
        """Apply the decision of `decide`. `Refused` if the decision or the log refuses."""
        owned = self._find(partition)
        return self._apply(owned, decide(owned.shard))

    def end_transaction(self, partition: int, marker: TxnMarkerEntry) -> asyncio.Future[None] | None:
        """Append a marker; done when it is committed. `Refused` with the log's own error."""
        owned = self._find(partition)
        try:
            end_offset = self._log.append_marker(partition, marker)
        except Refused as refusal:
            self._shards.log_refused(owned, refusal.error)
            raise
        except Exception as error:
            self._shards.fail(owned, error, "failed to append a transaction marker")
            raise self._shards.not_coordinator(partition) from error
        try:
            self._written(owned, end_offset)
            cast(TransactionalShard, owned.shard).transaction_ended(marker.producer_id, marker.is_commit)
        except Exception as error:
            self._shards.fail(owned, error, "failed to replay a transaction marker")
            raise self._shards.not_coordinator(partition) from error
        return self._apply(owned, DONE)

    def read(self, partition: int, query: Callable[[S], R]) -> R:
        """Query the committed state of a shard."""
        return query(self._find(partition).shard)

    def write_quietly(self, partition: int, decide: Callable[[S], CoordinatorResult[None]]) -> bool:
        """Apply a decision that no client waits for. False if it was refused; the reason is logged."""
        try:
            owned = self._find(partition)
        except Refused as refusal:
            logger.warning("%s-%d cannot be written: %s", self._topic, partition, refusal)
            return False
        return self._apply_quietly(owned, lambda: decide(owned.shard))

    def write_to_all_shards(self, decide: Callable[[S], CoordinatorResult[None]]) -> None:
        """Apply a decision to every shard, for example after a metadata change. A refused write is only logged."""
        for owned in self._shards.active():
            self._apply_quietly(owned, lambda owned=owned: decide(owned.shard))  # type: ignore[misc]

    def shards(self) -> Iterator[S]:
        """Those that are served now."""
        return (owned.shard for owned in self._shards.active())

    # -- append, replay, respond

    def _apply(self, owned: OwnedShard[S], outcome: CoordinatorResult[R]) -> R | asyncio.Future[R]:
        response, on_committed = outcome.response, outcome.when_committed
        if outcome.records:
            try:
                if outcome.producer is None:
                    self._append(owned, outcome.records)
                else:
                    self._append_in_transaction(owned, outcome.records, outcome.producer)
            except Refused as refusal:
                error = _as_coordinator(refusal)
                self._notify(owned, on_committed, error.error)
                self._shards.log_refused(owned, refusal.error)
                if not isinstance(response, DeferredResponse):
                    raise error from refusal
                return _future_of(response)
            except Exception as failure:
                # Only the reloaded shard knows whether the write is in the log, so the client has to retry there.
                self._notify(owned, on_committed, ErrorCode.NOT_COORDINATOR)
                self._shards.fail(owned, failure, "failed to write")
                if isinstance(response, DeferredResponse) and response.is_complete:
                    return _future_of(response)
                raise self._shards.not_coordinator(owned.context.partition) from failure
        if owned.end_offset == owned.committed_end:
            if on_committed is not None:
                self._notify(owned, on_committed, ErrorCode.NONE)
            return _future_of(response) if isinstance(response, DeferredResponse) else response
        return self._park(owned, response, on_committed, has_written=bool(outcome.records))

    def _append(self, owned: OwnedShard[S], records: Sequence[CoordinatorRecord]) -> None:
        try:
            encoded = self._framing.encode_all(records, timestamp_ms=self._wall_ms())
            batches = build_batches(encoded, compression=self._compression())
        except Exception as error:
            raise self._unencodable(owned) from error
        end_offset = self._log.append(owned.context.partition, batches)
        self._replay(owned, end_offset, owned.shard.replay, records)

    def _append_in_transaction(
        self, owned: OwnedShard[S], records: Sequence[CoordinatorRecord], producer: ProducerIdentity
    ) -> None:
        """In one batch of any size: it has one response, so a crash must not leave half of it."""
        try:
            batch = kernel.build_batch(
                self._framing.encode_all(records, timestamp_ms=self._wall_ms()),
                compression=self._compression(),
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                is_transactional=True,
            )
        except Exception as error:
            raise self._unencodable(owned) from error
        end_offset = self._log.append(owned.context.partition, batch, producer.guard)
        shard = cast(TransactionalShard, owned.shard)
        self._replay(owned, end_offset, partial(shard.replay_in_transaction, producer.producer_id), records)

    def _unencodable(self, owned: OwnedShard[S]) -> Refused:
        """Records that cannot be encoded have changed nothing: only their own request fails."""
        logger.exception("records for %s-%d cannot be encoded", self._topic, owned.context.partition)
        return Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "the records cannot be encoded")

    def _replay(
        self,
        owned: OwnedShard[S],
        end_offset: int,
        replay: Callable[[Any, Any | None], None],
        records: Sequence[CoordinatorRecord],
    ) -> None:
        """The log has appended `records`, so they must be replayed now."""
        try:
            self._written(owned, end_offset)
            for record in records:
                replay(record.key, record.value)
        except Exception as error:
            raise _BehindItsLog(f"records up to offset {end_offset} cannot be replayed: {error}") from error

    def _written(self, owned: OwnedShard[S], end_offset: int) -> None:
        """The log has appended records up to `end_offset`, which are replayed next."""
        is_committed = self._log.is_committed(owned.context.partition, end_offset)
        owned.end_offset = end_offset
        timeline = owned.context.timeline
        if is_committed:
            owned.committed_end = end_offset
            timeline.commit(end_offset)
        timeline.begin(end_offset, is_committed=is_committed)

    def _notify(self, owned: OwnedShard[S], on_committed: OnCommitted | None, error: ErrorCode) -> None:
        """Report the result of a write to the shard, which then updates the state that it does not replicate."""
        if on_committed is None:
            return
        try:
            # A shard that was dropped meanwhile must not act on records that its successor replays.
            on_committed(error if owned.is_active else ErrorCode.NOT_COORDINATOR)
        except Exception as failure:
            self._shards.fail(owned, failure, "failed after a write")

    def _park(
        self,
        owned: OwnedShard[S],
        response: R | DeferredResponse[R],
        on_committed: OnCommitted | None,
        *,
        has_written: bool,
    ) -> asyncio.Future[R]:
        end_offset = owned.end_offset
        waiting: asyncio.Future[R] | None = None
        if not isinstance(response, DeferredResponse):
            waiting = asyncio.get_running_loop().create_future()

        def committed(error: ErrorCode) -> None:
            commit_timer.cancel()
            refusal = None
            if error is not ErrorCode.NONE:
                refusal = _as_coordinator(Refused(error, "the partition's leader changed"))
            if refusal is None and end_offset > owned.committed_end:
                owned.committed_end = end_offset
                owned.context.timeline.commit(end_offset)
            self._notify(owned, on_committed, ErrorCode.NONE if refusal is None else refusal.error)
            if waiting is not None and not waiting.done():
                assert not isinstance(response, DeferredResponse)
                if refusal is None:
                    waiting.set_result(response)
                else:
                    waiting.set_exception(refusal)
            self._shards.log_refused(owned, error)

        def timed_out() -> None:
            """The write may still be committed, so only the waiting request fails."""
            if wait is not None and waiting is not None and on_committed is None and not has_written:
                # Nothing else depends on the wait, and heartbeats would pile up while the log is stuck.
                wait.cancel()
            if waiting is not None and not waiting.done():
                message = f"a write to {self._topic} was not replicated in time"
                waiting.set_exception(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, message))

        loop = asyncio.get_running_loop()
        commit_timer = loop.call_later(self._commit_timeout_ms() / 1000, timed_out)
        try:
            wait = self._log.wait_for_commit(owned.context.partition, end_offset, committed)
        except Exception as error:
            commit_timer.cancel()
            self._notify(owned, on_committed, ErrorCode.NOT_COORDINATOR)
            self._shards.fail(owned, error, "lost its log after a write")
            raise self._shards.not_coordinator(owned.context.partition) from error
        if wait is None:
            committed(ErrorCode.NONE)
        if waiting is not None:
            return waiting
        assert isinstance(response, DeferredResponse)
        return _future_of(response)

    def _apply_quietly(self, owned: OwnedShard[S], decide: Callable[[], CoordinatorResult[None]]) -> bool:
        """Apply a decision that no client waits for. False if the log refused it or the shard failed."""
        try:
            result = self._apply(owned, decide())
        except Refused as refusal:
            if not owned.is_refused:  # not for every timer of every group, as long as replicas are missing
                owned.is_refused = True
                logger.warning("%s-%d cannot be written: %s", self._topic, owned.context.partition, refusal)
            return False
        except Exception as error:
            # No request fails, so without a reload the decision would be lost.
            self._shards.fail(owned, error, "failed to decide")
            return False
        owned.is_refused = False
        if isinstance(result, asyncio.Future):
            result.add_done_callback(_forget)
        return True

    # -- timers

    def _fire(self, owned: OwnedShard[S]) -> None:
        owned.alarm = None
        timers = owned.context.timers
        for _ in range(TIMERS_AT_ONCE):
            due = timers.take_due()
            if due is None:
                break
            key, action = due
            is_written = self._apply_quietly(owned, action)
            if not owned.is_active:
                return
            if not is_written and key not in timers:
                timers.set(key, RETRY_MS, action)
        self._shards.set_alarm(owned.context.partition)


_COORDINATOR_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE: ErrorCode.INVALID_TXN_STATE,
}
"""The error of the coordinator for each error of its log, because clients do not know that log. The last two are about
the client's own transaction."""


def _as_coordinator(refusal: Refused) -> Refused:
    return Refused(_COORDINATOR_ERRORS.get(refusal.error, ErrorCode.UNKNOWN_SERVER_ERROR), str(refusal))


def _future_of(answer: DeferredResponse[R]) -> asyncio.Future[R]:
    future: asyncio.Future[R] = asyncio.get_running_loop().create_future()

    def given(response: R) -> None:
        if not future.done():  # the client may have disconnected
            future.set_result(response)

    answer.on_complete(given)
    return future


def _forget(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()
