"""What the decisions of the active controller read: the image of all appended records, and soft state.

Soft state is not in the metadata log. A controller builds it when it becomes active, and drops it when it resigns. It
follows the image of the appended records, committed or not, because decisions are made on that image.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from penstock.config.broker import BrokerSettings
from penstock.controller.broker_index import BrokerIndex, PartitionKey
from penstock.controller.heartbeats import BrokerSessions
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import MetadataImage
from penstock.metadata.settings import DynamicSettings


@dataclass(slots=True)
class Search:
    """How far the balancer has searched the partitions of a broker for those that can move to another one."""

    window_count: int
    position: int = 0
    """The first window that may have such partitions."""


@dataclass(slots=True)
class Balancing:
    """What the balancer remembers from its last decision."""

    filling: tuple[int, ...] = ()
    """Brokers that it fills with replicas."""
    searches: dict[tuple[int, int], Search] = field(default_factory=dict)
    """The present round of searches, by source and target."""
    has_moved: bool = False
    """Whether this round has found something to move."""
    is_stuck: bool = False
    """Whether the last round has found nothing, although brokers have too few replicas or must be drained."""


class ControllerState:
    def __init__(
        self,
        image: MetadataImage,
        *,
        node_id: int,
        cluster_id: str,
        dynamic: DynamicSettings,
        rng: random.Random,
        now_ms: int,
    ) -> None:
        self.image = image
        """The image of all appended records."""
        self.node_id = node_id
        """The id of this controller."""
        self.cluster_id = cluster_id
        self.dynamic = dynamic
        self.random = rng
        self.now_ms = now_ms
        """The monotonic time of the present decision."""
        self.next_offset = -1
        """The offset of the first record of the present decision."""
        self.balancing = Balancing()
        self.leaderless: list[PartitionKey] = []
        """Partitions without a leader that the present round of elections has not examined yet."""
        self.index = BrokerIndex.build(image)
        self.sessions = BrokerSessions.build(image, now_ms, self.settings.get("broker.session.timeout.ms"))

    @property
    def settings(self) -> BrokerSettings:
        return self.dynamic.of_broker(self.image)

    def apply(self, delta: MetadataDelta) -> None:
        """The records of a decision are appended."""
        assert delta.before is self.image
        self.image = delta.image
        self.index.apply(delta)
        self.sessions.apply(delta, self.now_ms)
