"""Produce (key 0): append batches of records to partitions. Served: v0 to v13.

v0 and v1 carry message sets v0, v2 message set v1; both are stored as v2 batches. v3 brings v2 batches and
transactions. v7 allows zstd. v8 names the records that spoilt a batch. v10 tells a client that asked the wrong node
which one leads. From v12 on partitions come into a transaction by being written to. v13 names topics by id.

With acks=0 there is no answer, and an error closes the connection, because that is all that such a client can
notice. With acks=1 the answer comes when the leader has written (and flushed, where the topic asks for it),
with acks=-1 when all replicas in sync have. Requests that need not wait are answered at once, by a plain
function: this is the hot path (bench/micro/broker.py). Only records that take long to look at, because they are
much larger than what was sent or have to be compressed anew, are looked at in the slow lane first; their
connection is held meanwhile, so that nothing overtakes them. So it is where a transaction's coordinator has to be
waited for (`broker.transactional_produce`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial

from penstock.broker.broker import Broker
from penstock.broker.context import CloseConnection, RequestContext
from penstock.broker.endpoints import alive_endpoint, current_leader
from penstock.broker.transactional_produce import Verdict, verify
from penstock.metadata.errors import Refused
from penstock.metadata.image import MetadataImage
from penstock.net.connection import Connection
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
from penstock.replication.delayed import OffsetWait
from penstock.replication.partition import NeedsPages, Partition
from penstock.replication.validation import Effort, RecordsRefused, TakesLong, admit
from penstock.runtime.network import FileSlice
from penstock.storage.pages import ColdPages, PageLoader
from penstock.storage.transactions.guards import VerificationGuard

STORAGE_ERROR_VERSION = 4  # before, clients do not know KAFKA_STORAGE_ERROR and would not try again
LEADER_HINT_VERSION = 10
TOPIC_ID_VERSION = 13
NO_OFFSET = -1
Admitted = tuple[memoryview, list[BatchHeader]]
LOW_ATTRIBUTES_AT = ATTRIBUTES_AT + 1  # of two bytes
ADMIN_CLIENT_ID = "__admin_client"  # the only client that may write to internal topics; the name is Kafka's


def handle(
    broker: Broker, request: ProduceRequest, context: RequestContext
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    if request.transactional_id is None:
        return _append(broker, request, context, None)
    try:
        verdict = verify(broker, request, context.version)
    except Refused as refusal:
        return _refuse_all(request, refusal)
    if isinstance(verdict, Verdict):
        return _append(broker, request, context, verdict)
    return _append_later(broker, request, context, verdict)


def _append_later(
    broker: Broker, request: ProduceRequest, context: RequestContext, verdict: asyncio.Future[Verdict]
) -> Awaitable[ProduceResponse | None]:
    """Append when the verdict is known. What was sent is gone by then, so it is copied."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if isinstance(data.records, memoryview):
                data.records = memoryview(bytearray(data.records))
    appended: asyncio.Future[ProduceResponse | None] = asyncio.get_running_loop().create_future()

    def append(known: asyncio.Future[Verdict]) -> None:
        """In the same turn in which the connection is let go: nothing comes between."""
        if appended.done():  # the peer is gone
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
            appended.add_done_callback(lambda _: response.cancel())  # of no effect if it is answered
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

    verdict.add_done_callback(append)
    if context.connection is not None:
        context.connection.hold(verdict)
    return appended


def _append(
    broker: Broker, request: ProduceRequest, context: RequestContext, verdict: Verdict | None
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
        answers: list[PartitionProduceResponse] = []
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
                    raise Refused(
                        ErrorCode.INVALID_RECORD, f"the produce request has no records for {partition}"
                    )
                guard = None
                if verdict is not None:
                    guard = verdict.guard_for(partition)
                elif (
                    len(records) >= HEADER_BYTES
                    and records[LOW_ATTRIBUTES_AT] & TRANSACTIONAL_MASK
                    and records[MAGIC_AT] == MAGIC  # message sets have keys and times there
                ):
                    raise Refused(
                        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                        f"transactional records for {partition} came without a transactional id",
                    )
                info = partition.append_as_leader(
                    records, acks=acks, now_ms=now_ms, request_version=version, effort=effort, guard=guard
                )
            except Refused as refused:
                refusal = refused
                answer = PartitionProduceResponse(index=index, base_offset=NO_OFFSET)
                _refuse(answer, refused, topic, response, broker.metadata.image, context)
                answers.append(answer)
                continue
            except (TakesLong, NeedsPages) as reason:
                assert isinstance(records, memoryview)
                waiting = waiting or PendingProduce(response)
                slow = SlowAppend(
                    broker, partition, topic, waiting, context, acks=acks, now_ms=now_ms, guard=guard
                )
                if isinstance(reason, NeedsPages):
                    answers.append(slow.start_loading(reason))
                else:
                    answers.append(slow.start(records))
                continue
            answer = PartitionProduceResponse(
                index=index,
                base_offset=info.first_offset,
                log_append_time_ms=info.append_time_ms,
                log_start_offset=info.log_start_offset,
            )
            answers.append(answer)
            if info.last_offset >= partition.high_watermark and acks != 0:
                waiting = waiting or PendingProduce(response)
                waiting.add(partition, answer, end_offset=info.last_offset + 1, acks=acks)
        response.responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
    if acks == 0:
        if refusal is not None:
            raise CloseConnection(f"a produce with acks=0 failed: {refusal}")
        return None
    if waiting is not None and waiting.is_incomplete:
        return waiting.start(request.timeout_ms)
    return response


class SlowAppend:
    """One partition's records on their way into the log: checked in the slow lane, and held until what the log must
    read for them is in memory. The connection's next requests wait meanwhile, so that a producer's order is kept."""

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
        self._answer = PartitionProduceResponse(
            index=partition.index,
            base_offset=NO_OFFSET,
            error_code=ErrorCode.REQUEST_TIMED_OUT,  # unless it is acknowledged in time
        )

    def start(self, records: memoryview) -> PartitionProduceResponse:
        """Have a worker look at a copy of `records`, which are gone when this request yields."""
        work = partial(
            admit,
            memoryview(bytearray(records)),
            self._partition.rules,
            request_version=self._context.version,
            now_ms=self._now_ms,
        )
        self._pending.begin_append(self._context.connection)
        admitted = self._broker.slow_lane.run(work, host=self._context.peer_host)
        admitted.add_done_callback(self._append)
        return self._answer

    def start_loading(self, needed: NeedsPages) -> PartitionProduceResponse:
        """Have a worker load what the log needs for batches that were admitted; they are gone when this yields."""
        self._pending.begin_append(self._context.connection)
        admitted: asyncio.Future[Admitted] = asyncio.get_running_loop().create_future()
        admitted.set_result((memoryview(bytearray(needed.batches)), needed.headers))
        self._load(needed.piece, admitted)
        return self._answer

    def _load(self, piece: FileSlice, admitted: asyncio.Future[Admitted]) -> None:
        def loaded(error: BaseException | None) -> None:
            if error is None or isinstance(error, OSError):
                self._append(admitted)
            else:
                self._pending.fail(error)
                self._pending.end_append()

        self._loader.load([piece], loaded)

    def _append(self, admitted: asyncio.Future[Admitted]) -> None:
        partition, answer = self._partition, self._answer
        try:
            batches, headers = admitted.result()
            info = self._loader.run(
                lambda: partition.append_admitted(
                    batches, headers, acks=self._acks, now_ms=self._now_ms, guard=self._guard
                )
            )
        except ColdPages as cold:
            self._load(cold.piece, admitted)
            return
        except Refused as refused:
            image = self._broker.metadata.image
            _refuse(answer, refused, self._topic, self._pending.response, image, self._context)
            if self._acks == 0 and self._context.connection is not None:
                self._context.connection.close()
        except (Exception, asyncio.CancelledError) as error:  # the request is the only one to hear of it
            self._pending.fail(error)
        else:
            answer.error_code = ErrorCode.NONE
            answer.base_offset = info.first_offset
            answer.log_append_time_ms = info.append_time_ms
            answer.log_start_offset = info.log_start_offset
            if info.last_offset >= partition.high_watermark and self._acks != 0:
                self._pending.add(partition, answer, end_offset=info.last_offset + 1, acks=self._acks)
        self._pending.end_append()


class PendingProduce:
    """A response that waits until each of its appends may be acknowledged, or its time is up."""

    __slots__ = ("_append_count", "_appended", "_outstanding", "_timer", "_waits", "future", "response")

    def __init__(self, response: ProduceResponse) -> None:
        self.future: asyncio.Future[ProduceResponse] = asyncio.get_running_loop().create_future()
        self.response = response
        self._outstanding = 0
        self._append_count = 0
        self._appended: asyncio.Future[None] | None = None
        """Done when every slow append is made or refused; the connection serves nothing more until then."""
        self._timer: asyncio.TimerHandle | None = None
        self._waits: list[OffsetWait] = []

    @property
    def is_incomplete(self) -> bool:
        return self._outstanding > 0

    def add(
        self, partition: Partition, answer: PartitionProduceResponse, *, end_offset: int, acks: int
    ) -> None:
        """Wait for the acknowledgement of one append, unless the response was sent while a slow append ran."""
        if self.future.done():
            return

        def acknowledge(error: ErrorCode) -> None:
            answer.error_code = partition.commit_error() if error == ErrorCode.NONE and acks == -1 else error
            self.end()

        wait = partition.wait_for_acknowledgement(end_offset, acks=acks, listener=acknowledge)
        if wait is not None:
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT  # unless it is acknowledged in time
            self._waits.append(wait)
            self.begin()

    def begin_append(self, connection: Connection | None) -> None:
        """An append has to wait, and so must all requests that come after it on its connection."""
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
        """There is one thing more to wait for."""
        self._outstanding += 1

    def end(self) -> None:
        """One of the things waited for is done; after the last one the response goes out.

        But not before `start`: a directory that fails under one partition fails requests that wait for another
        partition, and the rest of the request is still to come.
        """
        self._outstanding -= 1
        if self._outstanding == 0 and self._timer is not None:
            self._finish()

    def fail(self, error: BaseException) -> None:
        """Something other than the request is at fault; `CancelledError` when the node stops."""
        if isinstance(error, asyncio.CancelledError):
            self.future.cancel()
        elif not self.future.done():
            self.future.set_exception(error)

    def start(self, timeout_ms: int) -> asyncio.Future[ProduceResponse]:
        self._timer = asyncio.get_running_loop().call_later(max(timeout_ms, 0) / 1000, self._finish)
        self.future.add_done_callback(self._leave)
        return self.future

    def _finish(self) -> None:
        if not self.future.done():  # its connection may be gone
            self.future.set_result(self.response)

    def _leave(self, _: asyncio.Future[ProduceResponse]) -> None:
        """Answered, timed out, or the connection is gone: leave nothing behind with the partitions."""
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
                        index=data.index, base_offset=NO_OFFSET, error_code=refusal.error
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
    answer: PartitionProduceResponse,
    refusal: Refused,
    topic: TopicProduceData,
    response: ProduceResponse,
    image: MetadataImage,
    context: RequestContext,
) -> None:
    error = refusal.error
    if error == ErrorCode.KAFKA_STORAGE_ERROR and context.version < STORAGE_ERROR_VERSION:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    answer.error_code, answer.error_message = error, refusal.message
    if isinstance(refusal, RecordsRefused):
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=fault.record_index, batch_index_error_message=fault.message)
            for fault in refusal.faults
        ]
    if error == ErrorCode.NOT_LEADER_OR_FOLLOWER and context.version >= LEADER_HINT_VERSION:
        name = image.topics.names_by_id.get(topic.topic_id, topic.name)
        _show_leader(answer, response, image, name, context.listener)


def _show_leader(
    answer: PartitionProduceResponse,
    response: ProduceResponse,
    image: MetadataImage,
    topic: str,
    listener: str,
) -> None:
    """Tell who leads, and where that is, so that the client need not ask for metadata first (KIP-951)."""
    leader, epoch = current_leader(image, topic, answer.index)
    answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    found = alive_endpoint(image, leader, listener)
    if found is not None and all(known.node_id != leader for known in response.node_endpoints):
        node, endpoint = found
        response.node_endpoints.append(
            NodeEndpoint(node_id=leader, host=endpoint.host, port=endpoint.port, rack=node.rack)
        )
