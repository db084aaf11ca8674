"""What all roles have in common. A method that a role does not need does nothing here."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from penstock.protocol.types import ZERO_UUID
from penstock.quorum.messages import Peer, Response, VoteRequest

if TYPE_CHECKING:
    from penstock.quorum.core import QuorumCore


class RoleName(StrEnum):
    UNATTACHED = "unattached"
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"


class Role:
    name: ClassVar[RoleName]

    def __init__(self, core: QuorumCore) -> None:
        self.core = core

    def enter(self, now_ms: int) -> None:
        """The core has this role now."""

    def leave(self, now_ms: int) -> None:
        """The core has another role already."""

    def tick(self, now_ms: int) -> None:
        """Do what is due: send requests, or change the role. Called after every event, too."""
        raise NotImplementedError

    @property
    def next_tick_ms(self) -> int:
        raise NotImplementedError

    def grants(self, request: VoteRequest, now_ms: int, *, is_up_to_date: bool) -> bool:
        """Whether to grant a vote in the current epoch."""
        raise NotImplementedError

    def voted(self, now_ms: int) -> None:
        """The vote was granted to another replica."""

    def saved(self, now_ms: int) -> None:
        """The state of this epoch is on disk."""

    def received(self, sender: Peer, response: Response, now_ms: int) -> None:
        """A response to a request of this role, from a node that does not know more about epoch and leader."""

    def request_failed(self, receiver: Peer, now_ms: int, *, refused: bool) -> None:
        """No response comes."""

    def appended(self, now_ms: int) -> None:
        """The own log grew."""

    def synced(self, now_ms: int) -> None:
        """More of the own log is on disk."""


def has_voted_for(request: VoteRequest, core: QuorumCore) -> bool:
    """Whether the vote of this epoch went to the candidate already: a repeated request gets the same answer."""
    voted = core.hard_state.voted
    if voted is None or voted.node_id != request.candidate.node_id:
        return False
    return voted.directory_id in (request.candidate.directory_id, ZERO_UUID)


def may_vote(core: QuorumCore) -> bool:
    """Whether this replica still has its vote in the current epoch."""
    return core.hard_state.voted is None and not core.has_leader and not core.is_vote_lost
