"""The task that owns the core of the quorum: passes events to it, and does what it decides, in the order of `Ready`.

State is saved before anything else is done. Syncs of the log run beside it, and one sync serves all appends before it.
A follower's next fetch waits for its sync, because the fetch acknowledges; a leader counts its own log only after its
sync.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.net.request_errors import RequestFailed as NoResponse
from penstock.protocol.types import Buffer
from penstock.quorum.control import leader_change_record, voters_record, voters_records
from penstock.quorum.core import QuorumCore
from penstock.quorum.downloading import SnapshotDownload
from penstock.quorum.in_flight import NEVER_MS
from penstock.quorum.log import QuorumLog, build_control_batch, check_fetched, voters_in
from penstock.quorum.messages import LeaderAndEpoch, Message, Peer, RequestFailed, Response
from penstock.quorum.peers import Peers, Sender, is_process_gone
from penstock.quorum.ready import NOTHING, FetchedRecords, HardState, LeaderChange, Ready, Send, VotersChange
from penstock.quorum.replaying import Replayer
from penstock.quorum.roles.role import RoleName
from penstock.quorum.serving import QuorumServer
from penstock.quorum.snapshotting import Snapshotter
from penstock.quorum.state_file import QuorumStateFile
from penstock.quorum.strangers import Strangers
from penstock.records.errors import RecordsError
from penstock.runtime import Clock, Lane, Workers

logger = logging.getLogger(__name__)

LOOP_PAUSE_S = 0.001  # a core that wants to be called again at once cannot starve other tasks

Event = Callable[[int], None]
"""Gets the time in milliseconds."""


class QuorumTask:
    def __init__(
        self,
        core: QuorumCore,
        *,
        log: QuorumLog,
        state_file: QuorumStateFile,
        clock: Clock,
        workers: Workers,
        peers: Peers,
        sender: Sender,
        server: QuorumServer,
        replayer: Replayer,
        snapshotter: Snapshotter,
        download: SnapshotDownload,
        strangers: Strangers,
    ) -> None:
        self._core = core
        self._log = log
        self._state_file = state_file
        self._clock = clock
        self._workers = workers
        self._peers = peers
        self._sender = sender
        self._server = server
        self._replayer = replayer
        self._snapshotter = snapshotter
        self._download = download
        self._strangers = strangers
        self._loop = asyncio.get_running_loop()
        self._events: deque[Event] = deque()
        self._wake = asyncio.Event()
        self._unsynced = asyncio.Event()
        self._generation = 0
        """Grows with every truncation: an older sync says nothing about the offsets that are written again."""
        self._disk = asyncio.Lock()
        """Held by a sync and by a truncation."""

    @property
    def is_idle(self) -> bool:
        return not self._events

    def now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def post(self, event: Event) -> None:
        self._events.append(event)
        self._wake.set()

    def step(self, message: Message) -> None:
        self.post(partial(self._core.step, message))

    def append(self, batch: bytearray) -> int:
        """As leader: append a batch now, and return the new end offset."""
        end_offset = self._log.append(batch, epoch=self._core.epoch)
        self._appended(batch, end_offset)
        return end_offset

    async def run(self) -> None:
        core = self._core
        while True:
            while self._events:
                self._events.popleft()(self.now_ms())  # not the time before a slow save
                await self._act_all()
            core.tick(self.now_ms())
            await self._act_all()
            if self._download.is_complete and core.role_name in (RoleName.FOLLOWER, RoleName.LEADER):
                await self._install_snapshot()  # or discard it; during an election it is kept
            await self._wait()

    async def _wait(self) -> None:
        """Until there is an event, or the core wants to be called."""
        if self._events:
            return
        timer = None
        if self._core.next_tick_ms < NEVER_MS:
            delay_s = max((self._core.next_tick_ms - self.now_ms()) / 1000, LOOP_PAUSE_S)
            timer = self._loop.call_later(delay_s, self._wake.set)
        await self._wake.wait()
        if timer is not None:
            timer.cancel()
        self._wake.clear()

    async def _act_all(self) -> None:
        while (ready := self._core.ready()) is not NOTHING:
            await self._act(ready)
        if not self._core.is_leader:
            self._replayer.resign()  # also if it was not announced yet

    async def _act(self, ready: Ready) -> None:
        """In the order of `Ready`."""
        if ready.hard_state is not None:
            await self._save(ready.hard_state)
        if ready.truncate_to is not None:
            await self._truncate(ready.truncate_to)
        if ready.snapshot is not None:
            self._download.start(ready.snapshot)
        if ready.append is not None:
            self._append_decided(ready.append)
        for send in ready.requests:
            self.send(send)
        for response in ready.responses:
            self._server.respond(response)
        if ready.high_watermark is not None:
            self._log.set_high_watermark(ready.high_watermark)
            self._replayer.committed(ready.high_watermark)
            self._snapshotter.committed()
        if ready.leader is not None:
            self._leader_changed(ready.leader)

    async def _save(self, state: HardState) -> None:
        is_static = self._core.history.kraft_version == 0
        static_voters = list(self._core.voters.node_ids) if is_static else None
        await self._workers.run(
            lambda: self._state_file.save(state, static_voters=static_voters), lane=Lane.SYNC
        )
        self._core.saved(state, self.now_ms())

    async def _truncate(self, end_offset: int) -> None:
        assert end_offset >= self._core.high_watermark, "committed records are never truncated"
        self._generation += 1
        async with self._disk, self._replayer.reading:
            logger.info("truncating the metadata log to offset %d: the leader has other records", end_offset)
            await self._log.truncate(end_offset)
        self._core.truncated(self._log.end_offset, self.now_ms())
        self._unsynced.set()  # a sync that was under way is not reported

    def _append_decided(self, decided: LeaderChange | VotersChange | FetchedRecords) -> None:
        match decided:
            case FetchedRecords():
                self._append_fetched(decided)
            case LeaderChange():
                self._replayer.leads_from(decided.epoch, self._log.end_offset)
                control = [leader_change_record(decided)]
                if decided.write_voters is not None:
                    control += voters_records(decided.write_voters)
                self.append(build_control_batch(control, timestamp_ms=self._clock.wall_ms()))
            case VotersChange():
                control = [voters_record(decided.voters)]
                self.append(build_control_batch(control, timestamp_ms=self._clock.wall_ms()))

    def _append_fetched(self, fetched: FetchedRecords) -> None:
        try:
            batches = check_fetched(
                fetched.records,
                end_offset=self._log.end_offset,
                last_epoch=self._core.log.last_epoch,
                epoch=self._core.epoch,
            )
        except RecordsError as error:
            logger.error("the leader of the quorum sent records that cannot be appended: %s", error)
            self._core.append_failed(self.now_ms())
            return
        self._appended(batches, self._log.append_fetched(batches))

    def _appended(self, batches: Buffer, end_offset: int) -> None:
        self._snapshotter.appended(len(batches))
        self._core.appended(end_offset, self.now_ms(), voters=voters_in(batches))
        self._unsynced.set()
        self._wake.set()

    def _leader_changed(self, leader: LeaderAndEpoch) -> None:
        self._download.leader_changed()
        self._replayer.leader_changed(leader)

    def send(self, send: Send) -> None:
        from penstock.quorum.wire import UnexpectedResponse, decode_response, encode_request

        request, receiver = send.request, send.receiver

        def on_done(response: Any, error: NoResponse | None) -> None:
            if error is not None:
                self.step(RequestFailed(request.request_id, refused=is_process_gone(error)))
                return
            message: Response | RequestFailed
            try:
                message = decode_response(request, response)
            except UnexpectedResponse as problem:
                logger.warning("node %d sent an unexpected response: %s", receiver.node_id, problem)
                message = RequestFailed(request.request_id)
            self.post(partial(self._answered, receiver, message))

        self._peers.send(
            receiver,
            encode_request(request, self._sender, receiver),
            timeout_ms=self._core.timeouts.request_ms,
            on_done=on_done,
        )

    def _answered(self, sender: Peer, message: Response | RequestFailed, now_ms: int) -> None:
        self._strangers.answered(sender, message, self._core)
        self._core.step(message, now_ms)

    async def sync_forever(self) -> None:
        while True:
            await self._unsynced.wait()
            async with self._disk:
                self._unsynced.clear()
                generation, end_offset = self._generation, self._log.end_offset
                await self._log.sync()
            self.post(partial(self._synced, generation, end_offset))

    def _synced(self, generation: int, end_offset: int, now_ms: int) -> None:
        if generation == self._generation:
            self._core.synced(end_offset, now_ms)

    async def _install_snapshot(self) -> None:
        """In place of the log. A snapshot has committed records only."""
        snapshot = self._download.take()
        if self._core.begin_install(snapshot.id):
            self._generation += 1
            await self._download.publish(snapshot)
            async with self._disk, self._replayer.reading:
                await self._log.truncate_fully(snapshot.id.end_offset)
            self._download.installed(snapshot)
            self._core.snapshot_installed(snapshot.id, self.now_ms(), voters=snapshot.head.voters)
            self._replayer.load_snapshot(snapshot.batches, snapshot.id)
        else:
            await self._download.discard(snapshot)
            self._core.snapshot_failed(self.now_ms())
        await self._act_all()
