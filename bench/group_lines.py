"""Consumer groups: how fast they form, how fast they commit, what it costs to keep them.

Both brokers wait for no latecomers (`group.initial.rebalance.delay.ms=0`), so that work is
measured and not a setting.
"""

from __future__ import annotations

import statistics
import time

from bench.crowd import Crowd, Link
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
CROWD_GROUPS = 2000
CROWD_MEMBERS = 5
CROWD_RATE = CROWD_GROUPS * CROWD_MEMBERS / 3  # a second: clients beat every three seconds by default
CROWD_S = 10.0


def classic_rebalance(peer: Peer) -> dict[str, float]:
    """From the first JoinGroup, which only gets a member id, until all have got their assignments in one generation."""
    topic = _ready(peer, partitions=MEMBERS * PER_MEMBER)
    times = []
    with Crowd(peer.port, MEMBERS) as crowd, Wire(peer.port) as wire:
        for _ in range(REBALANCES):
            group = ClassicGroup(new_name("classic"), topic, crowd.links, crowd, per_member=PER_MEMBER)
            began = time.perf_counter()
            group.start()
            crowd.run_until(lambda group=group: group.is_settled)  # type: ignore[misc]
            times.append(time.perf_counter() - began)
            crowd.fall_silent()
            _leave(wire, group)
        wire.delete_topic(topic)
    return {"classic group, 100 members assigned": statistics.median(times) * 1000}


def consumer_rebalance(peer: Peer) -> dict[str, float]:
    """From the first heartbeat until all members have told, in one epoch, that they own what they were given."""
    partitions = MEMBERS * PER_MEMBER
    topic = _ready(peer, partitions=partitions)
    times = []
    with Crowd(peer.port, MEMBERS) as crowd, Wire(peer.port) as wire:
        for _ in range(SLOW_REBALANCES):
            group = ConsumerGroup(new_name("consumer"), topic, crowd.links, crowd, per_member=PER_MEMBER)
            began = time.perf_counter()
            group.start()
            crowd.run_until(lambda group=group: group.is_stable)  # type: ignore[misc]
            times.append(time.perf_counter() - began)
            crowd.fall_silent()
            state = wire.ask(
                ConsumerGroupDescribeRequest(group_ids=[group.group_id], include_authorized_operations=False),
                ApiKey.CONSUMER_GROUP_DESCRIBE,
            ).groups[0]
            if state.group_state != "Stable":
                raise RuntimeError(f"the group calls itself {state.group_state}: {state.error_message}")
            for member in group.members:
                wire.socket.sendall(member.leave_frame())
                wire.answer()
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
    with Crowd(peer.port, links) as crowd, Wire(peer.port) as wire:
        committers = [Committer(link, topic, partitions, in_flight) for link in crowd.links]
        for committer in committers:
            committer.start()
        crowd.run_for(COMMIT_S / 2)
        before = sum(committer.count for committer in committers)
        began = time.perf_counter()
        crowd.run_for(COMMIT_S)
        done = sum(committer.count for committer in committers) - before
        seconds = time.perf_counter() - began
        crowd.fall_silent()
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
        self._answered = 0

    def start(self) -> None:
        self._link.on_answer = self._checked
        self._link.send(self.frame)

    def _checked(self, answer: memoryview) -> None:
        """The first answer is looked at; the others are the same."""
        self._good = bytes(answer)
        # The last partition's error stands before the tagged fields of partition, topic and response.
        error = int.from_bytes(answer[-5:-3], "big")
        if error:
            raise RuntimeError(f"a commit was refused: {ErrorCode(error)!r}")
        self._link.on_answer = self._committed
        self._link.on_read = self._go_on
        self._link.send(self.frame * self._in_flight, self._in_flight)

    def _committed(self, answer: memoryview) -> None:
        if answer != self._good:
            raise RuntimeError("a commit was answered otherwise than the first")
        self._answered += 1

    def _go_on(self) -> None:
        answered, self._answered = self._answered, 0
        self.count += answered
        if answered:
            self._link.send(self.frame * answered, answered)


_hearts: dict[Peer, Heartbeats] = {}


def heartbeats(peer: Peer) -> dict[str, float]:
    """What it costs a broker to hear from all members of many groups; they join once and stay for all rounds."""
    if peer not in _hearts:
        _hearts[peer] = Heartbeats(peer)
    return {"2,000 groups heartbeating, CPU": _hearts[peer].cpu_ms_per_s()}


class Heartbeats:
    """One connection a group: with five times as many, one process could not have those of both brokers open."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._frames: list[bytes] = []
        topic = _ready(peer, partitions=CROWD_MEMBERS)
        with Crowd(peer.port, 50 * CROWD_MEMBERS) as crowd:
            for _ in range(0, CROWD_GROUPS, 50):
                self._form(crowd, topic)
        self._crowd = Crowd(peer.port, CROWD_GROUPS)
        self._turn = 0
        self._answers = 0
        for link in self._crowd.links:
            link.on_answer = self._answered

    def _form(self, crowd: Crowd, topic: str) -> None:
        """Fifty groups at a time: a connection is blocked while its member waits for the others."""
        groups = [
            ClassicGroup(new_name("beat"), topic, crowd.links[at : at + CROWD_MEMBERS], crowd, per_member=1)
            for at in range(0, len(crowd.links), CROWD_MEMBERS)
        ]
        for group in groups:
            group.start()
        crowd.run_until(lambda: all(group.is_settled for group in groups))
        crowd.fall_silent()
        for group in groups:
            self._frames += [member.heartbeat_frame() for member in group.members]

    def cpu_ms_per_s(self) -> float:
        """Milliseconds of processor time a second, at the rate of clients that beat every three seconds."""
        links, frames, crowd = self._crowd.links, self._frames, self._crowd
        self._answers = 0
        wanted = int(CROWD_RATE * CROWD_S)
        cpu_s = self._peer.cpu_s()
        began = time.perf_counter()
        sent = 0
        while self._answers < wanted:
            due = min(wanted, int((time.perf_counter() - began) * CROWD_RATE))
            while sent < due:
                # The members of a group beat at different times, each on the connection of its group.
                group, member = self._turn % CROWD_GROUPS, self._turn // CROWD_GROUPS % CROWD_MEMBERS
                links[group].send(frames[group * CROWD_MEMBERS + member])
                self._turn += 1
                sent += 1
            crowd.turn(0.001)
        return (self._peer.cpu_s() - cpu_s) / (time.perf_counter() - began) * 1000

    def _answered(self, answer: memoryview) -> None:
        error = error_of(answer)
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
