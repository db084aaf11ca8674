"""Consumer groups: the time to form a group, the rate of commits, and the cost of heartbeats.

Both brokers have `group.initial.rebalance.delay.ms=0`, so that work is measured and not a setting.
"""

from __future__ import annotations

import statistics
import time

from bench.connections import ConnectionPool, Link
from bench.line import Group, Line
from bench.members import ClassicGroup, ConsumerGroup, error_of
from bench.peers import Peer
from bench.wire import Wire, new_name, request_frame
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

MEMBERS = 100
PER_MEMBER = 3
REBALANCES = 10  # a round; the median counts. Kafka's falls until its code is compiled
SLOW_REBALANCES = 5  # of KIP-848: both brokers assign once a second at most
COMMIT_S = 2.0
HEARTBEAT_GROUPS = 2000
HEARTBEAT_MEMBERS = 5
HEARTBEAT_RATE = (
    HEARTBEAT_GROUPS * HEARTBEAT_MEMBERS / 3
)  # a second: clients beat every three seconds by default
HEARTBEAT_S = 10.0


def classic_rebalance(peer: Peer) -> dict[str, float]:
    """From the first JoinGroup, which only gets a member id, until all have got their assignments in one generation."""
    topic = _ready(peer, partitions=MEMBERS * PER_MEMBER)
    times = []
    with ConnectionPool(peer.port, MEMBERS) as pool, Wire(peer.port) as wire:
        for _ in range(REBALANCES):
            group = ClassicGroup(new_name("classic"), topic, pool.links, pool, per_member=PER_MEMBER)
            began = time.perf_counter()
            group.start()
            pool.run_until(lambda group=group: group.is_settled)  # type: ignore[misc]
            times.append(time.perf_counter() - began)
            pool.drain()
            _leave(wire, group)
        wire.delete_topic(topic)
    return {"classic group, 100 members assigned": statistics.median(times) * 1000}


def consumer_rebalance(peer: Peer) -> dict[str, float]:
    """From the first heartbeat until all members have confirmed their assignment in one epoch."""
    partitions = MEMBERS * PER_MEMBER
    topic = _ready(peer, partitions=partitions)
    times = []
    with ConnectionPool(peer.port, MEMBERS) as pool, Wire(peer.port) as wire:
        for _ in range(SLOW_REBALANCES):
            group = ConsumerGroup(new_name("consumer"), topic, pool.links, pool, per_member=PER_MEMBER)
            began = time.perf_counter()
            group.start()
            pool.run_until(lambda group=group: group.is_stable)  # type: ignore[misc]
            times.append(time.perf_counter() - began)
            pool.drain()
            state = wire.ask(
                ConsumerGroupDescribeRequest(group_ids=[group.group_id], include_authorized_operations=False),
                ApiKey.CONSUMER_GROUP_DESCRIBE,
            ).groups[0]
            if state.group_state != "Stable":
                raise RuntimeError(f"the group calls itself {state.group_state}: {state.error_message}")
            for member in group.members:
                wire.socket.sendall(member.leave_frame())
                wire.receive()
        wire.delete_topic(topic)
    return {"KIP-848 group, 100 members stable": statistics.median(times) * 1000}


def offset_commits(peer: Peer) -> dict[str, float]:
    """Kafka works on one request of a connection at a time, and gathers those of many connections into one write;
    Penstock gathers those of one connection."""
    return {
        ONE_COMMITTER: _commits_per_s(peer, links=1, in_flight=64, partitions=1),
        TEN_COMMITTERS: _commits_per_s(peer, links=10, in_flight=10, partitions=1),
    }


def wide_commits(peer: Peer) -> dict[str, float]:
    return {WIDE_COMMITTERS: _commits_per_s(peer, links=10, in_flight=10, partitions=50)}


def _commits_per_s(peer: Peer, *, links: int, in_flight: int, partitions: int) -> float:
    topic = _ready(peer, partitions=partitions)
    with ConnectionPool(peer.port, links) as pool, Wire(peer.port) as wire:
        committers = [Committer(link, topic, partitions, in_flight) for link in pool.links]
        for committer in committers:
            committer.start()
        pool.run_for(COMMIT_S / 2)
        before = sum(committer.count for committer in committers)
        began = time.perf_counter()
        pool.run_for(COMMIT_S)
        done = sum(committer.count for committer in committers) - before
        seconds = time.perf_counter() - began
        pool.drain()
        wire.delete_topic(topic)
    return done / seconds


class Committer:
    """Commits the same offsets again and again, for a group of its own that has no members."""

    def __init__(self, link: Link, topic: str, partitions: int, in_flight: int) -> None:
        self._link = link
        self._in_flight = in_flight
        self.frame = request_frame(
            OffsetCommitRequest(
                group_id=new_name("commit"),
                topics=[
                    OffsetCommitRequestTopic(
                        name=topic,
                        partitions=[
                            OffsetCommitRequestPartition(
                                partition_index=index, committed_offset=1000 + index, committed_metadata=""
                            )
                            for index in range(partitions)
                        ],
                    )
                ],
            ),
            ApiKey.OFFSET_COMMIT,
        )
        self.count = 0
        self._response_received = 0

    def start(self) -> None:
        self._link.on_response = self._checked
        self._link.send(self.frame)

    def _checked(self, response: memoryview) -> None:
        """Check the first response; the others must be equal."""
        self._good = bytes(response)
        # The error of the last partition is before the tagged fields of partition, topic and response.
        error = int.from_bytes(response[-5:-3], "big")
        if error:
            raise RuntimeError(f"a commit was refused: {ErrorCode(error)!r}")
        self._link.on_response = self._committed
        self._link.on_read = self._go_on
        self._link.send(self.frame * self._in_flight, self._in_flight)

    def _committed(self, response: memoryview) -> None:
        if response != self._good:
            raise RuntimeError("the response to a commit differs from the first one")
        self._response_received += 1

    def _go_on(self) -> None:
        completed, self._response_received = self._response_received, 0
        self.count += completed
        if completed:
            self._link.send(self.frame * completed, completed)


_hearts: dict[Peer, Heartbeats] = {}


def heartbeats(peer: Peer) -> dict[str, float]:
    """The cost of heartbeats from all members of many groups, which join once and stay for all rounds."""
    if peer not in _hearts:
        _hearts[peer] = Heartbeats(peer)
    return {"2,000 groups heartbeating, CPU": _hearts[peer].cpu_ms_per_s()}


class Heartbeats:
    """One connection a group: with five times as many, one process could not have those of both brokers open."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._frames: list[bytes] = []
        topic = _ready(peer, partitions=HEARTBEAT_MEMBERS)
        with ConnectionPool(peer.port, 50 * HEARTBEAT_MEMBERS) as pool:
            for _ in range(0, HEARTBEAT_GROUPS, 50):
                self._form(pool, topic)
        self._pool = ConnectionPool(peer.port, HEARTBEAT_GROUPS)
        self._turn = 0
        self._answers = 0
        for link in self._pool.links:
            link.on_response = self._response_received

    def _form(self, pool: ConnectionPool, topic: str) -> None:
        """Fifty groups at a time: a connection is blocked while its member waits for the others."""
        groups = [
            ClassicGroup(new_name("beat"), topic, pool.links[at : at + HEARTBEAT_MEMBERS], pool, per_member=1)
            for at in range(0, len(pool.links), HEARTBEAT_MEMBERS)
        ]
        for group in groups:
            group.start()
        pool.run_until(lambda: all(group.is_settled for group in groups))
        pool.drain()
        for group in groups:
            self._frames += [member.heartbeat_frame() for member in group.members]

    def cpu_ms_per_s(self) -> float:
        """Milliseconds of processor time a second, at the rate of clients that beat every three seconds."""
        links, frames, pool = self._pool.links, self._frames, self._pool
        self._answers = 0
        wanted = int(HEARTBEAT_RATE * HEARTBEAT_S)
        cpu_s = self._peer.cpu_s()
        began = time.perf_counter()
        sent = 0
        while self._answers < wanted:
            due = min(wanted, int((time.perf_counter() - began) * HEARTBEAT_RATE))
            while sent < due:
                # The members of a group beat at different times, each on the connection of its group.
                group, member = (
                    self._turn % HEARTBEAT_GROUPS,
                    self._turn // HEARTBEAT_GROUPS % HEARTBEAT_MEMBERS,
                )
                links[group].send(frames[group * HEARTBEAT_MEMBERS + member])
                self._turn += 1
                sent += 1
            pool.turn(0.001)
        return (self._peer.cpu_s() - cpu_s) / (time.perf_counter() - began) * 1000

    def _response_received(self, response: memoryview) -> None:
        error = error_of(response)
        if error:
            raise RuntimeError(f"a heartbeat was refused: {ErrorCode(error)!r}")
        self._answers += 1


def _ready(peer: Peer, *, partitions: int) -> str:
    """A topic to consume, on a broker that serves groups."""
    topic = new_name("topic")
    with Wire(peer.port) as wire:
        wire.create_topic(topic, partitions=partitions)
        wire.await_coordinator()
    return topic


def _leave(wire: Wire, group: ClassicGroup) -> None:
    members = [MemberIdentity(member_id=member.member_id) for member in group.members]
    wire.ask(LeaveGroupRequest(group_id=group.group_id, members=members), ApiKey.LEAVE_GROUP)


ONE_COMMITTER = "offset commits, one connection"
TEN_COMMITTERS = "offset commits, ten connections"
WIDE_COMMITTERS = "offset commits, 50 partitions each"
CONSUMER_GROUP_LINES = [
    Group("rebalance", classic_rebalance, [Line("classic group, 100 members assigned", "ms", False, 0.7)], 5),
    Group("rebalance848", consumer_rebalance, [Line("KIP-848 group, 100 members stable", "ms", False, 1.0)]),
    Group(
        "commits",
        offset_commits,
        [Line(ONE_COMMITTER, "requests/s", True, 2.0), Line(TEN_COMMITTERS, "requests/s", True, 2.0)],
        5,
    ),
    Group("commits50", wide_commits, [Line(WIDE_COMMITTERS, "requests/s", True, 2.0)]),
    Group("heartbeats", heartbeats, [Line("2,000 groups heartbeating, CPU", "ms/s", False, 0.7)]),
]
