"""A replica of the quorum in memory: the core, a log that knows what survives a power cut, and a driver that acts in
the order that the core asks for. Saves and syncs end at once, or when the test lets them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid
from penstock.quorum.core import QuorumCore
from penstock.quorum.messages import (
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    OffsetAndEpoch,
    Peer,
    Request,
    Response,
    SnapshotId,
)
from penstock.quorum.ready import (
    FetchedRecords,
    HardState,
    LeaderChange,
    QuorumTimeouts,
    Ready,
    VotersChange,
)
from penstock.quorum.voters import ReplicaKey, Voter, VoterEndpoint, VoterHistory, Voters

LISTENER = "CONTROLLER"


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, Uuid(bytes([node_id]) * 16))


def endpoints(node_id: int) -> tuple[VoterEndpoint, ...]:
    return (VoterEndpoint(LISTENER, f"host{node_id}", 9000 + node_id),)


def voter(node_id: int) -> Voter:
    return Voter(key(node_id), endpoints(node_id))


@dataclass(frozen=True, slots=True)
class Entry:
    epoch: int
    value: Any
    """Text, or `Voters`."""
    digest: int
    """Of this entry and all before it: two logs with the same digest at an offset are equal up to it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    id: SnapshotId
    digest: int
    voters: Voters | None


class MemoryLog:
    """A log of entries above an optional snapshot."""

    def __init__(self, voters: Voters | None = None) -> None:
        self.snapshot: Snapshot | None = None if voters is None else Snapshot(SnapshotId(0, 0), 0, voters)
        self.start_offset = 0
        self._start_epoch = 0
        self._start_digest = 0
        self.entries: list[Entry] = []

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self.entries)

    @property
    def last_epoch(self) -> int:
        return self.entries[-1].epoch if self.entries else self._start_epoch

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        return None if self.snapshot is None else self.snapshot.id

    latest_snapshot = earliest_snapshot

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        for index in range(len(self.entries) - 1, -1, -1):
            if self.entries[index].epoch <= epoch:
                return OffsetAndEpoch(self.start_offset + index + 1, self.entries[index].epoch)
        return OffsetAndEpoch(self.start_offset, self._start_epoch)

    def digest_at(self, end_offset: int) -> int:
        index = end_offset - self.start_offset
        return self._start_digest if index == 0 else self.entries[index - 1].digest

    def append(self, epoch: int, value: Any) -> Entry:
        named = str(value) if isinstance(value, Voters) else value
        entry = Entry(epoch, value, hash((self.digest_at(self.end_offset), epoch, named)))
        self.entries.append(entry)
        return entry

    def truncate(self, end_offset: int) -> None:
        del self.entries[end_offset - self.start_offset :]

    def read(self, offset: int, count_max: int) -> tuple[Entry, ...]:
        index = offset - self.start_offset
        return tuple(self.entries[index : index + count_max])

    def take_snapshot(self, end_offset: int, voters: Voters | None) -> None:
        """Write a snapshot and delete the log below."""
        index = end_offset - self.start_offset
        last = self.entries[index - 1]
        self.snapshot = Snapshot(SnapshotId(end_offset, last.epoch), last.digest, voters)
        del self.entries[:index]
        self.start_offset, self._start_epoch, self._start_digest = end_offset, last.epoch, last.digest

    def install(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.entries = []
        self.start_offset, self._start_epoch = snapshot.id
        self._start_digest = snapshot.digest

    def voters_records(self) -> list[tuple[int, Voters]]:
        known = self.snapshot
        found = [] if known is None or known.voters is None else [(known.id.end_offset - 1, known.voters)]
        return found + [
            (self.start_offset + index, entry.value)
            for index, entry in enumerate(self.entries)
            if isinstance(entry.value, Voters)
        ]


@dataclass
class Replica:
    """One node. `send` and `respond` are the network: they get the messages of the core in order."""

    key: ReplicaKey
    send: Callable[[Replica, Peer, Request], None]
    respond: Callable[[Replica, Response], None]
    timeouts: QuorumTimeouts
    static: Voters = field(default_factory=lambda: Voters(()))
    bootstrap: tuple[tuple[str, int], ...] = ()
    can_vote: bool = True
    log: MemoryLog = field(default_factory=MemoryLog)
    endpoints: tuple[VoterEndpoint, ...] = ()
    auto_join: bool = False
    fetch_entries_max: int = 4
    on_ready: Callable[[Replica, Ready], None] = lambda replica, ready: None
    schedule_disk: Callable[[Replica, str, Callable[[], None]], None] = lambda replica, what, done: done()
    """Saves ("save"), truncations ("truncate") and syncs ("sync") call `done` when they are on disk."""

    core: QuorumCore = field(init=False)
    on_disk: HardState = field(default_factory=HardState)
    synced_count: int = 0
    """The end offset that survives a power cut."""
    committed_offset: int = 0
    """The high watermark that survives a power cut."""
    keeps_high_watermark: bool = False
    is_up: bool = False
    incarnation: int = 0
    _is_syncing: bool = False
    _truncations: int = 0
    _saving: HardState | None = None
    _cut_off: list[Entry] = field(default_factory=list)

    @property
    def node_id(self) -> int:
        return self.key.node_id

    def start(self, now_ms: int, random: Random) -> None:
        self.incarnation += 1
        self.is_up = True
        self._is_syncing = False
        self.synced_count = self.log.end_offset  # the driver syncs the log before its end counts
        self.core = self.make_core(
            me=self.key,
            log=self.log,
            hard_state=self.on_disk,
            history=VoterHistory(self.static, self.log.voters_records()),
            random=random,
            now_ms=now_ms,
            timeouts=self.timeouts,
            listener=LISTENER,
            endpoints=self.endpoints,
            bootstrap=self.bootstrap,
            can_vote=self.can_vote,
            auto_join=self.auto_join,
            committed_offset=self.committed_offset,
        )
        self.core.synced(self.log.end_offset, now_ms)
        self.work(now_ms)

    make_core: Callable[..., QuorumCore] = QuorumCore

    def crash(self, *, keep_offset: int = 0, keep_save: bool = False, undo_truncation: bool = False) -> None:
        """Lose what is not on disk. By chance some of it survives: entries up to `keep_offset`, the state that was
        being saved; a truncation that was not on disk is undone."""
        self.is_up = False
        if keep_save and self._saving is not None:
            self.on_disk = self._saving
        if undo_truncation and self._cut_off:
            self.log.entries += self._cut_off
        else:
            self.log.truncate(max(self.synced_count, keep_offset, self.log.start_offset))
        self._saving, self._cut_off = None, []

    def tick(self, now_ms: int) -> None:
        self.core.tick(now_ms)
        self.work(now_ms)

    def step(self, message: Any, now_ms: int) -> None:
        self.core.step(message, now_ms)
        self.work(now_ms)

    def propose(self, value: str, now_ms: int) -> bool:
        core = self.core
        if not core.is_leader or core.high_watermark <= core.epoch_start_offset:
            return False
        self.log.append(core.epoch, value)
        core.appended(self.log.end_offset, now_ms)
        self.sync(now_ms)
        self.work(now_ms)
        return True

    def work(self, now_ms: int) -> None:
        """Act on everything that is ready."""
        self.now_ms = now_ms
        while self.is_up:
            ready = self.core.ready()
            if ready == Ready():
                return
            self.on_ready(self, ready)
            if ready.hard_state is not None:
                self._save(ready.hard_state)
            if ready.truncate_to is not None:
                self._truncate(ready.truncate_to)
            if ready.append is not None:
                self._append(ready.append)
            if ready.high_watermark is not None and self.keeps_high_watermark:
                self.committed_offset = min(ready.high_watermark, self.synced_count)
            for receiver, request in ready.requests:
                self.send(self, receiver, request)
            for response in ready.responses:
                self.respond(self, self._with_records(response))
            if ready.snapshot is not None and self.core.leader_peer is not None:
                request_id = -ready.snapshot.end_offset
                fetch = FetchSnapshotRequest(request_id, self.core.epoch, self.key, ready.snapshot, 0)
                self.send(self, self.core.leader_peer, fetch)

    now_ms: int = 0

    def _save(self, state: HardState) -> None:
        self._saving = state

        def done() -> None:
            self.on_disk, self._saving = state, None
            self.core.saved(state, self.now_ms)

        self.schedule_disk(self, "save", done)

    def _truncate(self, end_offset: int) -> None:
        self._truncations += 1
        self._cut_off = self.log.entries[end_offset - self.log.start_offset :]
        self.log.truncate(end_offset)

        def done() -> None:
            self._cut_off = []
            self.synced_count = min(self.synced_count, end_offset)
            self.core.truncated(end_offset, self.now_ms)

        self.schedule_disk(self, "truncate", done)

    def _append(self, work: LeaderChange | VotersChange | FetchedRecords) -> None:
        before = self.log.end_offset
        match work:
            case FetchedRecords():
                assert work.base_offset == before
                for entry in work.records:
                    self.log.append(entry.epoch, entry.value)  # type: ignore[attr-defined]
            case LeaderChange():
                self.log.append(work.epoch, f"leader {work.leader_id}")
                if work.write_voters is not None:
                    self.log.append(work.epoch, work.write_voters)
            case VotersChange():
                self.log.append(work.epoch, work.voters)
        new = self.log.entries[before - self.log.start_offset :]
        records = [
            (before + index, each.value) for index, each in enumerate(new) if isinstance(each.value, Voters)
        ]
        self.core.appended(self.log.end_offset, self.now_ms, voters=records)
        self.sync(self.now_ms)

    def sync(self, now_ms: int) -> None:
        self.now_ms = now_ms
        if self._is_syncing:
            return
        self._is_syncing = True
        end_offset, truncations = self.log.end_offset, self._truncations

        def done() -> None:
            self._is_syncing = False
            if truncations == self._truncations:
                self.synced_count = max(self.synced_count, end_offset)
                self.core.synced(end_offset, self.now_ms)
            if self.log.end_offset > self.synced_count:
                self.sync(self.now_ms)

        self.schedule_disk(self, "sync", done)

    def _with_records(self, response: Response) -> Response:
        match response:
            case FetchResponse(read_from=offset) if offset >= 0:
                assert self.core.is_leader
                assert self.core.epoch == response.epoch
                return FetchResponse(
                    response.request_id,
                    response.error,
                    response.epoch,
                    response.leader_id,
                    response.leader,
                    response.high_watermark,
                    response.log_start_offset,
                    records=self.log.read(offset, self.fetch_entries_max),  # type: ignore[arg-type]
                )
        return response

    def install(self, response: FetchSnapshotResponse, snapshot: Snapshot, now_ms: int) -> None:
        """The leader's snapshot arrived."""
        self.step(response, now_ms)
        if response.error is not ErrorCode.NONE:
            self.core.snapshot_failed(now_ms)
        elif self.core.begin_install(snapshot.id):
            self._truncations += 1
            self.log.install(snapshot)
            self.synced_count = snapshot.id.end_offset
            self.core.snapshot_installed(snapshot.id, now_ms, voters=snapshot.voters)
        else:
            self.core.snapshot_failed(now_ms)
        self.work(now_ms)
