"""The fetch of a follower: its position acknowledges what it has, and it reads to the log end offset.

A follower uses the API of consumers, with its node id and broker epoch. Only partitions that are due are read
(`replica_session`). The position of the follower is recorded once per request and partition, after the read: an offset
that is out of range must not count as replicated. This moves the high watermark, so that waiting acks=all requests are
answered in the same iteration of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.pending_fetch import (
    NO_DIVERGENCE,
    NO_LEADER_HINT,
    NO_RECORDS,
    NO_SNAPSHOT,
    UNKNOWN,
    PendingFetch,
)
from penstock.broker.replica_session import ReplicaPlan, ReplicaTarget
from penstock.metadata.errors import Refused
from penstock.protocol.messages.fetch import EpochEndOffset, FetchRequest, FetchResponse, PartitionData
from penstock.protocol.types import Records
from penstock.records.batch import NO_LEADER_EPOCH
from penstock.replication.divergence import diverging_epoch
from penstock.replication.partition import Partition
from penstock.replication.purgatory import DelayedFetch
from penstock.storage.pages import ColdPages

TOPIC_ID_VERSION = 13
REPLICA_STATE_VERSION = 15


class ReplicaFetch(PendingFetch[ReplicaTarget]):
    __slots__ = (
        "_broker_epoch",
        "_bytes_read",
        "_max_bytes",
        "_min_bytes",
        "_replica_id",
        "_replica_plan",
    )

    def __init__(
        self,
        broker: Broker,
        request: FetchRequest,
        context: RequestContext,
        plan: ReplicaPlan,
        replica_id: int,
    ) -> None:
        super().__init__(broker, request, context, plan)
        self._replica_plan = plan
        self._replica_id = replica_id
        self._broker_epoch = request.replica_state.replica_epoch  # -1 before v15
        self._max_bytes = request.max_bytes
        self._min_bytes = min(request.min_bytes, request.max_bytes)
        self._bytes_read = 0
        self._is_preparing = plan.change is not None  # until the request before it is answered

    # -- reading

    def read(self) -> None:
        if self._is_preparing:
            return
        session = self._replica_plan.session
        remaining = self._max_bytes
        results: list[tuple[ReplicaTarget, PartitionData]] = []
        self._must_respond = False
        self._missing = []
        self.cold_pieces = []
        for target in tuple(session.due):  # a high watermark that moves meanwhile makes others due
            try:
                data = self._read_target(target, remaining, at_least_one=remaining == self._max_bytes)
            except Refused as refusal:
                if refusal.error not in UNKNOWN:
                    self._must_respond = True
                results.append((target, self._refuse(refusal, target)))
                continue
            except ColdPages as cold:
                self._missing.append(cold.piece)
                continue
            if data is not None:
                size = len(data.records or NO_RECORDS)
                remaining = remaining - size if size < remaining else 0
                results.append((target, data))
        self._results = results
        self._bytes_read = self._max_bytes - remaining

    def _read_target(
        self, target: ReplicaTarget, remaining: int, *, at_least_one: bool
    ) -> PartitionData | None:
        """What is new for the follower; None if nothing is."""
        wanted = target.wanted
        partition = target.partition or self._find(target)
        epoch = wanted.current_leader_epoch
        if epoch != partition.leader_epoch or not partition.is_leader:
            # In Kafka, any negative number means that the follower does not know the epoch.
            partition.check_access(leader_epoch=max(epoch, NO_LEADER_EPOCH), leader_only=True)
        log, offset = partition.log, wanted.fetch_offset
        divergence = NO_DIVERGENCE
        records: Records = NO_RECORDS
        if wanted.last_fetched_epoch >= 0 and (
            wanted.last_fetched_epoch != log.epochs.latest or not log.start_offset <= offset <= log.end_offset
        ):
            diverging = diverging_epoch(log, wanted.last_fetched_epoch, offset)
            if diverging is not None:
                self._must_respond = True
                divergence = EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
        if divergence is NO_DIVERGENCE:
            max_bytes = min(wanted.partition_max_bytes, remaining)
            if partition.is_throttled_leader and self._is_throttled(partition):
                max_bytes, at_least_one = 0, False
            piece = partition.read(offset, max_bytes=max_bytes, at_least_one=at_least_one, for_replica=True)
            if piece is not None:
                records = piece
                if not piece.file.is_cached(position=piece.position, size=piece.size):
                    self.cold_pieces.append(piece)
            if target in self._replica_plan.named:
                self._record_position(partition, target)
        high_watermark, start_offset = partition.high_watermark, log.start_offset
        if (
            not records
            and divergence is NO_DIVERGENCE
            and high_watermark == target.sent_high_watermark
            and start_offset == target.sent_log_start_offset
        ):
            if offset == log.end_offset:
                target.session.due.pop(target, None)
            return None
        if target.session.wakes_on_change and high_watermark > target.sent_high_watermark:
            self._must_respond = True
        return PartitionData(
            partition_index=wanted.partition,
            high_watermark=high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=start_offset,
            diverging_epoch=divergence,
            current_leader=NO_LEADER_HINT,
            snapshot_id=NO_SNAPSHOT,
            aborted_transactions=None,
            records=records,
        )

    def _is_throttled(self, partition: Partition) -> bool:
        """Whether a throttled replica must wait. In-sync replicas never do."""
        now_ms = int(asyncio.get_running_loop().time() * 1000)
        return self._replica_id not in partition.isr and self._broker.leader_quota.wait_ms(now_ms) > 0

    def respond(self) -> FetchResponse:
        for target, data in self._results:
            partition = target.partition
            if partition is None or not partition.is_throttled_leader or self._replica_id in partition.isr:
                continue
            self._broker.leader_quota.record(len(data.records or NO_RECORDS))
        session = self._replica_plan.session
        if session.unanswered is self:
            session.unanswered = None
        return super().respond()

    def _find(self, target: ReplicaTarget) -> Partition:
        table, index = self._broker.partitions, target.wanted.partition
        if self._version >= TOPIC_ID_VERSION:
            partition = table.find_by_id(target.topic_id, index)
        else:
            partition = table.find(target.topic, index)
        target.watch(partition, self._broker.fetch_sessions)
        return partition

    def _record_position(self, partition: Partition, target: ReplicaTarget) -> None:
        wanted = target.wanted
        partition.follower_fetched(
            self._replica_id,
            end_offset=wanted.fetch_offset,
            start_offset=wanted.log_start_offset,
            leader_epoch=wanted.current_leader_epoch,
            broker_epoch=self._broker_epoch,
            now_ms=int(asyncio.get_running_loop().time() * 1000),
        )
        # Only now: if it was refused, the read after cold pages were loaded must refuse it again.
        del self._replica_plan.named[target]

    def is_ready(self) -> bool:
        return not self._is_preparing and (
            self._bytes_read >= self._min_bytes
            or bool(self._missing)
            or self._must_respond
            or self._request.max_wait_ms <= 0
            or not self._replica_plan.session.targets
            or self._replica_plan.session.is_ended
        )

    # -- waiting

    def respond_later(self) -> asyncio.Future[FetchResponse]:
        self._replica_plan.session.unanswered = self
        return super().respond_later()

    def _start(self) -> None:
        """The request before this one is answered."""
        if self._future.done():
            return
        plan = self._replica_plan
        try:
            if plan.change is not None and not plan.session.is_ended:
                plan.change()  # this may end the session
            self._is_preparing = False
            self.read()
            self._continue()
        except Exception as error:
            self._fail(error)

    def _watch(self) -> None:
        session = self._replica_plan.session
        earlier, session.unanswered = session.unanswered, self
        if self._is_preparing:
            assert earlier is not None
            earlier.then(self._start)
            return
        self._wait = session.waiting = DelayedFetch(self._min_bytes - self._bytes_read, self._read_again)

    def _unwatch(self) -> None:
        session = self._replica_plan.session
        if session.waiting is self._wait:
            session.waiting = None

    def _clean_up(self, future: asyncio.Future[FetchResponse]) -> None:
        super()._clean_up(future)
        session = self._replica_plan.session
        if session.unanswered is self:
            session.unanswered = None  # it was cancelled, or failed
        if (future.cancelled() or not session.id) and not session.is_ended:
            session.unwatch()  # the follower disconnected, or its session is not stored

    # -- called by the session

    def superseded(self) -> bool:
        self._end_wait()
        return self._future.done()

    def then(self, start: Callable[[], None]) -> None:
        self._future.add_done_callback(lambda _: start())
