"""A fetch in progress: it reads, waits for more, loads pages that are not in memory, and reads again.

`handlers.fetch` reads for consumers, `replica_fetch` for followers.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.endpoints import alive_endpoint, current_leader
from penstock.broker.fetch_session import FetchTarget
from penstock.metadata.errors import Refused
from penstock.protocol.constants import UNKNOWN_OFFSET
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from penstock.replication.purgatory import DelayedFetch
from penstock.runtime.network import FileSlice
from penstock.storage.pages import PageLoader

STORAGE_ERROR_VERSION = 6  # older clients do not know KAFKA_STORAGE_ERROR and would not retry
LEADER_HINT_VERSION = 16
NO_RECORDS = b""

# Errors about partitions that this broker does not have. They do not end the wait for the other partitions.
UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

# Shared defaults of every response, never modified: creating them would cost 0.4 us per partition.
NO_DIVERGENCE = EpochEndOffset()
NO_LEADER_HINT = LeaderIdAndEpoch()
NO_SNAPSHOT = SnapshotId()


T = TypeVar("T", bound=FetchTarget)


class Plan(Protocol[T]):
    """The session of a fetch."""

    def finish(
        self, results: list[tuple[T, PartitionData]], now_ms: int
    ) -> tuple[ErrorCode, int, list[tuple[T, PartitionData]]]:
        """Update the session; return the error, session id and partitions of the response."""
        ...


class PendingFetch(ABC, Generic[T]):
    __slots__ = (
        "_broker",
        "_context",
        "_future",
        "_is_preparing",
        "_is_time_up",
        "_loader",
        "_missing",
        "_must_respond",
        "_plan",
        "_request",
        "_results",
        "_timer",
        "_version",
        "_wait",
        "cold_pieces",
    )

    def __init__(self, broker: Broker, request: FetchRequest, context: RequestContext, plan: Plan[T]) -> None:
        self._broker = broker
        self._request = request
        self._context = context
        self._version = context.version
        self._plan = plan
        self._results: list[tuple[T, PartitionData]] = []
        self._must_respond = False
        """There is an error or a divergence, which does not wait."""
        self._is_time_up = False
        self._is_preparing = False
        """It can neither read nor respond until a worker, or an earlier request of its session, is done."""
        self._wait: DelayedFetch | None = None
        self._loader: PageLoader | None = None
        self._missing: list[FileSlice] = []
        """Slices that must be loaded into memory before all partitions can be read."""
        self.cold_pieces: list[FileSlice] = []
        """Slices of the last read that are not in the page cache, so that sending them would block."""

    # -- reading

    @abstractmethod
    def read(self) -> None:
        """Read the partitions of the plan, in order, until the response is full."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether to respond now: with enough bytes, with an error or divergence, or with nothing to wait for."""

    def _refuse(self, refusal: Refused, target: FetchTarget) -> PartitionData:
        error = refusal.error
        if error == ErrorCode.KAFKA_STORAGE_ERROR and self._version < STORAGE_ERROR_VERSION:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return PartitionData(
            partition_index=target.wanted.partition,
            error_code=error,
            high_watermark=UNKNOWN_OFFSET,
            aborted_transactions=[] if error in UNKNOWN else None,  # as in Kafka
            records=NO_RECORDS,
        )

    # -- responding

    def respond(self) -> FetchResponse:
        error, session_id, results = self._plan.finish(self._results, self._broker.runtime.clock.wall_ms())
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
                self._add_leader(response, target, data)
        return response

    def _add_leader(self, response: FetchResponse, target: FetchTarget, data: PartitionData) -> None:
        """Add the current leader and its endpoint, so that the client needs no metadata request (KIP-951)."""
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
        """Whether the response needs work in a worker first."""
        return bool(self._missing or self.cold_pieces)

    def respond_later(self) -> asyncio.Future[FetchResponse]:
        """Respond when the data is in memory."""
        self._begin()
        self._prepare()
        return self._future

    def _prepare(self) -> None:
        self._is_preparing = True
        if self._loader is None:
            self._loader = PageLoader(self._broker.runtime.workers)
        self._loader.load(self._missing + self.cold_pieces, self._loaded)

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
            self._continue()
        except Exception as failure:
            self._fail(failure)

    def _fail(self, error: BaseException) -> None:
        """Fail the request with the exception of a callback, or with CancelledError when the node stops."""
        if isinstance(error, asyncio.CancelledError):
            self._future.cancel()
        else:
            self._future.set_exception(error)

    # -- waiting

    @abstractmethod
    def _watch(self) -> None:
        """Have the partitions wake this fetch."""

    @abstractmethod
    def _unwatch(self) -> None: ...

    def wait(self) -> asyncio.Future[FetchResponse]:
        self._begin()
        self._watch()
        return self._future

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._future: asyncio.Future[FetchResponse] = loop.create_future()
        self._future.add_done_callback(self._clean_up)
        self._timer = loop.call_later(self._request.max_wait_ms / 1000, self._end_wait)

    def _end_wait(self) -> None:
        self._is_time_up = True  # a flag, because the clock may still show a moment less when the timer fires
        self._read_again()

    def _read_again(self) -> None:
        """Read again: new bytes, a change of a partition, or the timeout."""
        if self._future.done() or self._is_preparing:
            return
        self._unwatch()
        try:
            self.read()
            self._continue()
        except Exception as error:
            self._fail(error)

    def _continue(self) -> None:
        """After a read: wait for more, prepare the data, or respond."""
        if not self.is_ready() and not self._is_time_up:
            self._watch()
        elif self.is_slow():
            self._prepare()
        else:
            self._future.set_result(self.respond())

    def _clean_up(self, _: asyncio.Future[FetchResponse]) -> None:
        """Responded or disconnected: remove the timer and the waits."""
        self._timer.cancel()
        self._unwatch()
