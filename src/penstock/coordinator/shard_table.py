"""The shards of one coordinator that this node owns: loading, unloading, and reloading after a failure.

Invariant: a shard that is served has replayed its whole log. A shard that may have not is unloaded (`fail`) and loaded
again after a backoff, so that a log that always fails does not keep the node busy. A shard whose log directory is
offline is not loaded again: the directory stays offline until the node is restarted.

`runtime` uses the shards.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic

from penstock.coordinator.loading import load
from penstock.coordinator.log import CoordinatorLog
from penstock.coordinator.serde import CorruptRecord, RecordSerde
from penstock.coordinator.shard import OwnedShard, S, ShardContext
from penstock.coordinator.timeline import Timeline
from penstock.coordinator.timers import Timers
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.records.errors import RecordsError
from penstock.runtime.backoff import Backoff
from penstock.runtime.supervisor import BACKOFF_MAX_MS, STEADY_MS

logger = logging.getLogger(__name__)

RELOAD_BACKOFF = Backoff(
    100, BACKOFF_MAX_MS, jitter=0
)  # starts short: most failures are in the dropped state

UNREADABLE = (Refused, RecordsError, CorruptRecord, OSError)
"""Errors of a log that cannot be loaded. Any other error is a bug, and logged with its traceback."""


class ShardTable(Generic[S]):
    def __init__(
        self,
        *,
        topic: str,
        log: CoordinatorLog,
        framing: Callable[[], RecordSerde],
        make_shard: Callable[[ShardContext], S],
        wall_ms: Callable[[], int],
        on_due: Callable[[OwnedShard[S]], None],
    ) -> None:
        """`on_due` is called when the next timer of a shard expires."""
        self._topic = topic
        self._log = log
        self._framing = framing
        self._make_shard = make_shard
        self._wall_ms = wall_ms
        self._on_due = on_due
        self._owned: dict[int, OwnedShard[S]] = {}
        self._to_load: deque[OwnedShard[S]] = deque()
        self._loading: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def elected(self, partition: int) -> None:
        """This node leads the partition: load it, unless it is owned already. An empty one is served at once."""
        owned = self._owned.get(partition)
        if owned is not None:
            if not owned.is_failed:
                return
            self.resigned(partition)
        self._take_over(partition)

    def resigned(self, partition: int) -> None:
        """This node is no longer the leader of the partition."""
        owned = self._owned.pop(partition, None)
        if owned is not None:
            self._unload(owned)

    async def close(self) -> None:
        for partition in list(self._owned):
            self.resigned(partition)
        self._to_load.clear()
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)

    def find(self, partition: int) -> OwnedShard[S]:
        owned = self._owned.get(partition)
        if owned is None or owned.is_failed:
            raise self.not_coordinator(partition)
        if not owned.is_active:
            raise Refused(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                f"the coordinator is loading {self._topic}-{partition}; try again",
            )
        return owned

    def not_coordinator(self, partition: int) -> Refused:
        message = f"this node is not the coordinator of {self._topic}-{partition}"
        owned = self._owned.get(partition)
        if owned is not None and owned.is_failed:
            message = f"the coordinator of {self._topic}-{partition} failed; the broker's log has the reason"
        return Refused(ErrorCode.NOT_COORDINATOR, message)

    def active(self) -> Iterator[OwnedShard[S]]:
        """Those that are served now."""
        return (owned for owned in list(self._owned.values()) if owned.is_active)

    @property
    def is_loading(self) -> bool:
        """Whether more shards will be served soon: some are loading, or will be reloaded after their backoff."""
        return any(
            not owned.is_active and (not owned.is_failed or owned.alarm is not None)
            for owned in self._owned.values()
        )

    def fail(self, owned: OwnedShard[S], error: Exception, symptom: str) -> None:
        """Unload a shard whose state may be wrong, and load it again after a backoff."""
        partition = owned.context.partition
        if owned.is_failed or self._owned.get(partition) is not owned:
            return
        now_ms = self._now_ms()
        if owned.is_active and now_ms - owned.active_since_ms >= STEADY_MS:
            owned.failures = 0
        owned.is_failed = True
        owned.failures += 1
        self._unload(owned)
        exc_info = None if isinstance(error, UNREADABLE) else error
        if isinstance(error, Refused) and error.error is ErrorCode.KAFKA_STORAGE_ERROR:
            # A log directory stays offline until the node is restarted, which loads all shards.
            logger.error(
                "%s-%d %s and is not served: %s", self._topic, partition, symptom, error, exc_info=exc_info
            )
            return
        delay_ms = RELOAD_BACKOFF.wait_ms(owned.failures)
        # Losing the leadership is not a fault: `resigned` follows.
        is_lost = isinstance(error, Refused) and error.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        logger.log(
            logging.INFO if is_lost else logging.ERROR,
            "%s-%d %s: %s; reloading it in %d ms (failures in a row: %d)",
            self._topic,
            partition,
            symptom,
            error or type(error).__name__,
            delay_ms,
            owned.failures,
            exc_info=exc_info,
        )
        owned.alarm = asyncio.get_running_loop().call_later(delay_ms / 1000, self._reload, owned)

    def log_refused(self, owned: OwnedShard[S], error: ErrorCode) -> None:
        """Stop serving a shard whose log directory is offline: it cannot write to its log, and may have replayed
        records that were not written."""
        if error is ErrorCode.KAFKA_STORAGE_ERROR and not owned.is_failed:
            owned.is_failed = True
            logger.error("%s-%d is not served any more: its log failed", self._topic, owned.context.partition)
            self._unload(owned)

    def set_alarm(self, partition: int) -> None:
        owned = self._owned.get(partition)
        if owned is None or not owned.is_active:
            return
        next_ms = owned.context.timers.next_ms
        if owned.alarm is not None:
            owned.alarm.cancel()
            owned.alarm = None
        if next_ms is not None:
            loop = asyncio.get_running_loop()
            owned.alarm = loop.call_at(next_ms / 1000, self._on_due, owned)

    # -- loading and unloading

    def _now_ms(self) -> int:
        # Cached, because finding the running loop is a system call: bench "classic group", "groups heartbeating".
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        return round(loop.time() * 1000)

    def _take_over(self, partition: int, *, failures: int = 0) -> None:
        timeline = Timeline()
        timers = Timers(self._now_ms, lambda: self.set_alarm(partition))
        context = ShardContext(partition, timeline, timers, self._now_ms, self._wall_ms)
        owned: OwnedShard[S] = OwnedShard(context, failures=failures)
        self._owned[partition] = owned
        try:
            owned.shard = self._make_shard(context)
            start_offset, end_offset = self._log.bounds(partition)
            if start_offset == end_offset:
                self._activate(owned, end_offset)
                return
        except Exception as error:
            self.fail(owned, error, "cannot be loaded")
            return
        self._to_load.append(owned)
        if self._loading is None:
            self._loading = asyncio.create_task(self._load_all(), name=f"load {self._topic}")

    def _unload(self, owned: OwnedShard[S]) -> None:
        if owned.alarm is not None:
            owned.alarm.cancel()
            owned.alarm = None
        owned.context.timers.clear()
        if owned.is_active:
            owned.is_active = False
            try:
                owned.shard.unloaded()
            except Exception:
                # Some waiting requests may not have been failed; they time out in the client.
                logger.exception("%s-%d failed to unload", self._topic, owned.context.partition)

    def _reload(self, owned: OwnedShard[S]) -> None:
        partition = owned.context.partition
        if self._owned.get(partition) is owned:
            self._take_over(partition, failures=owned.failures)

    async def _load_all(self) -> None:
        began_ms = self._now_ms()
        partition_count = record_count = 0
        try:
            while self._to_load:
                owned = self._to_load.popleft()
                if self._owned.get(owned.context.partition) is owned:
                    count = await self._load(owned)
                    if count is not None:
                        partition_count += 1
                        record_count += count
        finally:
            self._loading = None
        logger.info(
            "loaded %d partitions of %s: %d records in %d ms",
            partition_count,
            self._topic,
            record_count,
            self._now_ms() - began_ms,
        )

    async def _load(self, owned: OwnedShard[S]) -> int | None:
        """The number of records in the log; None if the shard cannot be served."""
        partition = owned.context.partition
        began_ms = self._now_ms()
        try:
            _, end_offset = self._log.bounds(partition)
            count = await load(
                self._log, partition, end_offset=end_offset, framing=self._framing(), shard=owned.shard
            )
            self._activate_when_committed(owned, end_offset)
        except Exception as error:
            # Other partitions still have to be loaded.
            self.fail(owned, error, "cannot be loaded")
            return None
        logger.debug(
            "loaded %s-%d: %d records in %d ms", self._topic, partition, count, self._now_ms() - began_ms
        )
        return count

    def _activate_when_committed(self, owned: OwnedShard[S], end_offset: int) -> None:
        """Serve the shard once its whole log is committed. The other shards do not wait for that: after a fail-over, it
        takes a slow follower of one partition up to `replica.lag.time.max.ms`."""

        def committed(error: ErrorCode) -> None:
            if self._owned.get(owned.context.partition) is not owned or owned.is_failed:
                return  # resigned meanwhile
            try:
                if error is not ErrorCode.NONE:
                    raise Refused(error, "the leader of the partition changed while it was loading")
                self._activate(owned, end_offset)
            except Exception as failure:
                self.fail(owned, failure, "cannot be loaded")

        def soon(error: ErrorCode) -> None:
            # Not in the middle of the fetch that moves the high watermark.
            asyncio.get_running_loop().call_soon(committed, error)

        if self._log.wait_for_commit(owned.context.partition, end_offset, soon) is None:
            committed(ErrorCode.NONE)

    def _activate(self, owned: OwnedShard[S], end_offset: int) -> None:
        owned.end_offset = owned.committed_end = end_offset
        owned.is_active = True
        owned.active_since_ms = self._now_ms()
        owned.shard.loaded()
        self.set_alarm(owned.context.partition)
