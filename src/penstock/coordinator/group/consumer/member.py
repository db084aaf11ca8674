"""A member of a consumer group."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.coordinator.group.consumer.assignment import NOTHING, Assignment, Owned
from penstock.coordinator.group.modern.member import ModernMember
from penstock.coordinator.group.records.consumer import ClassicMemberMetadata


@dataclass(frozen=True, slots=True)
class ConsumerMember(ModernMember[Owned]):
    topics: frozenset[str] = frozenset()
    """Subscribed by name."""
    regex: str = ""
    """Topics subscribed by regular expression; empty: none."""
    assignor: str | None = None
    """The assignor that the member prefers."""
    classic: ClassicMemberMetadata | None = None
    """Set if the member uses the classic protocol."""
    assigned: Owned = field(default_factory=lambda: NOTHING)
    revoking: Owned = field(default_factory=lambda: NOTHING)

    @property
    def is_classic(self) -> bool:
        return self.classic is not None

    @property
    def owned(self) -> Assignment:
        """All partitions that the member may be reading, those pending revocation included."""
        owned = {topic_id: set(partitions) for topic_id, partitions in self.assigned.items()}
        for topic_id, partitions in self.revoking.items():
            owned.setdefault(topic_id, set()).update(partitions)
        return owned
