"""What every kind of group has in common, as offsets and the administrators' questions see it."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable

from penstock.coordinator.outcome import CoordinatorRecord
from penstock.protocol.types import Uuid

PartitionCheck = Callable[[Uuid, int], None]
"""Asked for each partition (topic id and index) of a commit; `Refused` refuses the commit as a whole."""


class GroupType(enum.Enum):
    """As ListGroups names them."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    STREAMS = "streams"


class Group(ABC):
    group_id: str
    type: GroupType

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """What ListGroups and DescribeGroups tell, "consumer" for most; "" where nobody ever joined."""

    @abstractmethod
    def state_name(self, *, committed: bool = False) -> str:
        """The state as the protocol writes it: Empty, Stable, PreparingRebalance, Assigning, ..."""

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
        """`Refused` where this member may not commit: unknown, fenced, of a stale generation or epoch, mid-rebalance.

        `version` is that of OffsetCommit or TxnOffsetCommit: some errors are only known to newer clients. A classic
        group also takes a commit as a sign of life. None: any partition will do. In groups with epochs a member that
        is behind may still commit for partitions that it has held since then, and the check tells which (KIP-1251).
        """

    @abstractmethod
    def check_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        """`Refused` where a member says who it is (OffsetFetch from v9 on) and is not, or in another epoch."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether its members read this topic, so that offsets of it must neither expire nor be deleted by hand."""

    @abstractmethod
    def check_offset_delete(self) -> None:
        """`Refused` where offsets must not be deleted: the group is dead, or its members are not of a kind whose
        subscriptions are known. A topic that is subscribed to is refused for itself, see `is_subscribed_to`."""

    @abstractmethod
    def check_delete(self) -> None:
        """`Refused` with NON_EMPTY_GROUP or GROUP_ID_NOT_FOUND where the group may not be deleted."""

    @abstractmethod
    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that remove the group; its offsets are not among them."""

    @abstractmethod
    def offsets_expire_from_ms(self, commit_timestamp_ms: int, *, topic: str) -> int | None:
        """From when on the retention of an offset counts, wall clock; None: it does not expire while this holds."""

    @property
    @abstractmethod
    def is_kept_without_offsets(self) -> bool:
        """Whether the group stays when its last offset has gone: it has members, or waits for some."""
