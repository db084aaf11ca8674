"""A group as an assignor sees it."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from penstock.coordinator.group.consumer.assignment import Assignment
from penstock.protocol.types import Uuid


class AssignedMember(NamedTuple):
    instance_id: str | None
    topics: AbstractSet[Uuid]
    """That it subscribes to and that exist."""
    target: Assignment
    """What it should have had so far."""


class GroupToAssign(NamedTuple):
    members: Mapping[str, AssignedMember]
    partition_counts: Mapping[Uuid, int]
    """Of every topic that a member subscribes to."""
    is_homogeneous: bool
    """All members subscribe to the same topics."""
