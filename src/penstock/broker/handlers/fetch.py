"""Fetch (key 1): read batches of records from partitions. Served: v0 to v18.

v0 and v1 return message sets v0, v2 and v3 message sets v1 (`broker.down_conversion`). v3 adds a limit for the whole
response. v4 adds isolation levels: with read_committed, a fetch ends at the last stable offset, and the response lists
the aborted transactions. v7 adds fetch sessions (`broker.fetch_session`). v9 fences by leader epoch. v11 lets consumers
read from followers. v12 detects diverging logs. v13 uses topic ids. v16 returns the current leader.

Records are sent as slices of segment files, without reading them into this process. A request that finds fewer than
`min_bytes` waits up to `max_wait_ms` for appends to its partitions. All others get their response at once, from a plain
function: this is the hot path (bench/micro/broker.py).
"""

from __future__ import annotations

import asyncio
from functools import partial

from penstock.broker import down_conversion, replica_session
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.down_conversion import OLD_FORMAT_BYTES_MAX, Conversion, Converted
from penstock.broker.fetch_session import FetchPlan, FetchTarget
from penstock.broker.pending_fetch import (
    NO_DIVERGENCE,
    NO_LEADER_HINT,
    NO_RECORDS,
    NO_SNAPSHOT,
    UNKNOWN,
    PendingFetch,
)
from penstock.broker.replica_fetch import REPLICA_STATE_VERSION, TOPIC_ID_VERSION, ReplicaFetch
from penstock.broker.replica_selector import LEADER, preferred_read_replica
from penstock.metadata.errors import Refused
from penstock.protocol.constants import READ_COMMITTED
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from penstock.protocol.types import Records
from penstock.records.batch import NO_LEADER_EPOCH, Compression
from penstock.replication.divergence import diverging_epoch
from penstock.replication.partition import Partition
from penstock.replication.purgatory import DelayedFetch
from penstock.runtime.network import FileSlice
from penstock.storage.pages import ColdPages
from penstock.storage.transactions.aborted import AbortedTransaction as Aborted

MESSAGE_SET_V0_VERSION_MAX = 1
MESSAGE_SET_VERSION_MAX = 3
WHOLE_LIMIT_VERSION = (
    3  # KIP-74: from this version on, only the first batch of a response may exceed the limits
)
ZSTD_VERSION = 10  # KIP-110
FOLLOWER_READ_VERSION = 11  # KIP-392


def handle(
    broker: Broker, request: FetchRequest, context: RequestContext
) -> FetchResponse | asyncio.Future[FetchResponse]:
    version = context.version
    replica_id = request.replica_id if version < REPLICA_STATE_VERSION else request.replica_state.replica_id
    uses_topic_ids, now_ms = version >= TOPIC_ID_VERSION, broker.runtime.clock.wall_ms()
    fetch: Fetch | ReplicaFetch
    if replica_id >= 0:
        replica_plan = replica_session.plan(
            broker.fetch_sessions,
            request,
            replica_id=replica_id,
            broker_epoch=request.replica_state.replica_epoch,
            uses_topic_ids=uses_topic_ids,
            wakes_on_change=broker.selects_replicas,
            now_ms=now_ms,
        )
        if replica_plan.error != ErrorCode.NONE:
            return FetchResponse(error_code=replica_plan.error, responses=[])
        fetch = ReplicaFetch(broker, request, context, replica_plan, replica_id)
    else:
        plan = broker.fetch_sessions.plan(request, uses_topic_ids=uses_topic_ids, now_ms=now_ms)
        if plan.error != ErrorCode.NONE:
            return FetchResponse(error_code=plan.error, responses=[])
        fetch = Fetch(broker, request, context, plan)
    fetch.read()
    if not fetch.is_ready():
        response = fetch.wait()
    elif fetch.is_slow():
        response = fetch.respond_later()
    else:
        return fetch.respond()
    if version <= MESSAGE_SET_VERSION_MAX and context.connection is not None:
        context.connection.hold(response)  # so that only one such response is in memory
    return response


class Fetch(PendingFetch[FetchTarget]):
    """A fetch of a consumer."""

    __slots__ = (
        "_bytes_read",
        "_conversions",
        "_max_bytes",
        "_min_bytes",
        "_partitions",
        "_reads_committed",
        "_targets",
    )

    def __init__(
        self, broker: Broker, request: FetchRequest, context: RequestContext, plan: FetchPlan
    ) -> None:
        super().__init__(broker, request, context, plan)
        self._targets = plan.targets
        self._reads_committed = request.isolation_level == READ_COMMITTED
        # Conditions instead of min() and max() here and in `read`: each call costs 0.06 us.
        max_bytes = request.max_bytes
        if max_bytes > broker.fetch_max_bytes:
            max_bytes = broker.fetch_max_bytes
        if context.version <= MESSAGE_SET_VERSION_MAX and max_bytes > OLD_FORMAT_BYTES_MAX:
            max_bytes = OLD_FORMAT_BYTES_MAX
        self._max_bytes = max_bytes
        self._min_bytes = request.min_bytes if request.min_bytes < max_bytes else max_bytes
        self._partitions: list[Partition] = []
        self._bytes_read = 0
        self._conversions: list[Conversion] = []
        """Slices of the last read that need down-conversion."""

    # -- reading

    def read(self) -> None:
        version = self._version
        table = self._broker.partitions
        by_id = version >= TOPIC_ID_VERSION
        remaining = self._max_bytes
        at_least_one = True
        results: list[tuple[FetchTarget, PartitionData]] = []
        partitions: list[Partition] = []
        self._must_respond = False
        self._missing = []
        self.cold_pieces = []
        self._conversions = []
        for target in self._targets:
            wanted = target.wanted
            try:
                if by_id:
                    partition = table.find_by_id(target.topic_id, wanted.partition)
                else:
                    partition = table.find(target.topic, wanted.partition)
                partitions.append(partition)
                data = self._read_partition(partition, wanted, remaining, at_least_one)
            except Refused as refusal:
                if refusal.error not in UNKNOWN:
                    self._must_respond = True
                results.append((target, self._refuse(refusal, target)))
                continue
            except ColdPages as cold:
                self._missing.append(cold.piece)  # go on with the others, to load all missing pages together
                continue
            size = len(data.records)  # type: ignore[arg-type]
            if size:
                remaining = remaining - size if size < remaining else 0
                # Before v3, each partition has its own limit, which its first batch may exceed.
                at_least_one = version < WHOLE_LIMIT_VERSION and remaining > 0
                if version <= MESSAGE_SET_VERSION_MAX:
                    piece = data.records
                    assert isinstance(piece, FileSlice)
                    self._conversions.append(Conversion(data, piece, wanted.fetch_offset))
            results.append((target, data))
        self._results = results
        self._partitions = partitions
        self._bytes_read = self._max_bytes - remaining

    def _read_partition(
        self, partition: Partition, wanted: FetchPartition, remaining: int, at_least_one: bool
    ) -> PartitionData:
        version = self._version
        offset = wanted.fetch_offset
        epoch = wanted.current_leader_epoch
        if not partition.is_leader or epoch >= 0:
            partition.check_access(
                leader_epoch=epoch
                if epoch >= 0
                else NO_LEADER_EPOCH,  # in Kafka, any negative number means none
                leader_only=version < FOLLOWER_READ_VERSION,
            )
        divergence = NO_DIVERGENCE
        preferred = LEADER
        if self._broker.selects_replicas and version >= FOLLOWER_READ_VERSION and partition.is_leader:
            preferred = self._find_replica(partition, offset)
        records: Records = NO_RECORDS
        aborted: list[Aborted] | None = [] if self._reads_committed else None
        if wanted.last_fetched_epoch >= 0:
            divergence = self._find_divergence(partition, wanted)
        if divergence is NO_DIVERGENCE and preferred == LEADER and (remaining > 0 or at_least_one):
            max_bytes = wanted.partition_max_bytes
            if max_bytes > remaining:
                max_bytes = remaining
            piece = partition.read(
                offset,
                max_bytes=max_bytes,
                at_least_one=at_least_one,
                read_committed=self._reads_committed,
                aborted=aborted,
            )
            if piece is not None and version < ZSTD_VERSION:
                self._check_codec(partition)
                if version <= MESSAGE_SET_VERSION_MAX:
                    read = partial(partition.read, max_bytes=max_bytes, at_least_one=at_least_one)
                    try:
                        piece = down_conversion.past_markers(piece, read)
                    except OSError as error:
                        partition.log.io.read_failed(error, partition.log.folder)
                        raise Refused(
                            ErrorCode.KAFKA_STORAGE_ERROR, f"{partition} cannot be read: {error}"
                        ) from error
            if piece is not None:
                records = piece
                if not piece.file.is_cached(position=piece.position, size=piece.size):
                    self.cold_pieces.append(piece)
        return PartitionData(
            partition_index=wanted.partition,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.start_offset,
            diverging_epoch=divergence,
            current_leader=NO_LEADER_HINT,
            snapshot_id=NO_SNAPSHOT,
            aborted_transactions=None
            if aborted is None
            else [_aborted_transaction(each) for each in aborted],
            preferred_read_replica=preferred,
            records=records,
        )

    def _find_replica(self, partition: Partition, offset: int) -> int:
        preferred = preferred_read_replica(
            partition,
            offset,
            rack=self._request.rack_id,
            image=self._broker.metadata.image,
            listener=self._context.listener,
        )
        if preferred != LEADER:
            self._must_respond = True
        return preferred

    def _find_divergence(self, partition: Partition, wanted: FetchPartition) -> EpochEndOffset:
        found = diverging_epoch(partition.log, wanted.last_fetched_epoch, wanted.fetch_offset)
        if found is None:
            return NO_DIVERGENCE
        self._must_respond = True
        return EpochEndOffset(epoch=found[0], end_offset=found[1])

    def _check_codec(self, partition: Partition) -> None:
        if partition.rules.compression == Compression.ZSTD:
            raise Refused(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"{partition} has compression.type=zstd, which Fetch v{self._version} does not support",
            )

    # -- responding

    def is_ready(self) -> bool:
        return (
            self._bytes_read >= self._min_bytes
            or bool(self._missing)
            or self._must_respond
            or self._request.max_wait_ms <= 0
            or not self._partitions
            or self._is_at_segment_end()
        )

    def _is_at_segment_end(self) -> bool:
        """Whether the read ended at the end of a segment: more data exists, and waiting would not return it."""
        try:
            return any(
                self._find(target).has_more_than_read(
                    target.wanted.fetch_offset, read_committed=self._reads_committed
                )
                for target, data in self._results
                if data.records
            )
        except Refused:
            return True  # its log directory failed when another partition was read; the next fetch is told

    def _find(self, target: FetchTarget) -> Partition:
        if self._version >= TOPIC_ID_VERSION:
            return self._broker.partitions.find_by_id(target.topic_id, target.wanted.partition)
        return self._broker.partitions.find(target.topic, target.wanted.partition)

    def is_slow(self) -> bool:
        """Whether the response needs work in a worker first. Small conversions are done here."""
        if self._missing or self.cold_pieces:
            return True
        if self._conversions and down_conversion.is_quick(self._conversions):
            converted = down_conversion.convert(self._conversions, magic=self._magic())
            down_conversion.fill_in(self._conversions, converted)
            self._conversions = []
        return bool(self._conversions)

    def _prepare(self) -> None:
        if self._missing or self.cold_pieces:
            super()._prepare()
            return
        self._is_preparing = True
        convert = partial(down_conversion.convert, self._conversions, magic=self._magic())
        converting = self._broker.slow_lane.run(convert, host=self._context.peer_host)
        converting.add_done_callback(self._converted)

    def _converted(self, converting: asyncio.Future[list[Converted]]) -> None:
        self._is_preparing = False
        if self._future.done():
            return
        try:
            down_conversion.fill_in(self._conversions, converting.result())
            self._future.set_result(self.respond())
        except (Exception, asyncio.CancelledError) as error:
            self._fail(error)

    def _magic(self) -> int:
        return 0 if self._version <= MESSAGE_SET_V0_VERSION_MAX else 1

    # -- waiting

    def _watch(self) -> None:
        self._wait = DelayedFetch(self._min_bytes - self._bytes_read, self._read_again)
        for partition in self._partitions:
            partition.purgatory.add_fetch(self._wait, read_committed=self._reads_committed)

    def _unwatch(self) -> None:
        if self._wait is not None:
            for partition in self._partitions:
                partition.purgatory.remove_fetch(self._wait)


def _aborted_transaction(transaction: Aborted) -> AbortedTransaction:
    return AbortedTransaction(producer_id=transaction.producer_id, first_offset=transaction.first_offset)
