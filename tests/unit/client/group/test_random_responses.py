"""Random responses of a coordinator and a random application: a member ends up with its assignment.

At first both are random, with every possible error; then the coordinator behaves, and the member must stabilize.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock.client import errors
from penstock.client.cluster import Cluster, Node, PartitionInfo, Topic, TopicPartition
from penstock.client.group.assignors import MemberAssignment, assignors_of
from penstock.client.group.assignors.wire import write_assignment
from penstock.client.group.classic import ClassicMembership, ClassicSettings
from penstock.client.group.consumer_protocol import ConsumerMembership, ConsumerProtocolSettings
from penstock.client.group.membership import Membership, MemberStatus, RefreshMetadata, Send
from penstock.client.group.types import Subscription
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from penstock.protocol.types import Uuid

SEEDS = 150
STEPS = 120
TOPICS = {"orders": 3, "payments": 2}
ERRORS = [
    ErrorCode.NONE,
    ErrorCode.NONE,
    ErrorCode.NONE,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]


def id_of(name: str) -> Uuid:
    return Uuid(name.encode().ljust(16, b"."))


def cluster_of(topics: dict[str, int]) -> Cluster:
    found = {
        name: Topic(
            name, id_of(name), partitions=tuple(PartitionInfo(index, 1, 0, (1,)) for index in range(n))
        )
        for name, n in topics.items()
    }
    return Cluster(
        nodes={1: Node(1, "host", 9092)},
        topics=found,
        topics_by_id={topic.id: topic for topic in found.values()},
    )


class Play:
    def __init__(self, member: Membership, rng: random.Random) -> None:
        self.member = member
        self.random = rng
        self.now_ms = 1_000
        self.generation = 0
        self.sent: Send | None = None
        self.given: list[TopicPartition] = []

    # Responses of the coordinator

    def answer(self, request: Any, *, error: ErrorCode) -> Any:
        self.generation += self.random.randrange(2)
        match request:
            case JoinGroupRequest():
                metadata = request.protocols[0].metadata
                return JoinGroupResponse(
                    error_code=error,
                    generation_id=self.generation,
                    protocol_name=request.protocols[0].name,
                    leader=self.random.choice(("me", "other")),
                    member_id="me",
                    members=[JoinGroupResponseMember(member_id="me", metadata=metadata)],
                )
            case SyncGroupRequest():
                return SyncGroupResponse(
                    error_code=error, assignment=write_assignment(MemberAssignment(self.given))
                )
            case HeartbeatRequest():
                return HeartbeatResponse(error_code=error)
            case LeaveGroupRequest():
                return LeaveGroupResponse(error_code=error)
            case ConsumerGroupHeartbeatRequest():
                return ConsumerGroupHeartbeatResponse(
                    error_code=error,
                    member_id="me",
                    member_epoch=max(1, self.generation),
                    heartbeat_interval_ms=3_000,
                    assignment=Assignment(
                        topic_partitions=[
                            TopicPartitions(
                                topic_id=id_of(name), partitions=[i for t, i in self.given if t == name]
                            )
                            for name in TOPICS
                        ]
                    ),
                )
            case _:
                raise AssertionError(request)

    # Random steps

    def step(self) -> None:
        match self.random.randrange(10):
            case 0:
                self.now_ms += self.random.choice((1, 100, 3_000, 70_000))
            case 1:
                self.member.note_poll(self.now_ms)
            case 2:
                self.member.next_event()
            case 3:
                self.take_event()
            case 4:
                self.subscribe(*self.random.sample(list(TOPICS), self.random.randint(1, 2)))
            case 5:
                counts = {name: n for name, n in TOPICS.items() if self.random.random() < 0.8}
                self.member.cluster_changed(cluster_of(counts), self.now_ms)
            case 6:
                self.member.commit_fenced(self.random.choice(ERRORS[3:]), self.now_ms)
            case 7 if self.random.random() < 0.2:
                self.leave()
            case _:
                self.work()

    def work(self) -> None:
        if self.sent is None:
            action = self.member.next_action(self.now_ms)
            if isinstance(action, RefreshMetadata):
                self.member.metadata_refreshed(cluster_of(TOPICS), self.now_ms)
            elif isinstance(action, Send):
                self.check(action)
                self.sent = action
            return
        sent, self.sent = self.sent, None
        if self.random.random() < 0.2:
            error = self.random.choice((errors.Disconnected(), errors.TimedOut(), errors.BadArgument("bug")))
            self.member.failed(sent, error, self.now_ms)
        else:
            everything = [TopicPartition(name, index) for name, n in TOPICS.items() for index in range(n)]
            self.given = [each for each in everything if self.random.random() < 0.5]
            response = self.answer(sent.request, error=self.random.choice(ERRORS))
            self.member.answered(sent, response, self.now_ms)

    def check(self, action: Send) -> None:
        """What must never be sent."""
        reconciliation = self.member.reconciliation
        match action.request:
            case JoinGroupRequest():
                assert not reconciliation.is_reconciling, "it joins, and the application has not let go"
            case ConsumerGroupHeartbeatRequest(member_epoch=0, topic_partitions=owned):
                assert not reconciliation.owned, "it joins, and the application has not let go"
                assert owned == []
            case ConsumerGroupHeartbeatRequest(topic_partitions=list() as owned):
                reported = {(topic.topic_id, index) for topic in owned for index in topic.partitions}
                assert reported == {(id_of(name), index) for name, index in reconciliation.owned}

    def subscribe(self, *topics: str) -> None:
        self.member.reset_failure()
        self.member.subscribe(Subscription(frozenset(topics)), self.now_ms)

    def take_event(self) -> None:
        event = self.member.next_event()
        if event is not None:
            self.member.acknowledge(event, self.now_ms)

    def leave(self) -> None:
        """Do what the driver does."""
        self.sent = None
        self.member.reset_failure()
        self.member.leave("unsubscribed", self.now_ms, for_good=self.random.random() < 0.5)
        if not self.member.has_left:
            action = self.member.next_action(self.now_ms)
            assert isinstance(action, Send), "there is something to say"
            if self.random.random() < 0.5:
                self.member.answered(action, self.answer(action.request, error=ErrorCode.NONE), self.now_ms)
        self.member.abandon_leave(self.now_ms)
        self.member.reset_failure()
        self.member.subscribe(Subscription(), self.now_ms)

    def come_to_rest(self) -> None:
        """With a correct coordinator and a cooperating application."""
        if self.sent is not None:
            self.member.failed(self.sent, errors.Disconnected(), self.now_ms)
        self.subscribe(*TOPICS)
        self.given = [TopicPartition("orders", 0), TopicPartition("payments", 1)]
        for _ in range(60):
            self.now_ms += 500
            self.member.note_poll(self.now_ms)
            self.member.cluster_changed(cluster_of(TOPICS), self.now_ms)
            self.take_event()
            action = self.member.next_action(self.now_ms)
            if isinstance(action, RefreshMetadata):
                self.member.metadata_refreshed(cluster_of(TOPICS), self.now_ms)
            elif isinstance(action, Send):
                self.check(action)
                self.member.answered(action, self.answer(action.request, error=ErrorCode.NONE), self.now_ms)


def membership_of(kind: str, instance_id: str | None) -> Membership:
    if kind == "consumer":
        settings = ConsumerProtocolSettings(
            group_id="billing", member_id="me", instance_id=instance_id, poll_interval_ms=60_000
        )
        return ConsumerMembership(settings, now_ms=1_000)
    classic = ClassicSettings(
        group_id="billing", instance_id=instance_id, assignors=assignors_of(kind), poll_interval_ms=60_000
    )
    return ClassicMembership(classic, now_ms=1_000)


@pytest.mark.parametrize("instance_id", [None, "static"])
@pytest.mark.parametrize("kind", ["range", "cooperative-sticky", "consumer"])
def test_a_member_stabilizes_after_any_responses(kind: str, instance_id: str | None) -> None:
    for seed in range(SEEDS):
        rng = random.Random(f"{kind}/{instance_id}/{seed}")
        play = Play(membership_of(kind, instance_id), rng)
        play.subscribe("orders")
        for _ in range(STEPS):
            play.step()
        play.come_to_rest()

        member = play.member
        assert member.failure is None, seed
        assert member.status is MemberStatus.MEMBER, seed
        assert member.reconciliation.owned == frozenset(play.given), seed
        assert member.next_event() is None, seed
