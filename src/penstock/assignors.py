"""Who reads what in a classic group: see `penstock.client.group.assignors`, and write your own as an `Assignor`."""

from penstock.client.group.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    GroupToAssign,
    MemberToAssign,
    RangeAssignor,
    RoundRobinAssignor,
    Share,
    StickyAssignor,
    Tenure,
)

__all__ = [
    "Assignor",
    "CooperativeStickyAssignor",
    "GroupToAssign",
    "MemberToAssign",
    "RangeAssignor",
    "RoundRobinAssignor",
    "Share",
    "StickyAssignor",
    "Tenure",
]
