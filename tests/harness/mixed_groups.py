"""Classic members in a group that may be of either type, like clients that do not know which.

They rejoin when a heartbeat says so, the leader of a classic group assigns, and no member reads a partition before it
is assigned. An eager member revokes everything before it rejoins. A cooperative one keeps reading, reports what it
owns, and revokes what it is not assigned again.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TypeVar

from harness.consumer_groups import CLIENT, GROUP, REBALANCE_MS, ConsumerHarness, Partitions
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.result import CoordinatorResult, DeferredResponse
from penstock.metadata.errors import Refused
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from penstock.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

R = TypeVar("R")

CLASSIC_SESSION_MS = 30_000
VERSION = 3  # of the consumer protocol


class Phase(enum.Enum):
    OUT = enum.auto()
    JOINING = enum.auto()
    SYNCING = enum.auto()
    IN = enum.auto()


@dataclass
class ClassicConsumer:
    harness: ConsumerHarness
    name: str
    is_eager: bool = False
    topics: list[str] = field(default_factory=lambda: ["water"])
    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    phase: Phase = Phase.OUT
    owned: Partitions = field(default_factory=set)
    last_error: ErrorCode = ErrorCode.NONE
    _join: list[JoinGroupResponse] | None = None
    _sync: list[SyncGroupResponse] | None = None
    _everyone: dict[str, ConsumerProtocolSubscription] = field(default_factory=dict)

    def step(self) -> None:
        """Do the next step; nothing while it waits for a response."""
        if self.phase is Phase.OUT:
            self.join()
        elif self.phase is Phase.JOINING:
            assert self._join is not None
            if self._join:
                self._take_join(self._join[0])
        elif self.phase is Phase.SYNCING:
            self.sync()
        else:
            self.heartbeat()

    # -- requests

    def join(self) -> None:
        if self.is_eager:
            self.owned = set()
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=CLASSIC_SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(
                    name="range" if self.is_eager else "cooperative-sticky", metadata=self._subscription()
                ),
                JoinGroupRequestProtocol(name="any", metadata=self._subscription()),
            ],
        )
        group = self.harness.context.groups.get(GROUP)
        self._join = []
        self.phase = Phase.JOINING
        try:
            if isinstance(group, ConsumerGroup):
                outcome = self.harness.consumer.join(group, request, client=CLIENT, version=9)
            else:
                outcome = self.harness.classic.join(request, client=CLIENT, version=9)
            self._listen(outcome, self._join)
        except Refused as refused:
            self._fail(refused.error)

    def sync(self) -> None:
        if self._sync is not None:
            if self._sync:
                self._take_sync(self._sync[0])
            return
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=_encode_assignment(partitions))
                for member_id, partitions in self._assign().items()
            ],
        )
        group = self.harness.context.groups.get(GROUP)
        self._sync = []
        try:
            if isinstance(group, ConsumerGroup):
                outcome = self.harness.consumer.sync(group, request, version=5)
            else:
                outcome = self.harness.classic.sync(request, version=5)
            self._listen(outcome, self._sync)
        except Refused as refused:
            self._fail(refused.error)
            return
        if self._sync:
            self._take_sync(self._sync[0])

    def heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        group = self.harness.context.groups.get(GROUP)
        try:
            if isinstance(group, ConsumerGroup):
                outcome = self.harness.consumer.classic_heartbeat(group, request, version=4)
            else:
                outcome = self.harness.classic.heartbeat(request, version=4)
            error = self.harness.answer(outcome).error_code
        except Refused as refused:
            error = refused.error
        self.last_error = error
        if error is not ErrorCode.NONE:
            self._fail(error)

    def leave(self) -> LeaveGroupResponse:
        request = LeaveGroupRequest(
            group_id=GROUP,
            members=[MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)],
        )
        group = self.harness.context.groups.get(GROUP)
        self.forget()
        if isinstance(group, ConsumerGroup):
            return self.harness.answer(self.harness.consumer.leave(group, request, version=5))
        return self.harness.answer(self.harness.classic.leave(request, version=5))

    def forget_topic(self, name: str) -> None:
        """The topic is deleted: there is nothing left to read."""
        self.owned = {one for one in self.owned if one[0] != name}

    def lose_answer(self) -> None:
        """The connection is lost: it keeps its partitions and rejoins."""
        self._join = self._sync = None
        self.phase = Phase.OUT

    def forget(self) -> None:
        """It forgets everything and reads nothing."""
        self.member_id, self.generation, self.phase, self.owned = "", -1, Phase.OUT, set()
        self._join = self._sync = None

    # -- responses

    def _listen(self, outcome: CoordinatorResult[R], into: list[R]) -> None:
        response = self.harness.play(outcome)
        if isinstance(response, DeferredResponse):
            response.on_complete(into.append)
        else:
            into.append(response)

    def _take_join(self, response: JoinGroupResponse) -> None:
        self._join = None
        self.last_error = response.error_code
        if response.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id, self.phase = response.member_id, Phase.OUT
        elif response.error_code is not ErrorCode.NONE:
            self._fail(response.error_code)
        else:
            self.member_id, self.generation = response.member_id, response.generation_id
            self.phase, self._sync = Phase.SYNCING, None
            self._everyone = {
                member.member_id: codec(ConsumerProtocolSubscription, VERSION).decode(
                    memoryview(member.metadata), 2
                )[0]
                for member in response.members
            }

    def _take_sync(self, response: SyncGroupResponse) -> None:
        self._sync = None
        self.last_error = response.error_code
        if response.error_code is not ErrorCode.NONE:
            self._fail(response.error_code)
            return
        self.phase = Phase.IN
        self.owned = _decode_assignment(response.assignment) if response.assignment else set()

    def _fail(self, error: ErrorCode) -> None:
        self._join = self._sync = None
        self.last_error = error
        self.phase = Phase.OUT
        if error is not ErrorCode.REBALANCE_IN_PROGRESS:
            self.owned = set()
            self.generation = -1
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member_id = ""

    # -- as leader

    def _assign(self) -> dict[str, Partitions]:
        """All members keep their partitions; free ones go to the member with the fewest."""
        given: dict[str, Partitions] = {}
        taken: Partitions = set()
        for member_id, subscription in self._everyone.items():
            owned = {
                (topic.topic, index) for topic in subscription.owned_partitions for index in topic.partitions
            }
            given[member_id] = {one for one in owned - taken if one[0] in subscription.topics}
            taken |= owned
        for name, topic in sorted(self.harness.image.topics.by_name.items()):
            for index in range(len(topic.partitions)):
                readers = [m for m, subscription in self._everyone.items() if name in subscription.topics]
                if (name, index) not in taken and readers:
                    given[min(readers, key=lambda member_id: len(given[member_id]))].add((name, index))
        return given

    def _subscription(self) -> bytes:
        message = ConsumerProtocolSubscription(
            topics=self.topics, owned_partitions=_by_topic(self.owned), generation_id=self.generation
        )
        return VERSION.to_bytes(2, "big") + codec(ConsumerProtocolSubscription, VERSION).encode(message)


def _by_topic(partitions: Partitions) -> list[TopicPartition]:
    by_topic: dict[str, list[int]] = {}
    for name, index in sorted(partitions):
        by_topic.setdefault(name, []).append(index)
    return [TopicPartition(topic=name, partitions=by_topic[name]) for name in by_topic]


def _encode_assignment(partitions: Partitions) -> bytes:
    message = ConsumerProtocolAssignment(assigned_partitions=_by_topic(partitions))
    return VERSION.to_bytes(2, "big") + codec(ConsumerProtocolAssignment, VERSION).encode(message)


def _decode_assignment(data: bytes) -> Partitions:
    message, _ = codec(ConsumerProtocolAssignment, VERSION).decode(memoryview(data), 2)
    return {(topic.topic, index) for topic in message.assigned_partitions for index in topic.partitions}
