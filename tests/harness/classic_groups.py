"""Members of classic groups, played by a test: one call a request, and what was answered, now or later."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from harness.groups import Stage
from penstock.broker.handlers.join_group import in_version
from penstock.coordinator.framing import RecordFraming
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.groups import ClassicGroups
from penstock.coordinator.group.client import Client
from penstock.coordinator.group.records import TYPES
from penstock.coordinator.outcome import Answer, Outcome
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
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

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
INITIAL_DELAY_MS = 3_000
CLIENT = Client("client", "/127.0.0.1")
MEMBER_ID_REQUIRED_VERSION = 4


class Reply(Generic[R]):
    """What came back, if something did; it also is what a connection would have encoded."""

    def __init__(self, response: R | Answer[R], version: int) -> None:
        self._got: list[R] = []
        self._version = version
        if isinstance(response, Answer):
            response.then(self._take)
        else:
            self._take(response)

    def _take(self, response: R) -> None:
        if isinstance(response, JoinGroupResponse):
            in_version(response, self._version)
        codec(type(response), self._version).encode(response)  # type: ignore[arg-type]
        self._got.append(response)

    @property
    def is_waiting(self) -> bool:
        return not self._got

    @property
    def value(self) -> R:
        assert self._got, "no answer yet"
        return self._got[0]

    @property
    def error(self) -> ErrorCode:
        error: ErrorCode = self.value.error_code  # type: ignore[attr-defined]
        return error


class ClassicStage(Stage):
    """A shard that has classic groups alone, loaded and serving."""

    def __init__(
        self, properties: dict[str, str] | None = None, *, is_loaded: bool = True, **options: Any
    ) -> None:
        super().__init__(properties, framing=RecordFraming(TYPES), **options)
        self.classic = ClassicGroups(self.context)
        self.parts.append(self.classic)
        if is_loaded:
            self.classic.loaded()

    def group(self, group_id: str = GROUP) -> ClassicGroup:
        group = self.context.groups[group_id]
        assert isinstance(group, ClassicGroup)
        return group

    def successor(self, properties: dict[str, str] | None = None) -> ClassicStage:
        """The shard as another node, or this one after a restart, would load it now."""
        seed = self.context.around.random.getrandbits(
            32
        )  # ids must be new ones, as those of another node would be
        other = ClassicStage(properties, is_loaded=False, seed=seed)
        other.clock_ms = self.clock_ms
        other.load(self.compacted())
        other.classic.loaded()
        return other

    # -- requests

    def join(
        self,
        member_id: str = "",
        *,
        protocols: dict[str, bytes] | None = None,
        version: int = 9,
        group_id: str = GROUP,
        instance_id: str | None = None,
        protocol_type: str = "consumer",
        session_timeout_ms: int = SESSION_MS,
        rebalance_timeout_ms: int = REBALANCE_MS,
        client: Client = CLIENT,
    ) -> Reply[JoinGroupResponse]:
        protocols = {"range": subscription("topic")} if protocols is None else protocols
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms if version >= 1 else -1,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols.items()
            ],
        )
        return self._reply(self.classic.join(request, client=client, version=version), version)

    def sync(
        self,
        joined: JoinGroupResponse,
        assignments: dict[str, bytes] | None = None,
        *,
        version: int = 5,
        group_id: str = GROUP,
        **changes: Any,
    ) -> Reply[SyncGroupResponse]:
        """As the one who was answered with `joined`."""
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        )
        for name, value in changes.items():
            setattr(request, name, value)
        return self._reply(self.classic.sync(request, version=version), version)

    def heartbeat(
        self, member_id: str, generation: int, *, instance_id: str | None = None, group_id: str = GROUP
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group_id, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        return self._reply(self.classic.heartbeat(request, version=4), 4).error

    def leave(self, *leaving: str | MemberIdentity, version: int = 5) -> LeaveGroupResponse:
        identities = [
            one if isinstance(one, MemberIdentity) else MemberIdentity(member_id=one) for one in leaving
        ]
        request = LeaveGroupRequest(group_id=GROUP, members=identities)
        if version < 3:
            request = LeaveGroupRequest(group_id=GROUP, member_id=identities[0].member_id)
        return self._reply(self.classic.leave(request, version=version), version).value

    def _reply(self, outcome: Outcome[R], version: int) -> Reply[R]:
        return Reply(self.play(outcome), version)

    # -- whole stories

    def enter(self, **options: Any) -> Reply[JoinGroupResponse]:
        """Join as somebody new, with the second request that newer versions want of members that are not static."""
        reply = self.join(**options)
        is_static = options.get("instance_id") is not None
        if is_static or options.get("version", 9) < MEMBER_ID_REQUIRED_VERSION:
            return reply
        assert reply.error is ErrorCode.MEMBER_ID_REQUIRED
        return self.join(reply.value.member_id, **options)

    def assemble(self, *members: dict[str, Any]) -> list[JoinGroupResponse]:
        """A first generation of these members, the leader first; they have joined and not synced."""
        replies = [self.enter(**options) for options in members]
        while any(reply.is_waiting for reply in replies):
            self.advance(INITIAL_DELAY_MS)
        return [reply.value for reply in replies]

    def stabilize(self, *members: dict[str, Any]) -> list[JoinGroupResponse]:
        """A first generation, stable: each member was given its own id as an assignment."""
        joined = self.assemble(*members)
        self.sync_all(joined)
        return joined

    def sync_all(self, joined: list[JoinGroupResponse]) -> None:
        leader_id = joined[0].leader
        assignments = {answer.member_id: answer.member_id.encode() for answer in joined}
        replies = [
            self.sync(answer, assignments if answer.member_id == leader_id else None) for answer in joined
        ]
        assert [reply.error for reply in replies] == [ErrorCode.NONE] * len(joined)


def subscription(*topics: str, version: int = 1) -> bytes:
    message = ConsumerProtocolSubscription(topics=list(topics))
    return version.to_bytes(2, "big") + codec(ConsumerProtocolSubscription, version).encode(message)
