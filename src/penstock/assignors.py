"""Partition assignors of classic groups; see `penstock.client.group.assignors`. Subclass `Assignor` to write one."""

from penstock.client.group.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    GroupSubscription,
    MemberAssignment,
    MemberSubscription,
    RangeAssignor,
    ReceivedAssignment,
    RoundRobinAssignor,
    StickyAssignor,
)

__all__ = [
    "Assignor",
    "CooperativeStickyAssignor",
    "GroupSubscription",
    "MemberAssignment",
    "MemberSubscription",
    "RangeAssignor",
    "ReceivedAssignment",
    "RoundRobinAssignor",
    "StickyAssignor",
]
