"""What the parts of a group shard share: clocks, timers, timeline, dependencies, and the groups themselves."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.config.broker import BrokerSettings
from penstock.config.group import GroupSettings
from penstock.coordinator.group.group import Group
from penstock.coordinator.shard import ShardContext
from penstock.coordinator.timeline import Timeline, TimelineMap
from penstock.coordinator.timers import Timers
from penstock.metadata.image import MetadataImage


@dataclass(frozen=True, slots=True)
class GroupDependencies:
    """The same for every shard of a node. They are callables, because their values change."""

    image: Callable[[], MetadataImage]
    settings: Callable[[], BrokerSettings]
    group_settings: Callable[[str], GroupSettings]
    random: random.Random


@dataclass(frozen=True, slots=True)
class GroupContext:
    """What the parts of a group shard share."""

    shard: ShardContext
    dependencies: GroupDependencies
    groups: TimelineMap[str, Group] = field(init=False)
    """By id. Only replay adds and removes groups."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", TimelineMap(self.shard.timeline))

    @property
    def timers(self) -> Timers:
        return self.shard.timers

    @property
    def timeline(self) -> Timeline:
        return self.shard.timeline

    def now_ms(self) -> int:
        """Monotonic, for durations."""
        return self.shard.now_ms()

    def wall_ms(self) -> int:
        """For timestamps in records."""
        return self.shard.wall_ms()
