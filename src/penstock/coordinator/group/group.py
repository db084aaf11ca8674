"""The interface of every type of group, for offsets and administration."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable

from penstock.coordinator.result import CoordinatorRecord
from penstock.protocol.types import Uuid

PartitionCheck = Callable[[Uuid, int], None]
"""Called for each partition (topic id and index) of a commit; `Refused` refuses the whole commit."""


class GroupType(enum.Enum):
    """The values are those of ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    STREAMS = "streams"


class Group(ABC):
    group_id: str
    type: GroupType

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """For ListGroups and DescribeGroups: "consumer" for most; "" if no member ever joined."""

    @abstractmethod
    def state_name(self, *, committed: bool = False) -> str:
        """The state in the protocol: Empty, Stable, PreparingRebalance, Assigning, ..."""

    @property
    def is_empty(self) -> bool:
        """No members."""
        return self.state_name() in {"Empty", "Dead"}

    @abstractmethod
    def check_offset_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        is_transactional: bool,
        version: int,
    ) -> PartitionCheck | None:
        """`Refused` if the member may not commit: it is unknown, fenced, has a stale generation or epoch, or the group
        is rebalancing.

        `version` is that of OffsetCommit or TxnOffsetCommit, because only newer clients know some errors. A commit to a
        classic group also extends the member's session. None: the member may commit any partition. In modern groups, a
        member with an older epoch may commit the partitions that it has owned since that epoch (KIP-1251).
        """

    @abstractmethod
    def check_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        """`Refused` if the request has a member id (OffsetFetch v9) that is unknown or has another epoch."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members subscribe to this topic: then its offsets must not expire, and cannot be deleted."""

    @abstractmethod
    def check_offset_delete(self) -> None:
        """`Refused` if no offsets can be deleted: the group is dead, or the coordinator does not know the subscriptions
        of its members. Subscribed topics are refused one by one, see `is_subscribed_to`."""

    @abstractmethod
    def check_delete(self) -> None:
        """`Refused` with NON_EMPTY_GROUP or GROUP_ID_NOT_FOUND if the group cannot be deleted."""

    @abstractmethod
    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that remove the group, without those of its offsets."""

    @abstractmethod
    def offsets_expire_from_ms(self, commit_timestamp_ms: int, *, topic: str) -> int | None:
        """When the retention of an offset starts, wall clock; None: it does not expire in the group's current state."""

    @property
    @abstractmethod
    def is_kept_without_offsets(self) -> bool:
        """Whether the group is kept without offsets: it has members, or expects some to join."""
