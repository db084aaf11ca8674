"""What decisions about consumer groups share: settings, assignors, the hash of topics, timeouts of members."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any

from penstock.coordinator.group.consumer.assignors import Assignor, assignors_named
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.modern.timeouts import MemberTimeouts, Timeout
from penstock.coordinator.group.topic_hash import hash_topics
from penstock.coordinator.result import CoordinatorResult
from penstock.metadata.image import MetadataImage, TopicsImage
from penstock.protocol.types import random_uuid, uuid_text

HASHES_MAX = 1_000  # of different sets of topics; a shard needs a few for each group

JOIN = Timeout("join", "it did not rejoin in time")
"""A classic member has to rejoin."""
SYNC = Timeout("sync", "it did not sync in time")
"""A classic member has joined, and has to ask for its assignment."""


class MigrationPolicy(enum.Enum):
    """Whether a group with members may change its type (`group.consumer.migration.policy`)."""

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


class ConsumerContext:
    def __init__(
        self,
        shard: GroupContext,
        find: Callable[[str], ConsumerGroup | None],
        remove: Callable[[ConsumerGroup, Iterable[ConsumerMember]], CoordinatorResult[None]],
    ) -> None:
        self.shard = shard
        self.timers = shard.timers
        self.find = find
        self.remove = remove
        """Remove members from a group."""
        self.timeouts = MemberTimeouts(ConsumerGroup.type, shard.timers, find, remove, JOIN, SYNC)
        self.group_settings = shard.dependencies.group_settings
        self._hashes: dict[frozenset[str], tuple[TopicsImage, int]] = {}

    @property
    def image(self) -> MetadataImage:
        return self.shard.dependencies.image()

    def new_member_id(self) -> str:
        return uuid_text(random_uuid(self.shard.dependencies.random))

    def setting(self, name: str) -> Any:
        return self.shard.dependencies.settings().get(name)

    @property
    def migration_policy(self) -> MigrationPolicy:
        return MigrationPolicy(self.setting("group.consumer.migration.policy").lower())

    @property
    def assignors(self) -> dict[str, Assignor]:
        """The default first."""
        return assignors_named(self.setting("group.consumer.assignors"))

    def topic_hash(self, names: frozenset[str]) -> int:
        """Cached until a topic changes: a hundred members that join one after the other need the same hash."""
        image = self.image
        known = self._hashes.get(names)
        if known is not None and known[0] is image.topics:
            return known[1]
        if len(self._hashes) >= HASHES_MAX:
            self._hashes.clear()
        computed = hash_topics(names, image)
        self._hashes[names] = (image.topics, computed)
        return computed
