"""What the parts of a group shard share: clocks, timers, timeline, metadata, settings, and the groups themselves."""

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
class Surroundings:
    """The same for every shard of a node; each a question, because the answers change."""

    image: Callable[[], MetadataImage]
    settings: Callable[[], BrokerSettings]
    group_settings: Callable[[str], GroupSettings]
    random: random.Random


@dataclass(frozen=True, slots=True)
class GroupContext:
    shard: ShardContext
    around: Surroundings
    groups: TimelineMap[str, Group] = field(init=False)
    """By id. Only `replay` puts groups in or takes them out, with one exception: a classic group that has no record yet
    is put in by the first join."""

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
