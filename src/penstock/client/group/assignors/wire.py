"""Encodes and decodes the subscriptions and assignments inside JoinGroup and SyncGroup (consumer protocol).

A version that is too new is read as the newest known one. Members of one group may have different versions, so
assignments are written in version 0; all versions of them are the same.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import TypeVar

from penstock.client.cluster import TopicPartition, by_topic
from penstock.client.group.assignors.assignor import NO_GENERATION, MemberAssignment, MemberSubscription
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
        owned_partitions=topic_partitions(owned),
        generation_id=generation,
        rack_id=rack or None,
    )
    return _write(message, SUBSCRIPTION_VERSION)


def read_subscription(data: bytes, *, member_id: str, instance_id: str | None = None) -> MemberSubscription:
    message = _read(ConsumerProtocolSubscription, data)
    return MemberSubscription(
        member_id=member_id,
        topics=tuple(message.topics),
        instance_id=instance_id,
        rack=message.rack_id,
        owned=tuple(flat(message.owned_partitions)),
        generation=message.generation_id,
        user_data=message.user_data,
    )


def write_assignment(share: MemberAssignment) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=topic_partitions(share.partitions), user_data=share.user_data
    )
    return _write(message, ASSIGNMENT_VERSION)


def read_assignment(data: bytes) -> MemberAssignment:
    """Empty data means no partitions: a leader sends it for members that it does not know."""
    if not data:
        return MemberAssignment()
    message = _read(ConsumerProtocolAssignment, data)
    return MemberAssignment(tuple(flat(message.assigned_partitions)), message.user_data)


def topic_partitions(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic=topic, partitions=indexes)
        for topic, indexes in by_topic(sorted(partitions)).items()
    ]


def flat(topics: Iterable[TopicPartitions]) -> list[TopicPartition]:
    return [TopicPartition(named.topic, index) for named in topics for index in named.partitions]


def _write(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int) -> bytes:
    return _VERSION.pack(version) + codec(type(message), version).encode(message)


def _read(kind: type[T], data: bytes) -> T:
    if len(data) < _VERSION.size:
        raise MalformedMessage("the version is missing")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise MalformedMessage(f"unknown version {version}")
    message, _ = codec(kind, min(version, SUBSCRIPTION_VERSION)).decode(data, _VERSION.size)
    return message
