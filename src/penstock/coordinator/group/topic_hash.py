"""The metadata hash: a hash over the topics that the assignment of a group depends on (KIP-1101).

Every group epoch has it, so that the next coordinator notices that a topic was created, deleted, recreated, extended or
moved between racks. Kafka uses another hash function; a coordinator that finds a different hash computes one more
assignment, which is harmless.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

from penstock.metadata.image import MetadataImage, TopicImage

NO_TOPICS = 0
"""None of the topics exists."""


def hash_topics(names: Iterable[str], image: MetadataImage) -> int:
    """Over the existing topics; a signed 64-bit number that does not depend on the order of `names`."""
    topics = [topic for name in sorted(set(names)) if (topic := image.topics.get(name)) is not None]
    if not topics:
        return NO_TOPICS
    digest = hashlib.blake2b(digest_size=8)
    for topic in topics:
        _add(digest, topic, image)
    return int.from_bytes(digest.digest(), "big", signed=True)


def _add(digest: hashlib.blake2b, topic: TopicImage, image: MetadataImage) -> None:
    digest.update(topic.topic_id)
    _add_text(digest, topic.name)
    digest.update(struct.pack(">i", len(topic.partitions)))
    for partition in topic.partitions:
        racks = sorted(
            broker.rack
            for replica in partition.replicas
            if (broker := image.brokers.get(replica)) is not None and broker.rack is not None
        )
        digest.update(struct.pack(">i", len(racks)))
        for rack in racks:
            _add_text(digest, rack)


def _add_text(digest: hashlib.blake2b, text: str) -> None:
    """With its length, because a rack may have any name."""
    data = text.encode()
    digest.update(struct.pack(">i", len(data)))
    digest.update(data)
