"""The embedded consumer protocol in JoinGroup and SyncGroup: a version, then a subscription or an assignment.

For classic groups the coordinator does not decode it. For classic members of a consumer group it decodes the
subscription and the owned partitions, and encodes the assignment.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from penstock.coordinator.group.consumer.assignment import Assignment, Owned, in_order
from penstock.metadata.image import MetadataImage
from penstock.protocol.codec import codec
from penstock.protocol.errors import MalformedMessage
from penstock.protocol.messages.consumer_group_heartbeat import TopicPartitions
from penstock.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from penstock.protocol.types import Uuid

NEWEST_VERSION = 3
_VERSION = struct.Struct(">h")


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """`MalformedMessage` if it cannot be decoded."""
    version = _read_version(data)
    return codec(ConsumerProtocolSubscription, version).decode(memoryview(data), _VERSION.size)[0]


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    version = _read_version(data)
    return codec(ConsumerProtocolAssignment, version).decode(memoryview(data), _VERSION.size)[0]


def write_assignment(assignment: Assignment | Owned, image: MetadataImage, *, like: bytes) -> bytes:
    """In the version of the member's subscription `like`. Deleted topics are left out, because they have no name."""
    version = _read_version(like)
    named = (
        TopicPartition(topic=name, partitions=partitions)
        for topic_id, partitions in in_order(assignment)
        if (name := image.topics.names_by_id.get(topic_id)) is not None
    )
    message = ConsumerProtocolAssignment(assigned_partitions=sorted(named, key=lambda topic: topic.topic))
    return _VERSION.pack(version) + codec(ConsumerProtocolAssignment, version).encode(message)


def by_id(topics: Iterable[TopicPartition], image: MetadataImage) -> dict[Uuid, frozenset[int]]:
    """The existing topics, by id."""
    found: dict[Uuid, frozenset[int]] = {}
    for named in topics:
        topic = image.topics.get(named.topic)
        if topic is not None and named.partitions:
            found[topic.topic_id] = frozenset(named.partitions) | found.get(topic.topic_id, frozenset())
    return found


def as_reported(subscription: ConsumerProtocolSubscription, image: MetadataImage) -> list[TopicPartitions]:
    """The owned partitions of a classic member, in the format of ConsumerGroupHeartbeat."""
    owned = by_id(subscription.owned_partitions, image)
    return [TopicPartitions(topic_id=topic_id, partitions=sorted(owned[topic_id])) for topic_id in owned]


def _read_version(data: bytes) -> int:
    """New versions only append fields, so unknown versions are decoded as the newest known one."""
    if len(data) < _VERSION.size:
        raise MalformedMessage("the version is missing")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise MalformedMessage(f"the version {version} is invalid")
    return min(version, NEWEST_VERSION)
