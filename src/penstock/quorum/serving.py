"""Serves the requests of other nodes: hands them to the core, waits for its response, and adds the records.

A fetch may wait long (the core holds it until there is something new). Records are read only while this node still
leads the epoch of the response: a log that was truncated meanwhile has other records at the same offsets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from penstock.protocol.errors import ErrorCode
from penstock.quorum import messages as core
from penstock.quorum.log import QuorumLog
from penstock.quorum.snapshots import Snapshots
from penstock.runtime import Lane, Workers

if TYPE_CHECKING:
    from penstock.protocol.messages.fetch import FetchRequest
    from penstock.protocol.messages.fetch_snapshot import FetchSnapshotRequest
    from penstock.quorum.wire_serving import Rejected, Request

logger = logging.getLogger(__name__)

LOGGED_CLUSTERS_MAX = 100  # cluster ids come from the network
RESPONSE_BYTES_MAX = 8 << 20  # whatever a request asks for; at least one batch is sent


class LeaderState(Protocol):
    """The part of the core that is read here."""

    @property
    def is_leader(self) -> bool: ...
    @property
    def epoch(self) -> int: ...


class QuorumServer:
    def __init__(
        self,
        *,
        cluster_id: str,
        log: QuorumLog,
        snapshots: Snapshots,
        workers: Workers,
        leader_state: Callable[[], LeaderState],
        step: Callable[[core.Request], None],
        fail: Callable[[Exception], None],
    ) -> None:
        """`fail` reports that the own disk failed."""
        self._cluster_id = cluster_id
        self._log = log
        self._snapshots = snapshots
        self._workers = workers
        self._leader_state = leader_state
        self._step = step
        self._fail = fail
        self._next_id = 1
        self._waiting: dict[int, asyncio.Future[core.Response]] = {}
        self._is_closed = False
        self._rejected_clusters: set[str | None] = set()

    async def handle(self, request: Request, *, version: int) -> Any:
        """The response to a request of another node."""
        from penstock.quorum.wire_serving import Rejected, error_response, read_request

        request_id, self._next_id = self._next_id, self._next_id + 1
        try:
            message = read_request(request, cluster_id=self._cluster_id, request_id=request_id)
        except Rejected as rejected:
            self._log_rejected(request, rejected)
            return error_response(request, rejected.error, str(rejected))
        waiter: asyncio.Future[core.Response] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = waiter
        try:
            if self._is_closed:
                waiter.cancel()
            else:
                self._step(message)
            response = await waiter
        except asyncio.CancelledError:
            if not self._is_closed:
                raise
            return error_response(request, ErrorCode.BROKER_NOT_AVAILABLE)
        finally:
            self._waiting.pop(request_id, None)
        try:
            return await self._complete(request, message, response, version)
        except Exception as error:
            self._fail(error)
            return error_response(request, ErrorCode.KAFKA_STORAGE_ERROR)

    async def _complete(
        self, request: Request, message: core.Request, response: core.Response, version: int
    ) -> Any:
        """The response with what is read from the disk."""
        from penstock.protocol.messages.fetch import FetchRequest
        from penstock.protocol.messages.fetch_snapshot import FetchSnapshotRequest
        from penstock.quorum.wire_serving import write_response

        if isinstance(request, FetchRequest):
            assert isinstance(response, core.FetchResponse)
            response = await self._with_records(request, response)
        elif isinstance(request, FetchSnapshotRequest):
            assert isinstance(message, core.FetchSnapshotRequest)
            assert isinstance(response, core.FetchSnapshotResponse)
            return await self._snapshot_piece(request, message, response, version)
        return write_response(request, response, version=version)

    def respond(self, response: core.Response) -> None:
        """The core's response to one of the waiting requests; its sender may be gone."""
        waiter = self._waiting.get(response.request_id)
        if waiter is not None and not waiter.done():
            waiter.set_result(response)

    def close(self) -> None:
        """Waiting and later requests get an error."""
        self._is_closed = True
        for waiter in self._waiting.values():
            waiter.cancel()

    async def _with_records(self, request: FetchRequest, response: core.FetchResponse) -> core.FetchResponse:
        if response.read_from < 0:
            return response
        records: Any = b""
        if self._can_read(response):
            try:
                records = await self._log.load(
                    response.read_from,
                    max_bytes=min(request.max_bytes, RESPONSE_BYTES_MAX),
                    end_offset=self._log.end_offset,
                )
            except Exception:
                if self._can_read(response):
                    raise
        if not self._leads(response.epoch):
            return replace(response, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, read_from=-1, high_watermark=-1)
        return replace(response, records=records)

    def _can_read(self, response: core.FetchResponse) -> bool:
        """Otherwise the log may be busy with a truncation, or the records were deleted; then the response to the
        next fetch names a snapshot to fetch."""
        return self._leads(response.epoch) and response.read_from >= self._log.start_offset

    def _leads(self, epoch: int) -> bool:
        state = self._leader_state()
        return state.is_leader and state.epoch == epoch

    async def _snapshot_piece(
        self,
        request: FetchSnapshotRequest,
        message: core.FetchSnapshotRequest,
        response: core.FetchSnapshotResponse,
        version: int,
    ) -> Any:
        from penstock.quorum.wire_serving import write_snapshot_piece

        if response.error is not ErrorCode.NONE:
            return write_snapshot_piece(request, response, version=version)
        snapshot_id, position = message.snapshot_id, message.position
        if snapshot_id not in self._snapshots:
            missing = replace(response, error=ErrorCode.SNAPSHOT_NOT_FOUND)
            return write_snapshot_piece(request, missing, version=version)

        def read() -> tuple[int, bytes]:
            size = self._snapshots.size_bytes(snapshot_id)
            if not 0 <= position < size:
                return size, b""
            wanted = max(1, min(request.max_bytes, RESPONSE_BYTES_MAX))
            return size, self._snapshots.read(snapshot_id, position=position, size=wanted)

        try:
            size, piece = await self._workers.run(read, lane=Lane.READ)
        except FileNotFoundError:
            missing = replace(response, error=ErrorCode.SNAPSHOT_NOT_FOUND)
            return write_snapshot_piece(request, missing, version=version)
        if not piece:
            outside = replace(response, error=ErrorCode.POSITION_OUT_OF_RANGE)
            return write_snapshot_piece(request, outside, version=version)
        return write_snapshot_piece(request, response, version=version, size_bytes=size, piece=piece)

    def _log_rejected(self, request: Request, rejected: Rejected) -> None:
        """Once for each other cluster: its nodes try again and again."""
        logged = self._rejected_clusters
        if rejected.error is not ErrorCode.INCONSISTENT_CLUSTER_ID or request.cluster_id in logged:
            return
        if len(logged) < LOGGED_CLUSTERS_MAX:
            logged.add(request.cluster_id)
            logger.warning(
                "rejected a %s of the metadata quorum: %s; a node of that cluster has the address of this one in "
                "controller.quorum.voters or controller.quorum.bootstrap.servers",
                type(request).__name__,
                rejected,
            )
