"""The shards of one coordinator that this node holds: taken over, loaded, unloaded, and loaded again after a failure.

Invariant: a shard that is served has replayed all that its log holds. One for which that is in doubt is unloaded
(`fail`), and loaded again from its log after a backoff, so a log that always fails does not keep the node busy. A shard
whose log directory is offline is not loaded again: the directory stays offline until the node is restarted.

What is done with a shard is in `runtime`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic

from penstock.coordinator.framing import CorruptRecord, RecordFraming
from penstock.coordinator.loading import load
from penstock.coordinator.log import CoordinatorLog
from penstock.coordinator.shard import HeldShard, S, ShardContext
from penstock.coordinator.timeline import Timeline
from penstock.coordinator.timers import Timers
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.records.errors import RecordsError
from penstock.runtime.supervisor import STEADY_MS, backoff_ms

logger = logging.getLogger(__name__)

RELOAD_FIRST_MS = 100  # most failures are gone with the state that was dropped

UNREADABLE = (Refused, RecordsError, CorruptRecord, OSError)
"""What may be wrong with a log that is loaded. Anything else is a bug, logged with its traceback."""


class ShardTable(Generic[S]):
    def __init__(
        self,
        *,
        topic: str,
        log: CoordinatorLog,
        framing: RecordFraming,
        make_shard: Callable[[ShardContext], S],
        wall_ms: Callable[[], int],
        on_due: Callable[[HeldShard[S]], None],
    ) -> None:
        """`on_due` is called when the next deadline of a shard has come."""
        self._topic = topic
        self._log = log
        self._framing = framing
        self._make_shard = make_shard
        self._wall_ms = wall_ms
        self._on_due = on_due
        self._held: dict[int, HeldShard[S]] = {}
        self._to_load: deque[HeldShard[S]] = deque()
        self._loading: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def elected(self, partition: int) -> None:
        """This node leads the partition: replay it, if it did not lead it before. An empty one serves at once."""
        held = self._held.get(partition)
        if held is not None:
            if not held.is_failed:
                return
            self.resigned(partition)
        self._take_over(partition)

    def resigned(self, partition: int) -> None:
        """This node is no longer the leader of the partition."""
        held = self._held.pop(partition, None)
        if held is not None:
            self._unload(held)

    async def close(self) -> None:
        for partition in list(self._held):
            self.resigned(partition)
        self._to_load.clear()
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)

    def find(self, partition: int) -> HeldShard[S]:
        held = self._held.get(partition)
        if held is None or held.is_failed:
            raise self.not_coordinator(partition)
        if not held.is_active:
            raise Refused(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                f"the coordinator is loading {self._topic}-{partition}; try again",
            )
        return held

    def not_coordinator(self, partition: int) -> Refused:
        words = f"this node is not the coordinator of {self._topic}-{partition}"
        held = self._held.get(partition)
        if held is not None and held.is_failed:
            words = f"the coordinator of {self._topic}-{partition} failed; the broker's log has the reason"
        return Refused(ErrorCode.NOT_COORDINATOR, words)

    def active(self) -> Iterator[HeldShard[S]]:
        """Those that are served now."""
        return (held for held in list(self._held.values()) if held.is_active)

    @property
    def is_loading(self) -> bool:
        """Whether more shards will be served soon: some are loaded now, or again after their backoff."""
        return any(
            not held.is_active and (not held.is_failed or held.alarm is not None)
            for held in self._held.values()
        )

    def fail(self, held: HeldShard[S], error: Exception, symptom: str) -> None:
        """Unload a shard that cannot be trusted any more, and load it again from its log after a backoff."""
        partition = held.context.partition
        if held.is_failed or self._held.get(partition) is not held:
            return
        now_ms = self._now_ms()
        if held.is_active and now_ms - held.active_since_ms >= STEADY_MS:
            held.failures = 0
        held.is_failed = True
        held.failures += 1
        self._unload(held)
        exc_info = None if isinstance(error, UNREADABLE) else error
        if isinstance(error, Refused) and error.error is ErrorCode.KAFKA_STORAGE_ERROR:
            # A log directory stays offline until the node is restarted, and then all shards are loaded anyway.
            logger.error(
                "%s-%d %s and is not served: %s", self._topic, partition, symptom, error, exc_info=exc_info
            )
            return
        delay_ms = backoff_ms(held.failures, first_ms=RELOAD_FIRST_MS)
        logger.error(
            "%s-%d %s: %s; it is unloaded and loaded again in %d ms (failures in a row: %d)",
            self._topic,
            partition,
            symptom,
            error or type(error).__name__,
            delay_ms,
            held.failures,
            exc_info=exc_info,
        )
        held.alarm = asyncio.get_running_loop().call_later(delay_ms / 1000, self._reload, held)

    def log_refused(self, held: HeldShard[S], error: ErrorCode) -> None:
        """Stop serving a shard whose log directory is offline: it cannot write to its log, and may have replayed
        records that were not written."""
        if error is ErrorCode.KAFKA_STORAGE_ERROR and not held.is_failed:
            held.is_failed = True
            logger.error("%s-%d is not served any more: its log failed", self._topic, held.context.partition)
            self._unload(held)

    def set_alarm(self, partition: int) -> None:
        held = self._held.get(partition)
        if held is None or not held.is_active:
            return
        next_ms = held.context.timers.next_ms
        if held.alarm is not None:
            held.alarm.cancel()
            held.alarm = None
        if next_ms is not None:
            loop = asyncio.get_running_loop()
            held.alarm = loop.call_at(next_ms / 1000, self._on_due, held)

    # -- inside

    def _now_ms(self) -> int:
        # Kept, because asking which loop runs is a system call: bench "classic group", "groups heartbeating".
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        return round(loop.time() * 1000)

    def _take_over(self, partition: int, *, failures: int = 0) -> None:
        timeline = Timeline()
        timers = Timers(self._now_ms, lambda: self.set_alarm(partition))
        context = ShardContext(partition, timeline, timers, self._now_ms, self._wall_ms)
        held: HeldShard[S] = HeldShard(context, failures=failures)
        self._held[partition] = held
        try:
            held.shard = self._make_shard(context)
            start_offset, end_offset = self._log.bounds(partition)
            if start_offset == end_offset:
                self._activate(held, end_offset)
                return
        except Exception as error:
            self.fail(held, error, "cannot be loaded")
            return
        self._to_load.append(held)
        if self._loading is None:
            self._loading = asyncio.create_task(self._load_all(), name=f"load {self._topic}")

    def _unload(self, held: HeldShard[S]) -> None:
        if held.alarm is not None:
            held.alarm.cancel()
            held.alarm = None
        held.context.timers.clear()
        if held.is_active:
            held.is_active = False
            try:
                held.shard.unloaded()
            except Exception:
                # Some may not have been told; they give up when their own requests time out.
                logger.exception("%s-%d failed while it was unloaded", self._topic, held.context.partition)

    def _reload(self, held: HeldShard[S]) -> None:
        partition = held.context.partition
        if self._held.get(partition) is held:
            self._take_over(partition, failures=held.failures)

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

    async def _load(self, held: HeldShard[S]) -> int:
        """The number of records that it held; 0 where it can not be served."""
        partition = held.context.partition
        began_ms = self._now_ms()
        try:
            _, end_offset = self._log.bounds(partition)
            count = await load(
                self._log, partition, end_offset=end_offset, framing=self._framing, shard=held.shard
            )
            await self._committed(partition, end_offset)
            if self._held.get(partition) is not held:
                return 0  # resigned meanwhile
            self._activate(held, end_offset)
        except Exception as error:
            # Whatever it was, those of other partitions still have to be loaded.
            self.fail(held, error, "cannot be loaded")
            return 0
        logger.debug(
            "loaded %s-%d: %d records in %d ms", self._topic, partition, count, self._now_ms() - began_ms
        )
        return count

    async def _committed(self, partition: int, end_offset: int) -> None:
        reached: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def listener(error: ErrorCode) -> None:
            if not reached.done():
                reached.set_result(error)

        if self._log.wait_for_commit(partition, end_offset, listener) is not None:
            error = await reached
            if error is not ErrorCode.NONE:
                raise Refused(error, "the partition's leader changed while it was loaded")

    def _activate(self, held: HeldShard[S], end_offset: int) -> None:
        held.end_offset = held.committed_end = end_offset
        held.is_active = True
        held.active_since_ms = self._now_ms()
        held.shard.loaded()
        self.set_alarm(held.context.partition)
