"""What decisions about consumer groups ask for again and again: settings, the assignors, the hash of topics."""

from __future__ import annotations

import enum

from penstock.coordinator.group.consumer.assignors import Assignor, assignors_named
from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.topic_hash import hash_topics
from penstock.metadata.image import MetadataImage, TopicsImage

HASHES_MAX = 1_000  # of different sets of topics; a few for each group is what a shard needs


class MigrationPolicy(enum.Enum):
    """Whether a group with members may change its type, as `group.consumer.migration.policy` says."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def can_upgrade(self) -> bool:
        return self in {MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE}

    @property
    def can_downgrade(self) -> bool:
        return self in {MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE}


class ConsumerSurroundings:
    def __init__(self, context: GroupContext) -> None:
        self.context = context
        self.timers = context.timers
        self.group_settings = context.around.group_settings
        self._settings = context.around.settings
        self._hashes: dict[frozenset[str], tuple[TopicsImage, int]] = {}

    @property
    def image(self) -> MetadataImage:
        return self.context.around.image()

    def session_timeout_ms(self, group_id: str) -> int:
        timeout_ms: int = self.group_settings(group_id).get("consumer.session.timeout.ms")
        return timeout_ms

    def assignment_interval_ms(self, group_id: str) -> int:
        """How long at least lies between two assignments, so that members that come together are given theirs
        together (KIP-1263)."""
        interval_ms: int = self.group_settings(group_id).get("consumer.assignment.interval.ms")
        return interval_ms

    @property
    def regex_refresh_interval_ms(self) -> int:
        interval_ms: int = self._settings().get("group.consumer.regex.refresh.interval.ms")
        return interval_ms

    @property
    def size_max(self) -> int:
        size: int = self._settings().get("group.consumer.max.size")
        return size

    @property
    def classic_size_max(self) -> int:
        size: int = self._settings().get("group.max.size")
        return size

    @property
    def migration_policy(self) -> MigrationPolicy:
        return MigrationPolicy(self._settings().get("group.consumer.migration.policy").lower())

    @property
    def assignors(self) -> dict[str, Assignor]:
        """The default first."""
        return assignors_named(self._settings().get("group.consumer.assignors"))

    def topic_hash(self, names: frozenset[str]) -> int:
        """Kept as long as no topic changes: a hundred members that join one after the other ask for the same one."""
        image = self.image
        known = self._hashes.get(names)
        if known is not None and known[0] is image.topics:
            return known[1]
        if len(self._hashes) >= HASHES_MAX:
            self._hashes.clear()
        computed = hash_topics(names, image)
        self._hashes[names] = (image.topics, computed)
        return computed
