"""One member of a classic group, and what it waits for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from penstock.coordinator.group.client import Client
from penstock.coordinator.outcome import Answer, Outcome
from penstock.coordinator.timers import Action
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from penstock.protocol.messages.sync_group import SyncGroupResponse

Protocols = Mapping[str, bytes]
"""The member's metadata by protocol, in its order of preference."""


class Member:
    """Compared by identity, which also makes it the key of its own session timer."""

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
        """Of a static member (KIP-345), which may come back under a new member id and keep its assignment."""
        self.client = client
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        """It has never been answered since it joined, and can not know its id: a session would be
        pointless."""
        self.join_wait: Answer[JoinGroupResponse] | None = None
        self.sync_wait: Answer[SyncGroupResponse] | None = None
        self.expire: Action = _never
        """What happens when its session ends; set with the first session."""

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_excused(self) -> bool:
        """Whether its silence means nothing, because it waits for this coordinator."""
        return not self.is_new and (self.join_wait is not None or self.sync_wait is not None)

    def has_same_protocols(self, protocols: Protocols) -> bool:
        """Also in the same order, which is a vote."""
        return list(self.protocols.items()) == list(protocols.items())

    def vote(self, candidates: Collection[str]) -> str:
        """The one it likes best, of candidates that every member supports."""
        return next(name for name in self.protocols if name in candidates)

    def forget_session(self) -> None:
        """It is no member any more. What its session's end would do refers to it in turn, so without this it would
        stay, with all its metadata, until memory is collected."""
        self.expire = _never

    def answer_sync(self, response: SyncGroupResponse) -> bool:
        """False where it does not wait for one."""
        wait, self.sync_wait = self.sync_wait, None
        if wait is None:
            return False
        wait.give(response)
        return True


def join_refusal(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None, leader="", members=[])


def sync_refusal(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error, assignment=b"")


def read_protocols(protocols: Iterable[JoinGroupRequestProtocol]) -> Protocols:
    """Where one name is given twice the first counts."""
    found: dict[str, bytes] = {}
    for protocol in protocols:
        found.setdefault(protocol.name, protocol.metadata)
    return found


def rebalance_timeout_of(request: JoinGroupRequest, version: int) -> int:
    """Version 0 does not tell it."""
    return request.session_timeout_ms if version == 0 else request.rebalance_timeout_ms


def _never() -> Outcome[None]:
    raise AssertionError("the session of a member ended that never had one")
