"""Fetches a snapshot from the leader, piece by piece. `task` installs it in place of the log.

A snapshot counts only when all of it is on disk and was read back. If the node stops before, it starts with its old
log; if it stops between the new snapshot and the truncation of the log, the next start truncates (`opening`).

A new leader ends an attempt: its file of the same snapshot has other bytes. But once all pieces are here, the leader
does not matter any more, because a snapshot has committed records only: it is kept until this node follows again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from penstock.net.request_errors import RequestFailed
from penstock.protocol.errors import ErrorCode
from penstock.quorum.core import QuorumCore
from penstock.quorum.log import DataBatch
from penstock.quorum.messages import FetchSnapshotRequest, Peer, SnapshotId
from penstock.quorum.peers import Peers, Sender
from penstock.quorum.snapshots import CorruptSnapshot, Download, SnapshotHead, Snapshots
from penstock.quorum.voters import ReplicaKey
from penstock.runtime import Lane, Workers

logger = logging.getLogger(__name__)

PIECE_ATTEMPTS = 4  # one lost response of a large snapshot does not cost all pieces before it
CLOSE_TIMEOUT_S = 1.0  # a disk that hangs does not keep the node from stopping


class DownloadFailed(Exception):
    """The snapshot could not be fetched; the next fetch tells what to fetch instead."""


class FetchedSnapshot(NamedTuple):
    """A complete snapshot. It is durable, but does not have its final name yet."""

    id: SnapshotId
    head: SnapshotHead
    batches: Iterator[DataBatch]
    file: Download


class SnapshotDownload:
    """At most one download runs. `task` installs the snapshot when it is complete."""

    def __init__(
        self,
        *,
        me: ReplicaKey,
        core: QuorumCore,
        peers: Peers,
        sender: Sender,
        snapshots: Snapshots,
        workers: Workers,
        post: Callable[[Callable[[int], None]], None],
        fail: Callable[[Exception], None],
    ) -> None:
        """`post` passes an event to the core; `fail` reports that the own disk failed."""
        self._me = me
        self._core = core
        self._peers = peers
        self._sender = sender
        self._snapshots = snapshots
        self._workers = workers
        self._post = post
        self._fail = fail
        self._attempt: _Attempt | None = None
        self._complete: FetchedSnapshot | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        """The attempt, and abandoned ones that still wait for a worker."""

    @property
    def is_complete(self) -> bool:
        return self._complete is not None

    def start(self, snapshot_id: SnapshotId) -> None:
        leader = self._core.leader_peer
        assert leader is not None, "a follower knows its leader"
        attempt = self._attempt
        if self._complete is not None or (attempt is not None and attempt.is_received):
            return  # it is installed first; the fetch after that tells what is missing then
        if attempt is not None and attempt.wants == (snapshot_id, leader, self._core.epoch):
            return  # this node was no follower for a moment
        self.leader_changed()
        self._attempt = _Attempt((snapshot_id, leader, self._core.epoch))
        task = asyncio.get_running_loop().create_task(
            self._run(self._attempt, list(self._tasks)), name="metadata snapshot fetch"
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def leader_changed(self) -> None:
        if self._attempt is not None and not self._attempt.is_received:
            self._attempt.abandon()
            self._attempt = None

    async def close(self) -> None:
        """What is left on the disk is removed by the next start."""
        if self._attempt is not None:
            self._attempt.abandon()
        if self._tasks:
            _, hanging = await asyncio.wait(self._tasks, timeout=CLOSE_TIMEOUT_S)
            for task in hanging:
                task.cancel()

    def take(self) -> FetchedSnapshot:
        complete, self._complete = self._complete, None
        assert complete is not None
        return complete

    async def publish(self, snapshot: FetchedSnapshot) -> None:
        """Give the file its final name: from now on, the next start finds the snapshot."""
        await self._workers.run(snapshot.file.publish, lane=Lane.SYNC)

    def installed(self, snapshot: FetchedSnapshot) -> None:
        self._snapshots.added(snapshot.id)

    async def discard(self, snapshot: FetchedSnapshot) -> None:
        """It is not wanted any more."""
        await self._workers.run(snapshot.file.abandon, lane=Lane.SYNC)

    async def _run(self, attempt: _Attempt, earlier: list[asyncio.Task[None]]) -> None:
        snapshot_id, leader, _ = attempt.wants
        message = "fetching the metadata snapshot at offset %d from node %d"
        logger.info(message, snapshot_id.end_offset, leader.node_id)
        try:
            if earlier:
                await asyncio.wait(earlier)
            self._complete = await self._fetch(attempt)
        except _Abandoned:
            return
        except DownloadFailed as error:
            logger.info("cannot fetch the metadata snapshot at offset %d: %s", snapshot_id.end_offset, error)
            self._post(self._core.snapshot_failed)
        except Exception as error:
            self._fail(error)
        else:
            self._post(self._core.tick)  # the task installs it after this event
        finally:
            if self._attempt is attempt:
                self._attempt = None

    async def _fetch(self, attempt: _Attempt) -> FetchedSnapshot:
        """Returns when the snapshot is complete and durable."""
        snapshot_id = attempt.wants[0]
        file = await self._workers.run(lambda: self._snapshots.begin(snapshot_id), lane=Lane.SYNC)
        try:
            position, size = 0, 1
            while position < size:
                size, piece = await self._fetch_piece(attempt, position)
                await self._workers.run(partial(file.append, piece), lane=Lane.SYNC)
                position += len(piece)
                self._post(self._core.snapshot_progress)
            attempt.check()
            attempt.is_received = True
            self._post(self._core.snapshot_received)
            head, batches = await self._workers.run(lambda: _finish(file), lane=Lane.SYNC)
        except (DownloadFailed, _Abandoned):
            await self._workers.run(file.abandon, lane=Lane.SYNC)
            raise
        return FetchedSnapshot(snapshot_id, head, batches, file)

    async def _fetch_piece(self, attempt: _Attempt, position: int) -> tuple[int, bytes]:
        """The size of the snapshot, and the piece at a position."""
        from penstock.quorum.wire import encode_request

        snapshot_id, leader, epoch = attempt.wants
        timeouts = self._core.timeouts
        request = FetchSnapshotRequest(0, epoch, self._me, snapshot_id, position)
        encoded = encode_request(request, self._sender, leader)
        failures = 0
        while isinstance(
            response := await attempt.ask(self._peers, encoded, timeouts.request_ms), RequestFailed
        ):
            failures += 1
            if failures == PIECE_ATTEMPTS:
                raise DownloadFailed(str(response)) from response
            await attempt.pause(timeouts.retry_backoff_ms)
        return _piece(response, snapshot_id, position)


class _Abandoned(Exception):
    """Another attempt is made instead, or none."""


class _Attempt:
    def __init__(self, wants: tuple[SnapshotId, Peer, int]) -> None:
        self.wants = wants
        """The snapshot, the leader that has it, and the epoch of the leader."""
        self.is_received = False
        """All pieces are here."""
        self._is_abandoned: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def abandon(self) -> None:
        """It ends as soon as no worker uses its file: a thread cannot be cancelled."""
        if not self._is_abandoned.done():
            self._is_abandoned.set_result(None)

    def check(self) -> None:
        if self._is_abandoned.done():
            raise _Abandoned

    async def pause(self, duration_ms: int) -> None:
        await asyncio.wait([self._is_abandoned], timeout=duration_ms / 1000)

    async def ask(self, peers: Peers, request: Any, timeout_ms: int) -> Any:
        """The response of the leader, or `RequestFailed`."""
        self.check()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def on_done(response: Any, error: RequestFailed | None) -> None:
            if not answer.done():
                answer.set_result(response if error is None else error)

        peers.send(self.wants[1], request, timeout_ms=timeout_ms, on_done=on_done)
        await asyncio.wait([answer, self._is_abandoned], return_when=asyncio.FIRST_COMPLETED)
        self.check()
        return answer.result()


def _finish(file: Download) -> tuple[SnapshotHead, Iterator[DataBatch]]:
    """Blocking."""
    try:
        content = file.read_back()
    except CorruptSnapshot as error:
        raise DownloadFailed(f"the leader sent a snapshot that cannot be read: {error}") from error
    file.sync()
    return content


def _piece(response: Any, snapshot_id: SnapshotId, position: int) -> tuple[int, bytes]:
    from penstock.protocol.messages.fetch_snapshot import FetchSnapshotResponse

    if not isinstance(response, FetchSnapshotResponse):
        raise DownloadFailed("the leader sent another response")
    if response.error_code is not ErrorCode.NONE:
        raise DownloadFailed(response.error_code.name)
    if len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
        raise DownloadFailed("the response is not about one partition")
    partition = response.topics[0].partitions[0]
    if partition.error_code is not ErrorCode.NONE:
        raise DownloadFailed(partition.error_code.name)
    sent = (partition.snapshot_id.end_offset, partition.snapshot_id.epoch, partition.position)
    if sent != (*snapshot_id, position):
        raise DownloadFailed(f"the leader sent another part: {sent}")
    data = partition.unaligned_records
    piece = bytes(data) if isinstance(data, (bytes, bytearray, memoryview)) else b""
    if not piece or position + len(piece) > partition.size:
        raise DownloadFailed("the leader sent a piece of the wrong size")
    return partition.size, piece
