"""One member of a consumer group: how it describes itself, and how far it has come. A value that never changes."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

from penstock.coordinator.group.consumer.assignment import NOTHING, Assignment, Owned
from penstock.coordinator.group.member_epochs import LEAVING_EPOCH
from penstock.coordinator.group.records.consumer import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    OwnedTopicPartitions,
)


class MemberState(enum.IntEnum):
    """As records write it."""

    STABLE = 0
    """It has what it shall have in its epoch, and knows."""
    UNREVOKED_PARTITIONS = 1
    """It has been told to give up partitions and has not said yet that it did."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not given up yet."""
    UNKNOWN = 127
    """Written by newer software. Such a member has to begin anew."""

    @classmethod
    def read(cls, value: int) -> MemberState:
        return cls(value) if value in _STATES else cls.UNKNOWN


_STATES = frozenset(MemberState)


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    """An answer may be lost: a member may come with the epoch before, if it has nothing that it should not have."""
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    """How long it may take to give up partitions."""
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    """By name."""
    regex: str = ""
    """Topics by regular expression; empty: none."""
    assignor: str | None = None
    """The assignor that it would like."""
    assigned: Owned = field(default_factory=lambda: NOTHING)
    revoking: Owned = field(default_factory=lambda: NOTHING)
    """Its own still, but it has been told to give it up."""
    classic: ClassicMemberMetadata | None = None
    """Of a member that speaks the classic protocol."""

    @property
    def is_classic(self) -> bool:
        return self.classic is not None

    @property
    def has(self) -> Assignment:
        """All that it may be reading."""
        return {
            topic_id: frozenset((*self.assigned.get(topic_id, ()), *self.revoking.get(topic_id, ())))
            for topic_id in {**self.assigned, **self.revoking}
        }

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.epoch == assignment_epoch and self.state is MemberState.STABLE

    def moved_to(self, epoch: int, *, state: MemberState, assigned: Owned, revoking: Owned) -> ConsumerMember:
        return replace(
            self, epoch=epoch, previous_epoch=self.epoch, state=state, assigned=assigned, revoking=revoking
        )

    # -- as records

    def described_by(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def placed_by(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.read(value.state),
            assigned=_read_owned(value.assigned_partitions, value.member_epoch),
            revoking=_read_owned(value.partitions_pending_revocation, value.member_epoch),
        )

    def displaced(self) -> ConsumerMember:
        """Without a place in the group, as between the records that remove it."""
        return replace(
            self, epoch=LEAVING_EPOCH, previous_epoch=LEAVING_EPOCH, assigned=NOTHING, revoking=NOTHING
        )


def _read_owned(topics: list[OwnedTopicPartitions], member_epoch: int) -> Owned:
    """Software before 4.3 did not write the epochs: then they are taken to be the member's own."""
    owned: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            owned[topic.topic_id] = dict.fromkeys(topic.partitions, max(member_epoch, 0))
        else:
            owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned  # type: ignore[return-value]
