"""The difference between two images, for parts that act on changes: new logs, new leaders, new settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from penstock.metadata.image import EMPTY_IMAGE, MetadataImage, TopicImage
from penstock.metadata.resources import ConfigResource
from penstock.protocol.types import Uuid

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class TopicDelta:
    """A topic before and after a change."""

    before: TopicImage | None
    after: TopicImage | None
    changed_partitions: tuple[int, ...]
    """Indexes of new and changed partitions, in ascending order."""

    @property
    def is_created(self) -> bool:
        return self.before is None and self.after is not None

    @property
    def is_deleted(self) -> bool:
        return self.after is None and self.before is not None


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """Two images, and what differs between them."""

    before: MetadataImage
    image: MetadataImage
    """The new image."""
    topics: dict[Uuid, TopicDelta]
    """By id, because one delta may delete a topic and create another of the same name. In the order of the first
    change."""
    configs: tuple[ConfigResource, ...]
    """Resources with a config record, even if the value is the same: a broker then reloads a file that the setting
    names, such as a replaced keystore (KAFKA-14136)."""
    brokers: tuple[int, ...]
    """Brokers whose registration changed."""
    features: tuple[str, ...]


def difference(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """The change from one image to a later one that was not built from it: that of a snapshot."""
    return MetadataDelta(
        before=before,
        image=after,
        topics=_changed_topics(before, after),
        configs=_changed_keys(before.configs, after.configs),
        brokers=_changed_keys(before.brokers, after.brokers),
        features=_changed_keys(before.features, after.features),
    )


def as_new(image: MetadataImage) -> MetadataDelta:
    """The whole image as a change, for a part of the node that starts later than the metadata."""
    return difference(EMPTY_IMAGE, image)


def _changed_topics(before: MetadataImage, after: MetadataImage) -> dict[Uuid, TopicDelta]:
    """Deleted topics first: a new topic may have the same name."""
    deltas = {
        topic_id: TopicDelta(before.topics.with_id(topic_id), None, ())
        for topic_id in before.topics.names_by_id
        if topic_id not in after.topics.names_by_id
    }
    for topic in after.topics.by_name.values():
        old = before.topics.with_id(topic.topic_id)
        if old is topic:
            continue
        known = () if old is None else old.partitions
        changed = tuple(
            index
            for index, partition in enumerate(topic.partitions)
            if index >= len(known) or known[index] != partition
        )
        if old is None or changed:
            deltas[topic.topic_id] = TopicDelta(old, topic, changed)
    return deltas


def _changed_keys(before: Mapping[K, V], after: Mapping[K, V]) -> tuple[K, ...]:
    changed = [key for key, value in after.items() if before.get(key) != value]
    return (*changed, *(key for key in before if key not in after))
