"""Fetch (key 1): read batches of records from partitions. Served: v0 to v18.

v0 and v1 are given message sets v0, v2 and v3 message sets v1 (`broker.old_formats`). v3 adds a limit on the
whole answer. v4 adds isolation levels: a reader of committed data gets nothing past the last stable offset, and
is told which transactions in what it gets were aborted. v7 adds sessions (`broker.fetch_session`). v9 fences by
leader epoch. v11 lets consumers read from followers. v12 finds diverging logs. v13 names topics by id. v16 tells
who leads.

Records are slices of segment files and never pass through this process. A request that finds fewer than
`min_bytes` waits, at most `max_wait_ms`, for appends to its partitions; all others are answered at once, by a
plain function: this is the hot path (bench/micro/broker.py).
"""

from __future__ import annotations

import asyncio
from functools import partial

from penstock.broker import old_formats
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.endpoints import alive_endpoint, current_leader
from penstock.broker.fetch_session import FetchPlan, FetchTarget
from penstock.broker.old_formats import OLD_FORMAT_BYTES_MAX, Conversion, Converted
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from penstock.protocol.types import Records
from penstock.records.batch import Compression
from penstock.replication.delayed import FetchWait
from penstock.replication.partition import Partition
from penstock.runtime.network import FileSlice
from penstock.storage.pages import ColdPages, PageLoader
from penstock.storage.transactions.aborted import AbortedTransaction as Aborted

MESSAGE_SET_V0_VERSION_MAX = 1
MESSAGE_SET_VERSION_MAX = 3
WHOLE_LIMIT_VERSION = 3  # KIP-74: from here on only the first batch of an answer may pass the limits
STORAGE_ERROR_VERSION = 6  # before, clients do not know KAFKA_STORAGE_ERROR and would not try again
ZSTD_VERSION = 10  # KIP-110
FOLLOWER_READ_VERSION = 11  # KIP-392
TOPIC_ID_VERSION = 13
REPLICA_STATE_VERSION = 15
LEADER_HINT_VERSION = 16

READ_COMMITTED = 1
NO_EPOCH = -1
UNKNOWN_OFFSET = -1
NO_RECORDS = b""

# Errors that say nothing about the log: they do not end the wait for the partitions that are there.
UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

# Defaults of every answer, shared because nobody changes them: making them anew costs 0.4 us a partition.
NO_DIVERGENCE = EpochEndOffset()
NO_LEADER_HINT = LeaderIdAndEpoch()
NO_SNAPSHOT = SnapshotId()


def handle(
    broker: Broker, request: FetchRequest, context: RequestContext
) -> FetchResponse | asyncio.Future[FetchResponse]:
    version = context.version
    replica_id = request.replica_id if version < REPLICA_STATE_VERSION else request.replica_state.replica_id
    plan = broker.fetch_sessions.plan(
        request,
        uses_topic_ids=version >= TOPIC_ID_VERSION,
        is_follower=replica_id >= 0,
        now_ms=broker.runtime.clock.wall_ms(),
    )
    if plan.error != ErrorCode.NONE:
        return FetchResponse(error_code=plan.error, responses=[])
    fetch = Fetch(broker, request, context, plan, replica_id)
    fetch.read()
    if not fetch.is_ready():
        answer = fetch.wait()
    elif fetch.is_slow():
        answer = fetch.answer_later()
    else:
        return fetch.answer()
    if version <= MESSAGE_SET_VERSION_MAX and context.connection is not None:
        context.connection.hold(answer)  # so that only one answer of a size that matters is in memory
    return answer


class Fetch:
    """One request under way: read, and read again for as long as it waits."""

    __slots__ = (
        "_broker",
        "_bytes_read",
        "_context",
        "_conversions",
        "_future",
        "_has_news",
        "_is_preparing",
        "_is_time_up",
        "_loader",
        "_max_bytes",
        "_min_bytes",
        "_missing",
        "_partitions",
        "_plan",
        "_reads_committed",
        "_replica_id",
        "_request",
        "_results",
        "_timer",
        "_version",
        "_wait",
        "cold_pieces",
    )

    def __init__(
        self, broker: Broker, request: FetchRequest, context: RequestContext, plan: FetchPlan, replica_id: int
    ) -> None:
        self._broker = broker
        self._request = request
        self._context = context
        self._version = context.version
        self._plan = plan
        self._replica_id = replica_id
        self._reads_committed = request.isolation_level == READ_COMMITTED and replica_id < 0
        # Conditions and no min() or max() here and in `read`: each of those costs 0.06 us.
        max_bytes = request.max_bytes
        if max_bytes > broker.fetch_max_bytes:
            max_bytes = broker.fetch_max_bytes
        if context.version <= MESSAGE_SET_VERSION_MAX and max_bytes > OLD_FORMAT_BYTES_MAX:
            max_bytes = OLD_FORMAT_BYTES_MAX
        self._max_bytes = max_bytes
        self._min_bytes = request.min_bytes if request.min_bytes < max_bytes else max_bytes
        self._results: list[tuple[FetchTarget, PartitionData]] = []
        self._partitions: list[Partition] = []
        self._bytes_read = 0
        self._has_news = False
        self._is_time_up = False
        self._is_preparing = False
        self._wait: FetchWait | None = None
        self._loader: PageLoader | None = None
        self._missing: list[FileSlice] = []
        """What has to be in memory before all partitions can be read."""
        self.cold_pieces: list[FileSlice] = []
        """Of what was read last, the slices that would make sending them wait for a disk."""
        self._conversions: list[Conversion] = []
        """Of what was read last, the slices that the reader does not understand as they are."""

    # -- reading

    def read(self) -> None:
        """Read every partition of the plan, in order, until the answer is full."""
        version = self._version
        table = self._broker.partitions
        by_id = version >= TOPIC_ID_VERSION
        remaining = self._max_bytes
        at_least_one = True
        results: list[tuple[FetchTarget, PartitionData]] = []
        partitions: list[Partition] = []
        self._has_news = False
        self._missing = []
        self.cold_pieces = []
        self._conversions = []
        for target in self._plan.targets:
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
                    self._has_news = True
                results.append((target, self._refuse(refusal, target)))
                continue
            except ColdPages as cold:
                self._missing.append(cold.piece)  # the others may miss some, too: all are loaded together
                continue
            size = len(data.records)  # type: ignore[arg-type]
            if size:
                remaining = remaining - size if size < remaining else 0
                # Before v3 each partition has its own limit, and its first batch may pass it.
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
        is_follower = self._replica_id >= 0
        offset = wanted.fetch_offset
        epoch = wanted.current_leader_epoch
        if not partition.is_leader or epoch >= 0:
            partition.check_access(
                leader_epoch=epoch if epoch >= 0 else NO_EPOCH,  # Kafka takes any negative number for none
                leader_only=is_follower or version < FOLLOWER_READ_VERSION,
            )
        divergence = NO_DIVERGENCE
        records: Records = NO_RECORDS
        aborted: list[Aborted] | None = [] if self._reads_committed else None
        if wanted.last_fetched_epoch >= 0:
            divergence = self._find_divergence(partition, wanted)
        if divergence is NO_DIVERGENCE and (remaining > 0 or at_least_one or is_follower):
            max_bytes = wanted.partition_max_bytes
            if max_bytes > remaining:
                max_bytes = remaining
            piece = partition.read(
                offset,
                max_bytes=max_bytes,
                at_least_one=at_least_one,
                for_replica=is_follower,
                read_committed=self._reads_committed,
                aborted=aborted,
            )
            if piece is not None and version < ZSTD_VERSION:
                self._check_codec(partition)
                if version <= MESSAGE_SET_VERSION_MAX:
                    read = partial(partition.read, max_bytes=max_bytes, at_least_one=at_least_one)
                    try:
                        piece = old_formats.past_markers(piece, read)
                    except OSError as error:
                        partition.log.volume.read_failed(error, partition.log.folder)
                        raise Refused(
                            ErrorCode.KAFKA_STORAGE_ERROR, f"{partition} cannot be read: {error}"
                        ) from error
            if piece is not None:
                records = piece
                if not piece.file.is_cached(position=piece.position, size=piece.size):
                    self.cold_pieces.append(piece)
            if is_follower and self._wait is None:
                # Only after the read: an offset that the log does not have must not count as copied.
                self._note_follower(partition, wanted)
        return PartitionData(
            partition_index=wanted.partition,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.start_offset,
            diverging_epoch=divergence,
            current_leader=NO_LEADER_HINT,
            snapshot_id=NO_SNAPSHOT,
            aborted_transactions=None if aborted is None else [_tell_aborted(each) for each in aborted],
            records=records,
        )

    def _note_follower(self, partition: Partition, wanted: FetchPartition) -> None:
        partition.follower_fetched(
            self._replica_id,
            end_offset=wanted.fetch_offset,
            start_offset=wanted.log_start_offset,
            leader_epoch=wanted.current_leader_epoch,
            now_ms=self._broker.runtime.clock.wall_ms(),
        )

    def _find_divergence(self, partition: Partition, wanted: FetchPartition) -> EpochEndOffset:
        found = partition.diverging_epoch(wanted.last_fetched_epoch, wanted.fetch_offset)
        if found is None:
            return NO_DIVERGENCE
        self._has_news = True
        return EpochEndOffset(epoch=found[0], end_offset=found[1])

    def _check_codec(self, partition: Partition) -> None:
        if partition.rules.compression == Compression.ZSTD:
            raise Refused(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"{partition} has compression.type=zstd, which Fetch v{self._version} does not support",
            )

    def _refuse(self, refusal: Refused, target: FetchTarget) -> PartitionData:
        error = refusal.error
        if error == ErrorCode.KAFKA_STORAGE_ERROR and self._version < STORAGE_ERROR_VERSION:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return PartitionData(
            partition_index=target.wanted.partition,
            error_code=error,
            high_watermark=UNKNOWN_OFFSET,
            aborted_transactions=[] if error in UNKNOWN else None,  # as Kafka has it
            records=NO_RECORDS,
        )

    # -- answering

    def is_ready(self) -> bool:
        """Whether to answer now: with enough bytes, with news that is not bytes, or with nothing to wait for."""
        return (
            self._bytes_read >= self._min_bytes
            or bool(self._missing)
            or self._has_news
            or self._request.max_wait_ms <= 0
            or not self._partitions
            or self._is_at_a_seam()
        )

    def _is_at_a_seam(self) -> bool:
        """Whether the bytes are few only because a segment ended: more follow, and waiting would not bring them."""
        return any(
            self._find(target).has_more_than_read(
                target.wanted.fetch_offset, read_committed=self._reads_committed
            )
            for target, data in self._results
            if data.records
        )

    def _find(self, target: FetchTarget) -> Partition:
        if self._version >= TOPIC_ID_VERSION:
            return self._broker.partitions.find_by_id(target.topic_id, target.wanted.partition)
        return self._broker.partitions.find(target.topic, target.wanted.partition)

    def answer(self) -> FetchResponse:
        error, session_id, results = self._plan.settle(self._results, self._broker.runtime.clock.wall_ms())
        response = FetchResponse(error_code=error, session_id=session_id, responses=[])
        last: FetchTarget | None = None
        for target, data in results:
            if last is None or target.topic != last.topic or target.topic_id != last.topic_id:
                response.responses.append(
                    FetchableTopicResponse(topic=target.topic, topic_id=target.topic_id, partitions=[])
                )
                last = target
            response.responses[-1].partitions.append(data)
            if data.error_code != ErrorCode.NONE and self._version >= LEADER_HINT_VERSION:
                self._show_leader(response, target, data)
        return response

    def _show_leader(self, response: FetchResponse, target: FetchTarget, data: PartitionData) -> None:
        """Tell who leads, and where that is, so that the client need not ask for metadata first (KIP-951)."""
        if data.error_code not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            return
        image = self._broker.metadata.image
        name = image.topics.names_by_id.get(target.topic_id, target.topic)
        leader, epoch = current_leader(image, name, data.partition_index)
        data.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
        found = alive_endpoint(image, leader, self._context.listener)
        if found is not None and all(known.node_id != leader for known in response.node_endpoints):
            node, endpoint = found
            response.node_endpoints.append(
                NodeEndpoint(node_id=leader, host=endpoint.host, port=endpoint.port, rack=node.rack)
            )

    def is_slow(self) -> bool:
        """Whether something has to be done in a worker before this can be answered; little things are done now."""
        if self._missing or self.cold_pieces:
            return True
        if self._conversions and old_formats.is_quick(self._conversions):
            converted = old_formats.convert(self._conversions, magic=self._magic())
            old_formats.fill_in(self._conversions, converted)
            self._conversions = []
        return bool(self._conversions)

    def answer_later(self) -> asyncio.Future[FetchResponse]:
        """Answer when what this needs is in memory and in the format that the reader understands."""
        self._begin()
        self._prepare()
        return self._future

    def _prepare(self) -> None:
        self._is_preparing = True
        if self._missing or self.cold_pieces:
            if self._loader is None:
                self._loader = PageLoader(self._broker.runtime.workers)
            self._loader.load(self._missing + self.cold_pieces, self._loaded)
        else:
            convert = partial(old_formats.convert, self._conversions, magic=self._magic())
            converting = self._broker.slow_lane.run(convert, host=self._context.peer_host)
            converting.add_done_callback(self._converted)

    def _loaded(self, error: BaseException | None) -> None:
        self._is_preparing = False
        if self._future.done():
            return
        if error is not None and not isinstance(error, OSError):
            self._fail(error)
            return
        try:
            self.cold_pieces = []
            if error is not None or self._missing:
                assert self._loader is not None
                self._loader.run(self.read)
            self._go_on()
        except Exception as failure:
            self._fail(failure)

    def _converted(self, converting: asyncio.Future[list[Converted]]) -> None:
        self._is_preparing = False
        if self._future.done():
            return
        try:
            old_formats.fill_in(self._conversions, converting.result())
            self._future.set_result(self.answer())
        except (Exception, asyncio.CancelledError) as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """End the request from a callback, whose exception nobody else hears of; CancelledError when the node stops."""
        if isinstance(error, asyncio.CancelledError):
            self._future.cancel()
        else:
            self._future.set_exception(error)

    def _magic(self) -> int:
        return 0 if self._version <= MESSAGE_SET_V0_VERSION_MAX else 1

    # -- waiting

    def wait(self) -> asyncio.Future[FetchResponse]:
        self._begin()
        self._watch()
        return self._future

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._future: asyncio.Future[FetchResponse] = loop.create_future()
        self._future.add_done_callback(self._leave)
        self._timer = loop.call_later(self._request.max_wait_ms / 1000, self._end_wait)

    def _watch(self) -> None:
        self._wait = FetchWait(self._min_bytes - self._bytes_read, self._look_again)
        for partition in self._partitions:
            partition.add_fetch_wait(
                self._wait, for_replica=self._replica_id >= 0, read_committed=self._reads_committed
            )

    def _unwatch(self) -> None:
        if self._wait is not None:
            for partition in self._partitions:
                partition.discard_fetch_wait(self._wait)

    def _end_wait(self) -> None:
        self._is_time_up = True  # and not by the clock, which may say a moment less when the timer fires
        self._look_again()

    def _look_again(self) -> None:
        """Bytes came, or something happened to a partition, or time is up."""
        if self._future.done() or self._is_preparing:
            return
        self._unwatch()
        try:
            self.read()
            self._go_on()
        except Exception as error:
            self._fail(error)

    def _go_on(self) -> None:
        """After a read: wait for more, prepare what was read, or answer."""
        if not self.is_ready() and not self._is_time_up:
            self._watch()
        elif self.is_slow():
            self._prepare()
        else:
            self._future.set_result(self.answer())

    def _leave(self, _: asyncio.Future[FetchResponse]) -> None:
        """Answered, or the connection is gone: leave nothing behind."""
        self._timer.cancel()
        self._unwatch()


def _tell_aborted(transaction: Aborted) -> AbortedTransaction:
    return AbortedTransaction(producer_id=transaction.producer_id, first_offset=transaction.first_offset)
