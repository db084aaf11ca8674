"""The input of an assignor."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from penstock.coordinator.group.consumer.assignment import Assignment
from penstock.protocol.types import Uuid


class AssignedMember(NamedTuple):
    instance_id: str | None
    topics: AbstractSet[Uuid]
    """The existing topics that it subscribes to."""
    target: Assignment
    """Its previous target assignment."""


class GroupToAssign(NamedTuple):
    members: Mapping[str, AssignedMember]
    partition_counts: Mapping[Uuid, int]
    """Of every subscribed topic."""
    is_homogeneous: bool
    """Whether all members subscribe to the same topics."""
