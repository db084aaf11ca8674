"""Runs a text script against cores of the quorum, and compares what happens with what the script expects.

A script is a list of commands. Below each stands `----` and its output; a blank line ends it. Lines with `#` are
comments. Nothing happens between commands: time stands still, and messages wait in their links. Each
node has its own clock.

    cluster 1 2 3 [observers 4] [joining 5] [static] [singly]
                                  start nodes; static: voters in the configuration, not in the log; singly: a fetch
                                  returns one record at most
    advance MS [NODE ...]         time passes, on these nodes or on all
    run MS                        time passes on all nodes and messages are delivered; fetches are not shown
    deliver [FROM TO]             deliver the messages that wait, and those that follow, until nothing waits
    drop [FROM TO]                lose the messages that wait
    cut A B / heal                lose messages between two nodes, in both directions / no more
    elect NODE                    the same as `advance 1000 NODE` and `deliver`; shows only the result
    propose NODE TEXT ...         the leader appends records
    hold NODE save|sync|truncate  the disk does not complete such writes / release NODE: it does
    crash NODE / restart NODE     a power cut: what is not synced is lost
    kill NODE                     as crash, and requests to it are refused, those that it has already, too
    wipe NODE state|disk          while it is down: lose the state file, or all, with a new directory id
    fail NODE                     the requests that wait for this node fail: its process refuses connections
    snapshot NODE OFFSET          write a snapshot and delete the log below
    resign NODE
    start NODE                    start one more controller; it is not a voter
    add NODE at LEADER / remove NODE at LEADER        change the voters
    move NODE PORT                while it is down: it has another endpoint
    status [NODE ...] / log [NODE ...] / endpoints NODE
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid
from penstock.quorum.core import CommittedRecordsLost, QuorumCore
from penstock.quorum.messages import (
    AddVoterRequest,
    ApiVersionsRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Peer,
    RemoveVoterRequest,
    Request,
    RequestFailed,
    Response,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from penstock.quorum.ready import HardState, QuorumTimeouts, Ready
from penstock.quorum.voters import ReplicaKey, VoterEndpoint, Voters
from unit.quorum.replicas import LISTENER, MemoryLog, Replica, Snapshot, endpoints, key, voter


class LowestRandom(Random):
    """Every random choice is the lowest: timeouts in scripts are exact."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 0 if stop is None else start


@dataclass
class _Message:
    sender: int
    receiver: int
    body: Any
    reply_to: int | None = None


@dataclass
class Script:
    make_core: Callable[..., QuorumCore] = QuorumCore
    clocks: dict[int, int] = field(default_factory=dict)
    """The time of each node."""
    replicas: dict[int, Replica] = field(default_factory=dict)
    links: dict[tuple[int, int], deque[_Message]] = field(default_factory=dict)
    cuts: set[tuple[int, int]] = field(default_factory=set)
    held: dict[tuple[int, str], list[Callable[[], None]]] = field(default_factory=dict)
    output: list[str] = field(default_factory=list)
    _roles: dict[int, str] = field(default_factory=dict)
    _requests: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """Number of a request at its receiver -> its sender, its id there, and the receiver."""
    _last_number: int = 0
    _killed: set[int] = field(default_factory=set)
    _bootstrap: tuple[tuple[str, int], ...] = ()
    _snapshots: dict[int, Snapshot] = field(default_factory=dict)

    def run(self, command: str) -> list[str]:
        self.output = []
        name, *words = command.split()
        try:
            getattr(self, f"do_{name}")(*words)
        except CommittedRecordsLost as error:
            self.output.append(f"stopped: {error}")
        return self.output or ["ok"]

    # -- commands -----------------------------------------------------------------------------------------------------

    def do_cluster(self, *words: str) -> None:
        groups: dict[str, list[int]] = {"voters": [], "observers": [], "joining": []}
        group, static, count_max = "voters", False, 4
        for word in words:
            if word == "static":
                static = True
            elif word == "singly":
                count_max = 1
            elif word in groups:
                group = word
            else:
                groups[group].append(int(word))
        voters = Voters(voter(node_id) for node_id in groups["voters"])
        configured = Voters(dataclasses.replace(each, key=ReplicaKey(each.key.node_id)) for each in voters)
        self._bootstrap = tuple((each.endpoints[0].host, each.endpoints[0].port) for each in voters)
        for kind, node_ids in groups.items():
            for node_id in node_ids:
                self.replicas[node_id] = self._replica(
                    node_id,
                    static=configured if static else Voters(()),
                    can_vote=kind != "observers",
                    log=MemoryLog(voters if kind == "voters" and not static else None),
                    endpoints=() if kind == "observers" else endpoints(node_id),
                    auto_join=kind == "joining",
                    fetch_entries_max=count_max,
                )
        for replica in self.replicas.values():
            replica.start(0, LowestRandom())
        self._report_roles()

    def _replica(self, node_id: int, **given: Any) -> Replica:
        self.clocks[node_id] = 0
        return Replica(
            key(node_id),
            self._send,
            self._respond,
            QuorumTimeouts(),
            bootstrap=self._bootstrap,
            on_ready=self._on_ready,
            schedule_disk=self._disk,
            make_core=self.make_core,
            **given,
        )

    def do_start(self, node_id: str) -> None:
        self.replicas[int(node_id)] = self._replica(int(node_id), endpoints=endpoints(int(node_id)))
        self.replicas[int(node_id)].start(0, LowestRandom())
        self._report_roles()

    def do_advance(self, duration_ms: str, *node_ids: str) -> None:
        for replica in self._chosen(node_ids):
            self.clocks[replica.node_id] += int(duration_ms)
            if replica.is_up:
                replica.tick(self.clocks[replica.node_id])
        self._report_roles()

    def do_deliver(self, *ends: str) -> None:
        link = (int(ends[0]), int(ends[1])) if ends else None
        for _ in range(200):
            waiting = [where for where in sorted(self.links) if self.links[where] and link in (None, where)]
            if not waiting:
                return
            for where in waiting:
                self._deliver(self.links[where].popleft())
                self._report_roles()
        self.output.append("... endless")

    def do_drop(self, *ends: str) -> None:
        for where, waiting in self.links.items():
            if not ends or where == (int(ends[0]), int(ends[1])):
                waiting.clear()

    def do_cut(self, one: str, other: str) -> None:
        self.cuts |= {(int(one), int(other)), (int(other), int(one))}

    def do_heal(self) -> None:
        self.cuts.clear()

    def do_run(self, duration_ms: str) -> None:
        for _ in range(int(duration_ms) // 100):
            self.do_advance("100")
            self.do_deliver()
        self.output = [line for line in self.output if "Fetch" not in line]

    def do_elect(self, node_id: str) -> None:
        self.do_advance("1000", node_id)
        self.do_deliver()
        self.output = []
        self.do_status(node_id)

    def do_propose(self, node_id: str, *values: str) -> None:
        for value in values:
            if not self.replicas[int(node_id)].propose(value, self.clocks[int(node_id)]):
                self.output.append(f"{node_id} is not an active leader")

    def do_hold(self, node_id: str, what: str) -> None:
        self.held[int(node_id), what] = []

    def do_release(self, node_id: str) -> None:
        for where in [where for where in self.held if where[0] == int(node_id)]:
            for done in self.held.pop(where):
                done()
        self.replicas[int(node_id)].work(self.clocks[int(node_id)])
        self._report_roles()

    def do_crash(self, node_id: str) -> None:
        self.replicas[int(node_id)].crash()
        for where in [where for where in self.held if where[0] == int(node_id)]:
            del self.held[where]
        for where, waiting in self.links.items():
            if int(node_id) in where:
                waiting.clear()

    def do_kill(self, node_id: str) -> None:
        self.do_crash(node_id)
        self._killed.add(int(node_id))
        for number, (sender, request_id, receiver) in list(self._requests.items()):
            if receiver == int(node_id) and sender >= 0:
                del self._requests[number]
                self.output.append(f"{sender} -> {receiver} refused")
                self._step(sender, RequestFailed(request_id, refused=True))
        self._report_roles()

    def do_restart(self, node_id: str) -> None:
        self._killed.discard(int(node_id))
        self._roles.pop(int(node_id), None)
        self.replicas[int(node_id)].start(self.clocks[int(node_id)], LowestRandom())
        self._report_roles()

    def do_wipe(self, node_id: str, what: str) -> None:
        replica = self.replicas[int(node_id)]
        replica.on_disk = HardState()
        if what == "disk":
            replica.log = MemoryLog()
            replica.key = ReplicaKey(int(node_id), Uuid(bytes([int(node_id) + 100]) * 16))

    def do_fail(self, node_id: str) -> None:
        for where in sorted(self.links):
            waiting = self.links[where]
            if where[1] == int(node_id):
                failed = [message for message in waiting if message.reply_to is None]
                waiting.clear()
                for message in failed:
                    self.output.append(f"{message.sender} -> {message.receiver} refused")
                    self._step(message.sender, RequestFailed(message.body.request_id, refused=True))
        self._report_roles()

    def do_snapshot(self, node_id: str, offset: str) -> None:
        replica = self.replicas[int(node_id)]
        history = replica.core.history.before(int(offset))
        replica.log.take_snapshot(int(offset), history.latest if history.kraft_version else None)

    def do_resign(self, node_id: str) -> None:
        replica = self.replicas[int(node_id)]
        replica.core.resign(self.clocks[int(node_id)])
        replica.work(self.clocks[int(node_id)])
        self._report_roles()

    def do_add(self, node_id: str, _at: str, leader: str) -> None:
        self._ask(int(leader), AddVoterRequest(0, voter(int(node_id)), 5_000))

    def do_remove(self, node_id: str, _at: str, leader: str) -> None:
        self._ask(int(leader), RemoveVoterRequest(0, self.replicas[int(node_id)].key))

    def do_move(self, node_id: str, port: str) -> None:
        """While it is down."""
        self.replicas[int(node_id)].endpoints = (VoterEndpoint(LISTENER, f"host{node_id}", int(port)),)

    def do_status(self, *node_ids: str) -> None:
        for replica in self._chosen(node_ids):
            if not replica.is_up:
                self.output.append(f"{replica.node_id}: down")
                continue
            core = replica.core
            voted = "" if core.hard_state.voted is None else f" voted {core.hard_state.voted.node_id}"
            leader = "" if not core.has_leader else f" leader {core.leader_id}"
            self.output.append(
                f"{replica.node_id}: {core.role_name} epoch {core.epoch}{leader}{voted} "
                f"log {replica.log.start_offset}..{replica.log.end_offset} high watermark {core.high_watermark} "
                f"voters {' '.join(map(str, core.voters.node_ids))}"
            )

    def do_endpoints(self, node_id: str) -> None:
        """The endpoints of the voters, as a node knows them."""
        for each in self.replicas[int(node_id)].core.voters:
            self.output.append(f"{each.key.node_id}: {each.endpoints[0].host}:{each.endpoints[0].port}")

    def do_log(self, *node_ids: str) -> None:
        for replica in self._chosen(node_ids):
            shown = []
            for entry in replica.log.entries:
                value = entry.value
                if isinstance(value, Voters):
                    value = "voters " + ",".join(map(str, value.node_ids))
                shown.append(f"{entry.epoch}:{value}")
            self.output.append(f"{replica.node_id}: from {replica.log.start_offset}  " + "  ".join(shown))

    # -- the network and the disk -------------------------------------------------------------------------------------

    def _send(self, sender: Replica, receiver: Peer, request: Request) -> None:
        for other in self.replicas.values():
            if any(endpoint.port == receiver.port for endpoint in other.endpoints):
                self._put(_Message(sender.node_id, other.node_id, request))

    def _respond(self, sender: Replica, response: Response) -> None:
        number = response.request_id
        receiver, request_id, _ = self._requests.pop(number)
        snapshot = sender.log.snapshot
        if isinstance(response, FetchSnapshotResponse) and snapshot is not None:
            self._snapshots[request_id] = snapshot
        body = dataclasses.replace(response, request_id=request_id)
        if receiver < 0:
            assert isinstance(body, VoterChangeResponse)
            self.output.append(f"{sender.node_id} answers {body.error.name} {body.message or ''}".rstrip())
        else:
            self._put(_Message(sender.node_id, receiver, body, reply_to=request_id))

    def _put(self, message: _Message) -> None:
        where = (message.sender, message.receiver)
        if where not in self.cuts:
            self.links.setdefault(where, deque()).append(message)

    def _deliver(self, message: _Message) -> None:
        receiver = self.replicas[message.receiver]
        where = (message.sender, message.receiver)
        if where in self.cuts or not receiver.is_up:
            if message.receiver in self._killed and message.reply_to is None:
                self.output.append(f"{message.sender} -> {message.receiver} refused")
                self._step(message.sender, RequestFailed(message.body.request_id, refused=True))
            return
        self.output.append(f"{message.sender} -> {message.receiver} {describe(message.body)}")
        body = message.body
        if message.reply_to is None:
            number = self._number_request(message.sender, body.request_id, message.receiver)
            self._step(message.receiver, dataclasses.replace(body, request_id=number))
        elif isinstance(body, FetchSnapshotResponse):
            snapshot = self._snapshots.get(body.request_id)
            assert snapshot is not None
            receiver.install(body, snapshot, self.clocks[message.receiver])
        else:
            self._step(message.receiver, body)

    def _ask(self, node_id: int, request: AddVoterRequest | RemoveVoterRequest) -> None:
        """A request of an administrator."""
        self._step(node_id, dataclasses.replace(request, request_id=self._number_request(-1, 0, node_id)))
        self._report_roles()

    def _number_request(self, sender: int, request_id: int, receiver: int) -> int:
        self._last_number += 1
        self._requests[self._last_number] = (sender, request_id, receiver)
        return self._last_number

    def _step(self, node_id: int, body: Any) -> None:
        self.replicas[node_id].step(body, self.clocks[node_id])

    def _disk(self, replica: Replica, what: str, done: Callable[[], None]) -> None:
        waiting = self.held.get((replica.node_id, what))
        if waiting is None:
            done()
        else:
            waiting.append(done)

    def _on_ready(self, replica: Replica, ready: Ready) -> None:
        if ready.truncate_to is not None:
            self.output.append(f"   {replica.node_id} truncates to {ready.truncate_to}")
        if ready.snapshot is not None:
            self.output.append(
                f"   {replica.node_id} needs snapshot {ready.snapshot.end_offset}-{ready.snapshot.epoch}"
            )
        if ready.high_watermark is not None:
            self.output.append(f"   {replica.node_id} high watermark {ready.high_watermark}")

    def _chosen(self, node_ids: tuple[str, ...]) -> list[Replica]:
        return [self.replicas[int(node_id)] for node_id in node_ids] or list(self.replicas.values())

    def _report_roles(self) -> None:
        for replica in self.replicas.values():
            if replica.is_up:
                core = replica.core
                role = f"{core.role_name} in epoch {core.epoch}"
                if core.role_name == "follower":
                    role += f" of {core.leader_id}"
                if self._roles.get(replica.node_id) != role:
                    self._roles[replica.node_id] = role
                    self.output.append(f"   {replica.node_id} {role}")


def describe(body: Any) -> str:
    name = type(body).__name__.removesuffix("Request")
    match body:
        case VoteRequest():
            kind = "PreVote" if body.pre_vote else "Vote"
            return f"{kind} epoch {body.epoch} log {body.last_offset}@{body.last_epoch}"
        case VoteResponse(error=ErrorCode.NONE):
            return "granted" if body.granted else "denied"
        case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
            successors = ""
            if isinstance(body, EndQuorumEpochRequest):
                successors = " successors " + " ".join(
                    str(each.node_id) for each in body.preferred_candidates
                )
            return f"{name} epoch {body.epoch}{successors}"
        case FetchRequest():
            return f"Fetch epoch {body.epoch} from {body.fetch_offset}@{body.last_fetched_epoch}"
        case FetchResponse(error=ErrorCode.NONE):
            if body.diverging_epoch is not None:
                return f"Fetched diverging at {body.diverging_epoch.offset}@{body.diverging_epoch.epoch}"
            if body.snapshot_id is not None:
                return f"Fetched snapshot {body.snapshot_id.end_offset}-{body.snapshot_id.epoch}"
            return f"Fetched {len(body.records)} records, high watermark {body.high_watermark}"
        case FetchSnapshotRequest():
            return f"FetchSnapshot {body.snapshot_id.end_offset}-{body.snapshot_id.epoch}"
        case AddVoterRequest() | UpdateVoterRequest():
            return f"{name} {body.voter.key.node_id}"
        case RemoveVoterRequest():
            return f"{name} {body.voter.node_id}"
        case ApiVersionsRequest():
            return name
    leader = f", leader {body.leader_id}" if getattr(body, "leader_id", -1) >= 0 else ""
    epoch = f" epoch {body.epoch}" if hasattr(body, "epoch") else ""
    return f"{name} {body.error.name}{epoch}{leader}"


def run_script(
    path: Path, *, rewrite: bool = False, make_core: Callable[..., QuorumCore] = QuorumCore
) -> None:
    """Raise AssertionError with the first command whose output differs; or write the output into the script."""
    script = Script(make_core)
    result: list[str] = []
    lines = path.read_text().splitlines()
    position = 0
    while position < len(lines):
        line = lines[position]
        result.append(line)
        position += 1
        if not line.strip() or line.startswith("#"):
            continue
        actual = script.run(line)
        expected: list[str] = []
        if position < len(lines) and lines[position] == "----":
            position += 1
            while position < len(lines) and lines[position].strip():
                expected.append(lines[position])
                position += 1
        if not rewrite:
            shown = "\n".join(actual)
            assert actual == expected, (
                f"{path.name}: {line}\nexpected:\n{chr(10).join(expected)}\nactual:\n{shown}"
            )
        result += ["----", *actual]
    if rewrite:
        path.write_text("\n".join(result) + "\n")
