"""Group requests over a plain socket: find a coordinator, join a classic or a consumer group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.requests import ask
from harness.waiting import wait_until
from harness.wire import WireConnection
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.leave_group import LeaveGroupRequest
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

RETRIABLE = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
"""Errors after which a client retries."""


def await_coordinator(connection: WireConnection, group: str) -> None:
    """Wait until groups are served: the first request creates the internal topic."""

    def is_found() -> bool:
        found = ask(connection, FindCoordinatorRequest(key=group, key_type=0), 3)
        assert found.error_code in (ErrorCode.NONE, *RETRIABLE)
        return bool(found.error_code is ErrorCode.NONE)

    def is_served() -> bool:
        request = HeartbeatRequest(group_id=group, generation_id=1, member_id="nobody")
        return ask(connection, request, 3).error_code not in (ErrorCode.NONE, *RETRIABLE)

    wait_until(is_found, f"{group} has a coordinator")
    wait_until(is_served, f"{group} is served")


@dataclass(frozen=True, slots=True)
class JoinedMember:
    group: str
    member_id: str
    generation: int

    def leave(self, connection: WireConnection) -> None:
        request = LeaveGroupRequest(group_id=self.group, member_id=self.member_id)
        assert ask(connection, request, 1).error_code is ErrorCode.NONE


def join(
    connection: WireConnection, group: str, *topics: str, protocol_type: str = "consumer"
) -> JoinedMember:
    """The only member of a stable classic group."""
    await_coordinator(connection, group)
    subscription = codec(ConsumerProtocolSubscription, 0).encode(
        ConsumerProtocolSubscription(topics=list(topics))
    )
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id="",
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0" + subscription)],
    )
    joined: Any = ask(connection, request, 3)
    assert joined.error_code is ErrorCode.NONE
    synced = ask(
        connection,
        SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")],
        ),
        2,
    )
    assert synced.error_code is ErrorCode.NONE
    return JoinedMember(group, joined.member_id, joined.generation_id)


LEAVING_EPOCH = -1


@dataclass(frozen=True, slots=True)
class EpochMember:
    """A member of a consumer group (KIP-848)."""

    group: str
    member_id: str
    epoch: int

    def leave(self, connection: WireConnection) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=LEAVING_EPOCH
        )
        assert ask(connection, request, 1).error_code is ErrorCode.NONE


def join_newer(connection: WireConnection, group: str, *topics: str) -> EpochMember:
    """Join as the only member of a consumer group."""
    await_coordinator(connection, group)
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=f"member of {group}",
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=list(topics),
        topic_partitions=[],
    )
    joined = ask(connection, request, 1)
    assert joined.error_code is ErrorCode.NONE, joined.error_message
    return EpochMember(group, request.member_id, joined.member_epoch)
