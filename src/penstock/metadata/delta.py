"""The difference between two images, for those who act on change: logs to create, leaders to install,
settings to reload."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.metadata.image import MetadataImage, TopicImage
from penstock.metadata.resources import ConfigResource
from penstock.protocol.types import Uuid


@dataclass(frozen=True, slots=True)
class TopicDelta:
    before: TopicImage | None
    after: TopicImage | None
    changed_partitions: tuple[int, ...]
    """Indexes, in ascending order, that are new in `after` or differ from `before`."""

    @property
    def is_created(self) -> bool:
        return self.before is None and self.after is not None

    @property
    def is_deleted(self) -> bool:
        return self.after is None and self.before is not None


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    before: MetadataImage
    image: MetadataImage
    """What holds now."""
    topics: dict[Uuid, TopicDelta]
    """By id, because a name may be deleted and created anew in one delta. In the order of their first
    change."""
    configs: tuple[ConfigResource, ...]
    """Resources that a record named, even where the value stayed the same: KAFKA-14136, a node reloads what
    it names (a keystore whose file was replaced)."""
    brokers: tuple[int, ...]
    """Nodes whose registration changed."""
    features: tuple[str, ...]
