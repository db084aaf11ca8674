"""Members of classic groups under the control of a test: one call per request, and its response, now or later."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from harness.groups import GroupHarness
from penstock.broker.handlers.join_group import adapt_to_version
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.groups import ClassicGroups
from penstock.coordinator.group.client import Client
from penstock.coordinator.group.records import TYPES
from penstock.coordinator.result import CoordinatorResult, DeferredResponse
from penstock.coordinator.serde import RecordSerde
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
    """The response, once there is one. It is also encoded, as a connection would do."""

    def __init__(self, response: R | DeferredResponse[R], version: int) -> None:
        self._got: list[R] = []
        self._version = version
        if isinstance(response, DeferredResponse):
            response.on_complete(self._take)
        else:
            self._take(response)

    def _take(self, response: R) -> None:
        if isinstance(response, JoinGroupResponse):
            adapt_to_version(response, self._version)
        codec(type(response), self._version).encode(response)  # type: ignore[arg-type]
        self._got.append(response)

    @property
    def is_waiting(self) -> bool:
        return not self._got

    @property
    def value(self) -> R:
        assert self._got, "no response yet"
        return self._got[0]

    @property
    def error(self) -> ErrorCode:
        error: ErrorCode = self.value.error_code  # type: ignore[attr-defined]
        return error


class ClassicHarness(GroupHarness):
    """A loaded shard with classic groups only."""

    def __init__(
        self, properties: dict[str, str] | None = None, *, is_loaded: bool = True, **options: Any
    ) -> None:
        super().__init__(properties, framing=RecordSerde(TYPES), **options)
        self.classic = ClassicGroups(self.context)
        self.parts.append(self.classic)
        if is_loaded:
            self.classic.loaded()

    def group(self, group_id: str = GROUP) -> ClassicGroup:
        group = self.context.groups[group_id]
        assert isinstance(group, ClassicGroup)
        return group

    def successor(self, properties: dict[str, str] | None = None) -> ClassicHarness:
        """The shard as another node, or this one after a restart, would load it now."""
        seed = self.context.dependencies.random.getrandbits(32)  # ids must be new, like those of another node
        other = ClassicHarness(properties, is_loaded=False, seed=seed)
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
        """As the member that got the response `joined`."""
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

    def _reply(self, outcome: CoordinatorResult[R], version: int) -> Reply[R]:
        return Reply(self.play(outcome), version)

    # -- several requests

    def enter(self, **options: Any) -> Reply[JoinGroupResponse]:
        """Join as a new member, with the second request that newer versions require of members that are not static."""
        reply = self.join(**options)
        is_static = options.get("instance_id") is not None
        if is_static or options.get("version", 9) < MEMBER_ID_REQUIRED_VERSION:
            return reply
        assert reply.error is ErrorCode.MEMBER_ID_REQUIRED
        return self.join(reply.value.member_id, **options)

    def assemble(self, *members: dict[str, Any]) -> list[JoinGroupResponse]:
        """The first generation of these members, the leader first. They have joined but not synced."""
        replies = [self.enter(**options) for options in members]
        while any(reply.is_waiting for reply in replies):
            self.advance(INITIAL_DELAY_MS)
        return [reply.value for reply in replies]

    def stabilize(self, *members: dict[str, Any]) -> list[JoinGroupResponse]:
        """The first generation, stable. The assignment of each member is its own id."""
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
