"""The state of a member that every type of modern group has. Members are immutable values."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Generic, Self, TypeVar

from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode

A = TypeVar("A")
"""An assignment: partitions or tasks."""

# Member epochs with a special meaning in heartbeats.
JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""A static member leaves temporarily. It keeps this epoch until it rejoins. Kafka 4.3 streams groups do not have it."""

NO_EPOCH = -1
"""In an offset commit: the sender is not a member."""


class MemberState(enum.Enum):
    STABLE = 0
    """The member has its target assignment and has been notified of it."""
    UNREVOKED = 1
    """The member has to revoke partitions or tasks, and has not confirmed it yet."""
    UNRELEASED = 2
    """The member waits for partitions or tasks that other members have not revoked yet."""
    UNKNOWN = 127
    """Written by newer software. The member has to rejoin."""


@dataclass(frozen=True, slots=True)
class ModernMember(Generic[A]):
    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    """A member that missed a response still sends this epoch. It may, if it owns only what is assigned to it."""
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    """How long the member may take to revoke."""
    client_id: str = ""
    client_host: str = ""
    assigned: A = field(kw_only=True)
    revoking: A = field(kw_only=True)
    """Still owned by the member, but pending revocation."""

    @property
    def is_classic(self) -> bool:
        """Whether the member uses the classic protocol. Only consumer groups have such members."""
        return False

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.epoch == target_epoch and self.state is MemberState.STABLE

    def moved_to(self, epoch: int, *, state: MemberState, assigned: A, revoking: A) -> Self:
        return replace(
            self, epoch=epoch, previous_epoch=self.epoch, state=state, assigned=assigned, revoking=revoking
        )

    def check_epoch(self, epoch: int, *, owns_only_assigned: bool) -> None:
        """`Refused` with FENCED_MEMBER_EPOCH, unless `epoch` is the current epoch or that of a lost response."""
        if epoch == self.epoch:
            return
        if not (owns_only_assigned and epoch == self.previous_epoch and epoch < self.epoch):
            raise fenced(f"The member epoch of {self.member_id} is {self.epoch}, not {epoch}")

    def check_state(self, *, owns_nothing: bool) -> None:
        if self.state is MemberState.UNKNOWN and not owns_nothing:
            raise fenced("The member has an unknown state, written by newer software")


def fenced(reason: str) -> Refused:
    return Refused(
        ErrorCode.FENCED_MEMBER_EPOCH, f"{reason}; the member must give up everything it owns and rejoin."
    )
