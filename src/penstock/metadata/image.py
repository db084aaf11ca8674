"""The cluster's metadata at one offset of the metadata log, as a value that never changes.

A handler takes `cache.image` once and works on one consistent cluster, however long it waits.
`image.apply(records, ...)` gives a `MetadataDelta` whose `.image` is the next value; the parts that no record
touched are shared between the two. A change of one topic copies two dictionaries of references: about 0.1 ms
with 10,000 topics (measured, Python 3.11), and a batch that creates a thousand topics copies them once.
`replay` says what each record does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.metadata.resources import ConfigResource
from penstock.protocol.types import Uuid

if TYPE_CHECKING:
    from penstock.metadata.delta import MetadataDelta

NO_LEADER = -1
NO_SETTINGS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class PartitionImage:
    replicas: tuple[int, ...]
    """Node ids in order of preference: the first is the preferred leader."""
    isr: tuple[int, ...]
    leader: int
    """A member of `isr`, or NO_LEADER."""
    leader_epoch: int
    """Grows whenever the leader changes or an ISR member may have lost data; producers and followers are
    fenced by it."""
    partition_epoch: int
    """Grows with every change of this partition."""
    directories: tuple[Uuid, ...]
    """For each of `replicas`, the log directory that holds it (KIP-858)."""
    is_recovering: bool = False
    """The leader was elected from outside the ISR and has not confirmed its log yet (KIP-704)."""
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    eligible_leaders: tuple[int, ...] = ()
    """Out of the ISR, but known to hold everything that was committed (KIP-966)."""
    last_known_leaders: tuple[int, ...] = ()

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER


@dataclass(frozen=True, slots=True)
class TopicImage:
    name: str
    topic_id: Uuid
    partitions: tuple[PartitionImage, ...]
    """Partition n stands at index n; there are no gaps."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    listener: str
    host: str
    port: int
    security_protocol: int
    """0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""


@dataclass(frozen=True, slots=True)
class FeatureRange:
    """The levels of one feature that some software supports, both ends included."""

    min_level: int
    max_level: int

    def __contains__(self, level: int) -> bool:
        return self.min_level <= level <= self.max_level

    def __str__(self) -> str:
        return f"{self.min_level}-{self.max_level}"


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """One node's registration."""

    node_id: int
    epoch: int
    """The offset of its registration: a request with an older one comes from an incarnation that is gone."""
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, FeatureRange]
    rack: str | None
    is_fenced: bool
    """Registered, but not to be given leadership, nor shown to clients."""
    in_controlled_shutdown: bool
    directories: tuple[Uuid, ...]
    cordoned_directories: tuple[Uuid, ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether it may lead and be in an ISR."""
        return not self.is_fenced and not self.in_controlled_shutdown

    def endpoint(self, listener: str) -> Endpoint | None:
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return None


@dataclass(frozen=True, slots=True)
class ControllerImage:
    """One controller's registration (KIP-919)."""

    node_id: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, FeatureRange]


@dataclass(frozen=True, slots=True)
class TopicsImage:
    by_name: Mapping[str, TopicImage] = field(default_factory=dict)
    names_by_id: Mapping[Uuid, str] = field(default_factory=dict)
    by_unified_name: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names that have '.' or '_', by what they would be called as a metric; see `names.unified_name`."""

    def get(self, name: str) -> TopicImage | None:
        return self.by_name.get(name)

    def with_id(self, topic_id: Uuid) -> TopicImage | None:
        name = self.names_by_id.get(topic_id)
        return None if name is None else self.by_name[name]

    def partition(self, name: str, index: int) -> PartitionImage | None:
        topic = self.by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        return topic.partitions[index]

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def __len__(self) -> int:
        return len(self.by_name)


@dataclass(frozen=True, slots=True)
class MetadataImage:
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    """Dynamic settings as they were given, by resource; a resource without any is absent."""
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    controllers: Mapping[int, ControllerImage] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    """The finalised level of every feature that is not at 0."""
    next_producer_id: int = 0
    """First id of the block that will be given out next."""
    offset: int = -1
    """Offset of the last record that this image holds."""
    epoch: int = 0
    """Leader epoch of that record."""

    def apply(self, records: Iterable[object], *, offset: int, epoch: int) -> MetadataDelta:
        """The change that `records` make, of which the last one stands at `offset` and was written in
        `epoch`."""
        from penstock.metadata.replay import ImageBuilder

        builder = ImageBuilder(self)
        for record in records:
            builder.replay(record)
        return builder.finish(offset=offset, epoch=epoch)

    def settings_of(self, resource: ConfigResource) -> Mapping[str, str]:
        return self.configs.get(resource, NO_SETTINGS)


EMPTY_IMAGE = MetadataImage()
