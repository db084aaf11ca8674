"""A member of a classic group, and the responses that it waits for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from penstock.coordinator.group.client import Client
from penstock.coordinator.result import CoordinatorResult, DeferredResponse
from penstock.coordinator.timers import Action
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from penstock.protocol.messages.sync_group import SyncGroupResponse

Protocols = Mapping[str, bytes]
"""The member's metadata by protocol, in order of preference."""


class Member:
    """Compared by identity, so it is also the key of its session timer."""

    __slots__ = (
        "assignment",
        "client",
        "expire",
        "instance_id",
        "is_new",
        "join_wait",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_wait",
    )

    def __init__(
        self,
        member_id: str,
        *,
        instance_id: str | None,
        client: Client,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        """Of a static member (KIP-345), which may rejoin with a new member id and keep its assignment."""
        self.client = client
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        """It has not got a JoinGroup response yet, so it does not know its id and cannot send heartbeats."""
        self.join_wait: DeferredResponse[JoinGroupResponse] | None = None
        self.sync_wait: DeferredResponse[SyncGroupResponse] | None = None
        self.expire: Action = _never
        """Called when the session expires; set with the first session."""

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a response, and therefore cannot send heartbeats."""
        return not self.is_new and (self.join_wait is not None or self.sync_wait is not None)

    def has_same_protocols(self, protocols: Protocols) -> bool:
        """The order counts too, because it is a vote."""
        return list(self.protocols.items()) == list(protocols.items())

    def vote(self, candidates: Collection[str]) -> str:
        """The protocol that it prefers among `candidates`, which every member supports."""
        return next(name for name in self.protocols if name in candidates)

    def forget_session(self) -> None:
        """It is no longer a member. Breaks the reference cycle with `expire`, so that its metadata is freed at once."""
        self.expire = _never

    def complete_sync(self, response: SyncGroupResponse) -> bool:
        """False if it does not wait for one."""
        wait, self.sync_wait = self.sync_wait, None
        if wait is None:
            return False
        wait.complete(response)
        return True


def join_error(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None, leader="", members=[])


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error, assignment=b"")


def read_protocols(protocols: Iterable[JoinGroupRequestProtocol]) -> Protocols:
    """If a name occurs twice, the first counts."""
    found: dict[str, bytes] = {}
    for protocol in protocols:
        found.setdefault(protocol.name, protocol.metadata)
    return found


def rebalance_timeout_of(request: JoinGroupRequest, version: int) -> int:
    """Version 0 only has a session timeout."""
    return request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms


def _never() -> CoordinatorResult[None]:
    raise AssertionError("a session expired that was never started")
