"""Subscriptions and assignments as they travel inside JoinGroup and SyncGroup: consumer protocol, after its version.

A reader takes a version that it does not know for the newest that it does. Members of one group may be of different
ages: an assignment is written in version 0, as all versions of it are the same.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import TypeVar

from penstock.client.cluster import TopicPartition
from penstock.client.group.assignors.assignor import NO_GENERATION, MemberToAssign, Share
from penstock.protocol.codec import codec
from penstock.protocol.errors import MalformedMessage
from penstock.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from penstock.protocol.messages.consumer_protocol import TopicPartition as TopicPartitions

T = TypeVar("T")

SUBSCRIPTION_VERSION = 3
ASSIGNMENT_VERSION = 0

_VERSION = struct.Struct(">h")


def write_subscription(
    topics: Sequence[str],
    *,
    user_data: bytes | None = None,
    owned: Iterable[TopicPartition] = (),
    generation: int = NO_GENERATION,
    rack: str | None = None,
) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=user_data,
        owned_partitions=by_topic(owned),
        generation_id=generation,
        rack_id=rack or None,
    )
    return _write(message, SUBSCRIPTION_VERSION)


def read_subscription(data: bytes, *, member_id: str, instance_id: str | None = None) -> MemberToAssign:
    message = _read(ConsumerProtocolSubscription, data)
    return MemberToAssign(
        member_id=member_id,
        topics=tuple(message.topics),
        instance_id=instance_id,
        rack=message.rack_id,
        owned=tuple(flat(message.owned_partitions)),
        generation=message.generation_id,
        user_data=message.user_data,
    )


def write_assignment(share: Share) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=by_topic(share.partitions), user_data=share.user_data
    )
    return _write(message, ASSIGNMENT_VERSION)


def read_assignment(data: bytes) -> Share:
    """No bytes at all are no partitions: so a leader answers who it knows nothing about."""
    if not data:
        return Share()
    message = _read(ConsumerProtocolAssignment, data)
    return Share(tuple(flat(message.assigned_partitions)), message.user_data)


def by_topic(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    indexes: dict[str, list[int]] = {}
    for topic, index in partitions:
        indexes.setdefault(topic, []).append(index)
    return [TopicPartitions(topic=topic, partitions=sorted(indexes[topic])) for topic in sorted(indexes)]


def flat(topics: Iterable[TopicPartitions]) -> list[TopicPartition]:
    return [TopicPartition(named.topic, index) for named in topics for index in named.partitions]


def _write(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int) -> bytes:
    return _VERSION.pack(version) + codec(type(message), version).encode(message)


def _read(kind: type[T], data: bytes) -> T:
    if len(data) < _VERSION.size:
        raise MalformedMessage("there is no version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise MalformedMessage(f"there is no version {version}")
    message, _ = codec(kind, min(version, SUBSCRIPTION_VERSION)).decode(data, _VERSION.size)
    return message
