"""The metadata of the cluster at one offset of the metadata log, as an immutable value.

A handler reads `cache.image` once and works on one consistent image, even if it waits. `image.apply(records, ...)`
returns a `MetadataDelta` whose `.image` is the next image; both share the unchanged parts. A change of one topic copies
two dictionaries of references: about 0.1 ms with 10,000 topics (measured, Python 3.11). A batch that creates a thousand
topics copies them once. `replay` applies the records.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.metadata.resources import ConfigResource
from penstock.protocol.types import Uuid

if TYPE_CHECKING:
    from penstock.metadata.delta import MetadataDelta

NO_LEADER = -1
NO_SETTINGS: Mapping[str, str] = {}

KeptKey = tuple[Hashable, ...]
"""The kind of a record, and what identifies it among its kind."""


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """A partition: its replicas, its leader and its in-sync replicas."""

    replicas: tuple[int, ...]
    """Node ids in order of preference: the first is the preferred leader."""
    isr: tuple[int, ...]
    leader: int
    """A member of `isr`, or NO_LEADER."""
    leader_epoch: int
    """Incremented whenever the leader changes or an ISR member may have lost data. It fences clients and followers."""
    partition_epoch: int
    """Incremented with every change of this partition."""
    directories: tuple[Uuid, ...]
    """The log directory of each of `replicas` (KIP-858)."""
    is_recovering: bool = False
    """The leader was elected from outside the ISR and has not confirmed its log yet (KIP-704)."""
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    eligible_leaders: tuple[int, ...] = ()
    """Eligible leader replicas: not in the ISR, but known to have all committed records (KIP-966)."""
    last_known_leaders: tuple[int, ...] = ()

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def replication_factor(self) -> int:
        """That of the target, if the partition is being reassigned."""
        return len(self.replicas) - len(self.removing_replicas)


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic and its partitions."""

    name: str
    topic_id: Uuid
    partitions: tuple[PartitionImage, ...]
    """Partition n is at index n, without gaps."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a listener of a node."""

    listener: str
    host: str
    port: int
    security_protocol: int
    """0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""


@dataclass(frozen=True, slots=True)
class FeatureRange:
    """The supported levels of one feature, both ends included."""

    min_level: int
    max_level: int

    def __contains__(self, level: int) -> bool:
        return self.min_level <= level <= self.max_level

    def __str__(self) -> str:
        return f"{self.min_level}-{self.max_level}"


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """The registration of a broker."""

    node_id: int
    epoch: int
    """The offset of its registration. A request with an older epoch comes from an earlier process."""
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, FeatureRange]
    rack: str | None
    is_fenced: bool
    """Registered, but cannot lead partitions, and is not shown to clients."""
    in_controlled_shutdown: bool
    directories: tuple[Uuid, ...]
    cordoned_directories: tuple[Uuid, ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether it can lead partitions and be in an ISR."""
        return not self.is_fenced and not self.in_controlled_shutdown

    def endpoint(self, listener: str) -> Endpoint | None:
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return None


@dataclass(frozen=True, slots=True)
class ControllerImage:
    """The registration of a controller (KIP-919)."""

    node_id: int
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, FeatureRange]


@dataclass(frozen=True, slots=True)
class TopicsImage:
    """All topics, by name and by id."""

    by_name: Mapping[str, TopicImage] = field(default_factory=dict)
    names_by_id: Mapping[Uuid, str] = field(default_factory=dict)
    by_unified_name: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names with '.' or '_', by their name in metrics; see `names.unified_name`."""

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
    """All metadata of the cluster."""

    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    """Dynamic settings as text, by resource. A resource without settings is absent."""
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    controllers: Mapping[int, ControllerImage] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    """The finalized levels of all features that are not at 0."""
    next_producer_id: int = 0
    """The first id of the next block of producer ids."""
    kept: Mapping[KeptKey, object] = field(default_factory=dict)
    """Records that no part of a node reads yet, by their keys; see `replay`."""
    offset: int = -1
    """The offset of the last record in this image."""
    epoch: int = 0
    """The leader epoch of that record."""

    def apply(self, records: Iterable[object], *, offset: int, epoch: int) -> MetadataDelta:
        """Apply `records`. The last one has the given offset and leader epoch."""
        from penstock.metadata.replay import ImageBuilder

        builder = ImageBuilder(self)
        for record in records:
            builder.replay(record)
        return builder.finish(offset=offset, epoch=epoch)

    def settings_of(self, resource: ConfigResource) -> Mapping[str, str]:
        return self.configs.get(resource, NO_SETTINGS)


EMPTY_IMAGE = MetadataImage()
