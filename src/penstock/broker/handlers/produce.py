"""Produce (key 0): append batches of records to partitions. Served: v0 to v13.

v0 and v1 contain message sets v0, v2 message sets v1; both are stored as v2 batches. v3 adds v2 batches and
transactions. v7 allows zstd. v8 reports the records that make a batch invalid. v10 returns the current leader to a
client that used the wrong one. From v12 on, a write adds its partition to the transaction. v13 uses topic ids.

With acks=0 there is no response, and an error closes the connection, which is all that such a client can notice. With
acks=1 the response is sent when the leader has written the records (and flushed them, if the topic requires it), with
acks=-1 when all in-sync replicas have. Requests that need not wait get their response at once, from a plain function:
this is the hot path (bench/micro/broker.py). Records that are expensive to validate, because they are much larger when
decompressed or must be recompressed, are validated in the slow lane first. Their connection is held meanwhile, so that
later requests do not overtake them. The same holds for requests that wait for the transaction coordinator
(`broker.transactional_produce`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial

from penstock.broker.broker import Broker
from penstock.broker.context import CloseConnection, RequestContext
from penstock.broker.endpoints import alive_endpoint, current_leader
from penstock.broker.transactional_produce import TOPIC_ID_VERSION, Verification, verify
from penstock.metadata.errors import Refused
from penstock.metadata.image import MetadataImage
from penstock.net.connection import Connection
from penstock.protocol.constants import ACKS_ALL, UNKNOWN_OFFSET
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from penstock.records.batch import (
    ATTRIBUTES_AT,
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL_MASK,
    BatchHeader,
)
from penstock.replication.partition import NeedsPages, Partition
from penstock.replication.purgatory import DelayedOperation
from penstock.replication.validation import Effort, RecordsRefused, TakesLong, validate
from penstock.runtime.network import FileSlice
from penstock.storage.pages import ColdPages, PageLoader
from penstock.storage.transactions.guards import VerificationGuard

STORAGE_ERROR_VERSION = 4  # older clients do not know KAFKA_STORAGE_ERROR and would not retry
LEADER_HINT_VERSION = 10
Admitted = tuple[memoryview, list[BatchHeader]]
LOW_ATTRIBUTES_AT = ATTRIBUTES_AT + 1  # of two bytes
ADMIN_CLIENT_ID = "__admin_client"  # Kafka's name of the only client that may write to internal topics


def handle(
    broker: Broker, request: ProduceRequest, context: RequestContext
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    if request.transactional_id is None:
        return _append(broker, request, context, None)
    try:
        verification = verify(broker, request, context.version)
    except Refused as refusal:
        return _refuse_all(request, refusal)
    if isinstance(verification, Verification):
        return _append(broker, request, context, verification)
    return _append_later(broker, request, context, verification)


def _append_later(
    broker: Broker,
    request: ProduceRequest,
    context: RequestContext,
    verification: asyncio.Future[Verification],
) -> Awaitable[ProduceResponse | None]:
    """Append when the verification is done. The buffer of the request is reused by then, so the records are copied."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if isinstance(data.records, memoryview):
                data.records = memoryview(bytearray(data.records))
    appended: asyncio.Future[ProduceResponse | None] = asyncio.get_running_loop().create_future()

    def append(known: asyncio.Future[Verification]) -> None:
        """Runs in the same turn of the loop that releases the connection, so that no other request comes between."""
        if appended.done():  # the client disconnected
            return
        if known.cancelled():  # the node stops
            appended.cancel()
            return
        try:
            response = _append(broker, request, context, known.result())
        except Exception as error:
            appended.set_exception(error)
            return
        if isinstance(response, asyncio.Future):
            response.add_done_callback(pass_on)
            appended.add_done_callback(lambda _: response.cancel())  # no effect if it is done
        else:
            appended.set_result(response)

    def pass_on(response: asyncio.Future[ProduceResponse]) -> None:
        if appended.done():
            return
        if response.cancelled():
            appended.cancel()
            return
        error = response.exception()
        if error is None:
            appended.set_result(response.result())
        else:
            appended.set_exception(error)

    verification.add_done_callback(append)
    if context.connection is not None:
        context.connection.hold(verification)
    return appended


def _append(
    broker: Broker, request: ProduceRequest, context: RequestContext, verification: Verification | None
) -> ProduceResponse | asyncio.Future[ProduceResponse] | None:
    acks = request.acks
    version = context.version
    table = broker.partitions
    now_ms = broker.runtime.clock.wall_ms()
    response = ProduceResponse(responses=[])
    waiting: PendingProduce | None = None
    refusal: Refused | None = None
    effort = Effort()
    for topic in request.topic_data:
        results: list[PartitionProduceResponse] = []
        for data in topic.partition_data:
            index = data.index
            try:
                if version >= TOPIC_ID_VERSION:
                    partition = table.find_by_id(topic.topic_id, index)
                else:
                    partition = table.find(topic.name, index)
                if partition.is_internal or acks not in (1, -1, 0):
                    _check_request(partition, acks, context)
                records = data.records
                if not isinstance(records, memoryview):
                    raise Refused(ErrorCode.INVALID_RECORD, f"the request has no records for {partition}")
                guard = None
                if verification is not None:
                    guard = verification.guard_for(partition)
                elif (
                    len(records) >= HEADER_BYTES
                    and records[LOW_ATTRIBUTES_AT] & TRANSACTIONAL_MASK
                    and records[MAGIC_AT] == MAGIC  # message sets have other fields there
                ):
                    raise Refused(
                        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                        f"the request has transactional records for {partition}, but no transactional id",
                    )
                info = partition.append_as_leader(
                    records, acks=acks, now_ms=now_ms, request_version=version, effort=effort, guard=guard
                )
            except Refused as refused:
                refusal = refused
                result = PartitionProduceResponse(index=index, base_offset=UNKNOWN_OFFSET)
                _refuse(result, refused, topic, response, broker.metadata.image, context)
                results.append(result)
                continue
            except (TakesLong, NeedsPages) as reason:
                assert isinstance(records, memoryview)
                waiting = waiting or PendingProduce(response)
                slow = SlowAppend(
                    broker, partition, topic, waiting, context, acks=acks, now_ms=now_ms, guard=guard
                )
                if isinstance(reason, NeedsPages):
                    results.append(slow.start_loading(reason))
                else:
                    results.append(slow.start(records))
                continue
            result = PartitionProduceResponse(
                index=index,
                base_offset=info.first_offset,
                log_append_time_ms=info.append_time_ms,
                log_start_offset=info.log_start_offset,
            )
            results.append(result)
            if info.last_offset >= partition.high_watermark and acks != 0:
                waiting = waiting or PendingProduce(response)
                waiting.add(partition, result, end_offset=info.last_offset + 1, acks=acks)
        response.responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=results)
        )
    if acks == 0:
        if refusal is not None:
            raise CloseConnection(f"a produce with acks=0 failed: {refusal}")
        return None
    if waiting is not None and waiting.is_incomplete:
        return waiting.start(request.timeout_ms)
    return response


class SlowAppend:
    """An append that must wait: for validation in the slow lane, or for pages that the log must read first. Later
    requests of the connection wait meanwhile, so that the order of a producer is kept."""

    def __init__(
        self,
        broker: Broker,
        partition: Partition,
        topic: TopicProduceData,
        pending: PendingProduce,
        context: RequestContext,
        *,
        acks: int,
        now_ms: int,
        guard: VerificationGuard | None,
    ) -> None:
        self._broker = broker
        self._partition = partition
        self._topic = topic
        self._pending = pending
        self._context = context
        self._acks = acks
        self._now_ms = now_ms
        self._guard = guard
        self._loader = PageLoader(broker.runtime.workers)
        self._result = PartitionProduceResponse(
            index=partition.index,
            base_offset=UNKNOWN_OFFSET,
            error_code=ErrorCode.REQUEST_TIMED_OUT,  # until it is acknowledged
        )

    def start(self, records: memoryview) -> PartitionProduceResponse:
        """Validate a copy of `records` in a worker. The buffer of the request is only valid until this returns."""
        work = partial(
            validate,
            memoryview(bytearray(records)),
            self._partition.rules,
            request_version=self._context.version,
            now_ms=self._now_ms,
        )
        self._pending.begin_append(self._context.connection)
        admitted = self._broker.slow_lane.run(work, host=self._context.peer_host)
        admitted.add_done_callback(self._append)
        return self._result

    def start_loading(self, needed: NeedsPages) -> PartitionProduceResponse:
        """Load the pages that the log needs for validated batches. The batches are copied, for the same reason."""
        self._pending.begin_append(self._context.connection)
        admitted: asyncio.Future[Admitted] = asyncio.get_running_loop().create_future()
        admitted.set_result((memoryview(bytearray(needed.batches)), needed.headers))
        self._load(needed.piece, admitted)
        return self._result

    def _load(self, piece: FileSlice, admitted: asyncio.Future[Admitted]) -> None:
        def loaded(error: BaseException | None) -> None:
            if error is None or isinstance(error, OSError):
                self._append(admitted)
            else:
                self._pending.fail(error)
                self._pending.end_append()

        self._loader.load([piece], loaded)

    def _append(self, admitted: asyncio.Future[Admitted]) -> None:
        partition, result = self._partition, self._result
        try:
            batches, headers = admitted.result()
            info = self._loader.run(
                lambda: partition.append_validated(
                    batches, headers, acks=self._acks, now_ms=self._now_ms, guard=self._guard
                )
            )
        except ColdPages as cold:
            self._load(cold.piece, admitted)
            return
        except Refused as refused:
            image = self._broker.metadata.image
            _refuse(result, refused, self._topic, self._pending.response, image, self._context)
            if self._acks == 0 and self._context.connection is not None:
                self._context.connection.close()
        except (Exception, asyncio.CancelledError) as error:  # report it to the request
            self._pending.fail(error)
        else:
            result.error_code = ErrorCode.NONE
            result.base_offset = info.first_offset
            result.log_append_time_ms = info.append_time_ms
            result.log_start_offset = info.log_start_offset
            if info.last_offset >= partition.high_watermark and self._acks != 0:
                self._pending.add(partition, result, end_offset=info.last_offset + 1, acks=self._acks)
        self._pending.end_append()


class PendingProduce:
    """A response that waits until all of its appends are acknowledged, or for its timeout."""

    __slots__ = ("_append_count", "_appended", "_outstanding", "_timer", "_waits", "future", "response")

    def __init__(self, response: ProduceResponse) -> None:
        self.future: asyncio.Future[ProduceResponse] = asyncio.get_running_loop().create_future()
        self.response = response
        self._outstanding = 0
        self._append_count = 0
        self._appended: asyncio.Future[None] | None = None
        """Done when every slow append is done. The connection is held until then."""
        self._timer: asyncio.TimerHandle | None = None
        self._waits: list[DelayedOperation] = []

    @property
    def is_incomplete(self) -> bool:
        return self._outstanding > 0

    def add(
        self, partition: Partition, result: PartitionProduceResponse, *, end_offset: int, acks: int
    ) -> None:
        """Wait for the acknowledgement of one append, unless the response was already sent."""
        if self.future.done():
            return

        def acknowledge(error: ErrorCode) -> None:
            result.error_code = (
                partition.commit_error() if error == ErrorCode.NONE and acks == ACKS_ALL else error
            )
            self.end()

        wait = partition.wait_for_acknowledgement(
            end_offset, acks=acks, on_complete=acknowledge, for_producer=True
        )
        if wait is not None:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT  # until it is acknowledged
            self._waits.append(wait)
            self.begin()

    def begin_append(self, connection: Connection | None) -> None:
        """An append must wait, and with it all later requests of its connection."""
        self._append_count += 1
        if self._appended is None:
            self._appended = asyncio.get_running_loop().create_future()
            if connection is not None:
                connection.hold(self._appended)
        self.begin()

    def end_append(self) -> None:
        self._append_count -= 1
        if self._append_count == 0 and self._appended is not None:
            if not self._appended.done():
                self._appended.set_result(None)
            self._appended = None
        self.end()

    def begin(self) -> None:
        """One more append or acknowledgement is outstanding."""
        self._outstanding += 1

    def end(self) -> None:
        """One append or acknowledgement is done. After the last one, send the response.

        But not before `start`: if a log directory fails while one partition of the request is appended, waits for its
        other partitions end at once, and the rest of the request is still to be appended.
        """
        self._outstanding -= 1
        if self._outstanding == 0 and self._timer is not None:
            self._finish()

    def fail(self, error: BaseException) -> None:
        """Fail with an unexpected error, or with `CancelledError` when the node stops."""
        if isinstance(error, asyncio.CancelledError):
            self.future.cancel()
        elif not self.future.done():
            self.future.set_exception(error)

    def start(self, timeout_ms: int) -> asyncio.Future[ProduceResponse]:
        self._timer = asyncio.get_running_loop().call_later(max(timeout_ms, 0) / 1000, self._finish)
        self.future.add_done_callback(self._clean_up)
        return self.future

    def _finish(self) -> None:
        if not self.future.done():  # the client may have disconnected
            self.future.set_result(self.response)

    def _clean_up(self, _: asyncio.Future[ProduceResponse]) -> None:
        """Responded, timed out or disconnected: remove the timer and the waits."""
        if self._timer is not None:
            self._timer.cancel()
        for wait in self._waits:
            wait.cancel()


def _refuse_all(request: ProduceRequest, refusal: Refused) -> ProduceResponse:
    if request.acks == 0:
        raise CloseConnection(f"a produce with acks=0 failed: {refusal}")
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=data.index, base_offset=UNKNOWN_OFFSET, error_code=refusal.error
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _check_request(partition: Partition, acks: int, context: RequestContext) -> None:
    if acks not in (1, -1, 0):
        raise Refused(ErrorCode.INVALID_REQUIRED_ACKS, f"invalid acks={acks}; it must be 0, 1 or -1 (all)")
    if partition.is_internal and context.client_id != ADMIN_CLIENT_ID:
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"clients cannot produce to the internal topic {partition.topic}",
        )


def _refuse(
    result: PartitionProduceResponse,
    refusal: Refused,
    topic: TopicProduceData,
    response: ProduceResponse,
    image: MetadataImage,
    context: RequestContext,
) -> None:
    error = refusal.error
    if error == ErrorCode.KAFKA_STORAGE_ERROR and context.version < STORAGE_ERROR_VERSION:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    result.error_code, result.error_message = error, refusal.message
    if isinstance(refusal, RecordsRefused):
        result.record_errors = [
            BatchIndexAndErrorMessage(batch_index=fault.record_index, batch_index_error_message=fault.message)
            for fault in refusal.faults
        ]
    if error == ErrorCode.NOT_LEADER_OR_FOLLOWER and context.version >= LEADER_HINT_VERSION:
        name = image.topics.names_by_id.get(topic.topic_id, topic.name)
        _add_leader(result, response, image, name, context.listener)


def _add_leader(
    result: PartitionProduceResponse,
    response: ProduceResponse,
    image: MetadataImage,
    topic: str,
    listener: str,
) -> None:
    """Add the current leader and its endpoint, so that the client needs no metadata request (KIP-951)."""
    leader, epoch = current_leader(image, topic, result.index)
    result.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    found = alive_endpoint(image, leader, listener)
    if found is not None and all(known.node_id != leader for known in response.node_endpoints):
        node, endpoint = found
        response.node_endpoints.append(
            NodeEndpoint(node_id=leader, host=endpoint.host, port=endpoint.port, rack=node.rack)
        )
