"""Cores of the quorum in a faulty world, from one seed: no node, no event loop, logs in memory.

Messages are lost, delayed, repeated and reordered; links are cut; nodes crash and lose what is not synced; disks are
slow; nodes pause; voters are added and removed; snapshots delete the log. After every event it is checked:

- Election safety: an epoch has at most one leader, and a leader does not lead again in it after a restart.
- Log matching: two logs with an entry of the same offset and epoch are equal up to it.
- Leader completeness: a new leader has all committed entries.
- State machine safety: no two replicas commit different entries at an offset.

At the end the faults stop: then one leader must commit new entries, and every replica must get them.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.protocol.errors import ErrorCode
from penstock.quorum.core import QuorumCore
from penstock.quorum.messages import (
    AddVoterRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Peer,
    RemoveVoterRequest,
    Request,
    RequestFailed,
    Response,
)
from penstock.quorum.ready import LeaderChange, QuorumTimeouts, Ready
from penstock.quorum.voters import Voters
from unit.quorum.replicas import MemoryLog, Replica, Snapshot, endpoints, key, voter

TIMEOUTS = QuorumTimeouts(
    election_ms=200,
    election_backoff_max_ms=200,
    fetch_ms=400,
    request_ms=400,
    retry_backoff_ms=10,
    fetch_max_wait_ms=100,
)
FAULTS_MS = 4_000
HEALED_MS = 4_000


class Violation(AssertionError):
    """A rule of Raft was broken."""


@dataclass
class _Faults:
    """How bad this world is, chosen from the seed."""

    loss: float
    repeat: float
    delay_ms: int
    disk_ms: int
    crash_ms: int
    cut_ms: int
    refuse: bool
    restart_ms: int
    """The longest time that a crashed node is down."""
    crash_after: str
    """A node often crashes soon after this: it votes ("save"), it is elected ("lead"), or it appends ("append")."""
    election_ms: int
    fetch_entries_max: int
    pause_ms: int


@dataclass
class Simulation:
    seed: int
    make_core: Callable[..., QuorumCore] = QuorumCore
    make_replica: type[Replica] = Replica
    node_count: int = 5
    now_ms: int = 0
    events: list[tuple[int, int, Callable[[], object]]] = field(default_factory=list)
    replicas: dict[int, Replica] = field(default_factory=dict)
    cuts: set[tuple[int, int]] = field(default_factory=set)
    leaders: dict[int, tuple[int, int]] = field(default_factory=dict)
    digests: dict[tuple[int, int], int] = field(default_factory=dict)
    committed: list[int] = field(default_factory=list)
    """The digest after each committed entry."""
    is_healed: bool = False
    event_count: int = 0
    proposal_count: int = 0
    changes: int = 0

    def __post_init__(self) -> None:
        self.random = random = Random(self.seed)
        self.faults = _Faults(
            loss=random.choice((0.0, 0.02, 0.1, 0.3)),
            repeat=random.choice((0.0, 0.05)),
            delay_ms=random.choice((1, 5, 30, 150)),
            disk_ms=random.choice((0, 2, 20, 100)),
            crash_ms=random.choice((0, 300, 1_000, 3_000)),
            cut_ms=random.choice((0, 300, 1_000)),
            refuse=random.random() < 0.5,
            restart_ms=random.choice((20, 200, 1_500)),
            crash_after=random.choice(("", "", "save", "lead", "append")),
            election_ms=random.choice((60, 200, 200)),
            fetch_entries_max=random.choice((1, 2, 4)),
            pause_ms=random.choice((0, 0, 300, 1_500)),
        )
        self.is_static = random.random() < 0.25
        self.voter_count = random.choice((1, 2, 3, 3, 3, 5))
        self._sequence = 0
        self._requests: dict[int, Callable[[Response], None]] = {}
        self._next_request = 1
        self._ticks: dict[int, int] = {}
        self._paused_until: dict[int, int] = {}

    # -- the run ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        self._start_nodes()
        self._every(7, 60, self._propose)
        if self.faults.crash_ms:
            self._every(1, self.faults.crash_ms, self._crash)
        if self.faults.cut_ms:
            self._every(1, self.faults.cut_ms, self._cut)
        if self.faults.pause_ms:
            self._every(1, self.faults.pause_ms, self._pause)
        self._every(50, 600, self._snapshot)
        if not self.is_static:
            self._every(50, 500, self._change_voters)
        self._run_until(FAULTS_MS)
        self._heal()
        self._run_until(FAULTS_MS + HEALED_MS // 2)
        before = len(self.committed)
        self._run_until(FAULTS_MS + HEALED_MS)
        self._check_progress(before)

    def _run_until(self, end_ms: int) -> None:
        while self.events and self.events[0][0] <= end_ms:
            self.now_ms, _, action = heapq.heappop(self.events)
            self.event_count += 1
            action()
        self.now_ms = end_ms

    def _start_nodes(self) -> None:
        voters = Voters(voter(node_id) for node_id in range(1, self.voter_count + 1))
        static = Voters(
            dataclasses.replace(each, key=each.key._replace(directory_id=b"\0" * 16)) for each in voters
        )
        addresses = tuple((each.endpoints[0].host, each.endpoints[0].port) for each in voters)
        for node_id in range(1, max(self.node_count, self.voter_count) + 1):
            is_voter = node_id <= self.voter_count
            replica = self.make_replica(
                key(node_id),
                self._send,
                self._respond,
                dataclasses.replace(TIMEOUTS, election_ms=self.faults.election_ms),
                static=static if self.is_static else Voters(()),
                bootstrap=addresses,
                log=MemoryLog(voters if is_voter and not self.is_static else None),
                endpoints=endpoints(node_id),
                fetch_entries_max=self.faults.fetch_entries_max,
                on_ready=self._on_ready,
                schedule_disk=self._disk,
                make_core=self.make_core,
                keeps_high_watermark=True,
            )
            self.replicas[node_id] = replica
            self._at(self.random.randrange(50), lambda replica=replica: self._start(replica))  # type: ignore[misc]

    def _start(self, replica: Replica) -> None:
        replica.start(self.now_ms, Random(self.random.random()))
        self._after(replica)

    # -- faults -------------------------------------------------------------------------------------------------------

    def _propose(self) -> None:
        for replica in self.replicas.values():
            if replica.is_up and replica.core.is_leader:
                self.proposal_count += 1
                replica.propose(f"p{self.proposal_count}", self.now_ms)
                self._after(replica)

    def _crash(self) -> None:
        self._crash_node(self.random.choice(list(self.replicas.values())))

    def _crash_soon(self, replica: Replica, what: str) -> None:
        if self.faults.crash_after == what and self.random.random() < 0.3:
            incarnation = replica.incarnation
            delay_ms = self.random.randrange(2 * self.faults.delay_ms + 2)
            self._at(delay_ms, lambda: replica.incarnation == incarnation and self._crash_node(replica))

    def _crash_node(self, replica: Replica) -> None:
        random = self.random
        if not replica.is_up or self.is_healed:
            return
        replica.crash(
            keep_offset=random.randrange(replica.log.start_offset, replica.log.end_offset + 1),
            keep_save=random.random() < 0.5,
            undo_truncation=random.random() < 0.5,
        )
        self._at(random.randrange(1, self.faults.restart_ms), lambda: self._start(replica))

    def _cut(self) -> None:
        if self.is_healed:
            return
        random = self.random
        node_ids = list(self.replicas)
        kind = random.random()
        if kind < 0.3:
            self.cuts.clear()
        elif kind < 0.6:  # two halves
            group = set(random.sample(node_ids, random.randrange(1, len(node_ids))))
            self.cuts = {(a, b) for a in node_ids for b in node_ids if (a in group) != (b in group)}
        elif kind < 0.8:  # one direction of some links
            for _ in range(3):
                self.cuts.add((random.choice(node_ids), random.choice(node_ids)))
        else:  # one node alone
            alone = random.choice(node_ids)
            self.cuts = {(a, b) for a in node_ids for b in node_ids if alone in (a, b)}

    def _pause(self) -> None:
        """As SIGSTOP: messages, timers and disk wait for the node."""
        if not self.is_healed:
            node_id = self.random.choice(list(self.replicas))
            self._paused_until[node_id] = self.now_ms + self.random.randrange(1_000)

    def _unless_paused(self, replica: Replica, action: Callable[[], object]) -> Callable[[], object]:
        def run() -> None:
            wait_ms = self._paused_until.get(replica.node_id, 0) - self.now_ms
            if wait_ms > 0:
                self._at(wait_ms, run)
            else:
                action()

        return run

    def _snapshot(self) -> None:
        replica = self.random.choice(list(self.replicas.values()))
        if not replica.is_up or replica.core.is_log_busy:
            return
        end_offset = min(replica.core.high_watermark, replica.synced_count)
        if end_offset > replica.log.start_offset:
            history = replica.core.history.before(end_offset)
            replica.log.take_snapshot(end_offset, history.latest if history.kraft_version else None)
            replica.core.history.drop_before(end_offset)

    def _change_voters(self) -> None:
        leaders = [replica for replica in self.replicas.values() if replica.is_up and replica.core.is_leader]
        if not leaders or self.is_healed:
            return
        self.changes += 1
        leader = self.random.choice(leaders)
        node_id = self.random.choice(list(self.replicas))
        request_id = self._number(lambda response: None)
        if leader.core.voters.get(node_id) is None:
            leader.step(AddVoterRequest(request_id, voter(node_id), 500), self.now_ms)
        else:
            leader.step(RemoveVoterRequest(request_id, key(node_id), 500), self.now_ms)
        self._after(leader)

    def _heal(self) -> None:
        self.is_healed = True
        self.cuts.clear()
        self.faults = _Faults(0.0, 0.0, 2, 1, 0, 0, self.faults.refuse, 1, "", 200, 4, 0)
        self._paused_until.clear()

    # -- the network and the disk -------------------------------------------------------------------------------------

    def _send(self, sender: Replica, receiver: Peer, request: Request) -> None:
        target = next(
            replica for replica in self.replicas.values() if replica.endpoints[0].port == receiver.port
        )
        incarnation = sender.incarnation

        def answered(response: Response) -> None:
            snapshot = target.log.snapshot if isinstance(response, FetchSnapshotResponse) else None
            body = dataclasses.replace(response, request_id=request.request_id)
            self._carry(target, sender, lambda: self._response(sender, incarnation, body, snapshot))

        def arrives() -> None:
            if target.is_up:
                target.step(dataclasses.replace(request, request_id=self._number(answered)), self.now_ms)
                self._after(target)
            elif self.faults.refuse and not isinstance(request, FetchSnapshotRequest):
                failed = RequestFailed(request.request_id, refused=True)
                self._carry(target, sender, lambda: self._response(sender, incarnation, failed, None))

        self._carry(sender, target, arrives)

    def _response(self, receiver: Replica, incarnation: int, body: Any, snapshot: Snapshot | None) -> None:
        if not receiver.is_up or receiver.incarnation != incarnation:
            return  # its connection is gone
        if isinstance(body, FetchSnapshotResponse):
            if body.error is ErrorCode.NONE and snapshot is not None:
                receiver.install(body, snapshot, self.now_ms)
            else:
                receiver.core.snapshot_failed(self.now_ms)
                receiver.work(self.now_ms)
        else:
            receiver.step(body, self.now_ms)
        self._after(receiver)

    def _respond(self, sender: Replica, response: Response) -> None:
        answered = self._requests.pop(response.request_id, None)
        if answered is None:
            raise Violation(f"a second response: {response}")
        answered(response)

    def _carry(self, sender: Replica, receiver: Replica, arrives: Callable[[], None]) -> None:
        random, faults = self.random, self.faults
        copies = 2 if random.random() < faults.repeat else 1
        for _ in range(copies):
            if (sender.node_id, receiver.node_id) in self.cuts or random.random() < faults.loss:
                continue
            self._at(1 + random.randrange(faults.delay_ms), self._unless_paused(receiver, arrives))

    def _disk(self, replica: Replica, what: str, done: Callable[[], None]) -> None:
        incarnation = replica.incarnation

        def complete() -> None:
            if replica.is_up and replica.incarnation == incarnation:
                replica.now_ms = self.now_ms
                done()
                replica.work(self.now_ms)
                self._after(replica)

        self._at(self.random.randrange(self.faults.disk_ms + 1), self._unless_paused(replica, complete))

    # -- time ---------------------------------------------------------------------------------------------------------

    def _at(self, delay_ms: int, action: Callable[[], object]) -> None:
        self._sequence += 1
        heapq.heappush(self.events, (self.now_ms + delay_ms, self._sequence, action))

    def _every(self, low_ms: int, high_ms: int, action: Callable[[], None]) -> None:
        def again() -> None:
            action()
            self._at(self.random.randrange(low_ms, high_ms + 1), again)

        self._at(self.random.randrange(low_ms, high_ms + 1), again)

    def _after(self, replica: Replica) -> None:
        """After every event of a node: check it, and arrange its next tick."""
        if not replica.is_up:
            return
        self._check(replica)
        wanted_ms = max(self.now_ms + 1, replica.core.next_tick_ms)
        known_ms = self._ticks.get(replica.node_id, 0)
        if known_ms > self.now_ms and known_ms <= wanted_ms:
            return
        if wanted_ms > FAULTS_MS + HEALED_MS:
            return
        self._ticks[replica.node_id] = wanted_ms
        tick = self._unless_paused(replica, lambda: self._tick(replica, wanted_ms))
        self._at(wanted_ms - self.now_ms, tick)

    def _tick(self, replica: Replica, wanted_ms: int) -> None:
        if self._ticks.get(replica.node_id) == wanted_ms:
            self._ticks[replica.node_id] = 0
        if replica.is_up:
            replica.tick(self.now_ms)
            self._after(replica)

    def _number(self, answered: Callable[[Response], None]) -> int:
        self._next_request += 1
        self._requests[self._next_request] = answered
        return self._next_request

    # -- checks -------------------------------------------------------------------------------------------------------

    def _check(self, replica: Replica) -> None:
        core, log = replica.core, replica.log
        if core.is_leader:
            me = (replica.node_id, replica.incarnation)
            known = self.leaders.setdefault(core.epoch, me)
            if known != me:
                raise Violation(f"epoch {core.epoch} has two leaders: {known} and {me}")
        for index in range(len(log.entries) - 1, -1, -1):
            entry = log.entries[index]
            where = (log.start_offset + index, entry.epoch)
            digest = self.digests.get(where)
            if digest is None:
                self.digests[where] = entry.digest
            elif digest != entry.digest:
                raise Violation(f"logs differ at offset {where[0]} of epoch {entry.epoch}")
            else:
                break

    def _on_ready(self, replica: Replica, ready: Ready) -> None:
        log = replica.log
        if ready.hard_state is not None:
            self._crash_soon(replica, "save")
        if ready.append is not None:
            is_election = isinstance(ready.append, LeaderChange)
            self._crash_soon(replica, "lead" if is_election else "append")
        if ready.leader is not None and ready.leader.leader_id == replica.node_id and replica.core.is_leader:
            self._check_complete(replica)
        if ready.high_watermark is None:
            return
        for end_offset in range(max(len(self.committed), log.start_offset) + 1, ready.high_watermark + 1):
            if end_offset != len(self.committed) + 1:
                raise Violation(f"node {replica.node_id} committed {end_offset} with a hole before")
            self.committed.append(log.digest_at(end_offset))
        # A leader may commit before its own disk, if a majority of the others has synced.
        has_led = (replica.node_id, replica.incarnation) in self.leaders.values()
        if ready.high_watermark > (log.end_offset if has_led else replica.synced_count):
            raise Violation(f"node {replica.node_id} commits {ready.high_watermark} beyond its disk")
        if log.digest_at(ready.high_watermark) != self.committed[ready.high_watermark - 1]:
            raise Violation(f"node {replica.node_id} committed another entry below {ready.high_watermark}")

    def _check_complete(self, leader: Replica) -> None:
        end_offset = len(self.committed)
        if end_offset == 0:
            return
        log = leader.log
        if log.end_offset < end_offset or log.digest_at(end_offset) != self.committed[end_offset - 1]:
            raise Violation(f"leader {leader.node_id} of epoch {leader.core.epoch} lacks committed entries")

    def _check_progress(self, committed_before: int) -> None:
        leaders = [replica for replica in self.replicas.values() if replica.is_up and replica.core.is_leader]
        if len(leaders) != 1:
            raise Violation(f"{len(leaders)} leaders after the faults: {self._states()}")
        if len(self.committed) <= committed_before + 5:
            raise Violation(f"nothing is committed after the faults: {self._states()}")
        for replica in self.replicas.values():
            if replica.core.high_watermark < committed_before:
                raise Violation(f"node {replica.node_id} does not catch up: {self._states()}")

    def _states(self) -> str:
        return "; ".join(
            f"{replica.node_id} {replica.core.role_name} epoch {replica.core.epoch} leader {replica.core.leader_id} "
            f"log {replica.log.start_offset}..{replica.log.end_offset} hw {replica.core.high_watermark} "
            f"voters {list(replica.core.voters.node_ids)}"
            for replica in self.replicas.values()
            if replica.is_up
        )
