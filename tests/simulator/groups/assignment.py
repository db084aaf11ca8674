"""The assignments that the leader of a classic group computes, and the bytes that members exchange.

Brokers do not parse these bytes. Every assignment names the generation and the member that it is for, so a member
notices if it receives another member's assignment or an old one.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from penstock.protocol.codec import codec
from penstock.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)

RANGE, ROUND_ROBIN, COOPERATIVE = "range", "roundrobin", "cooperative-sticky"

SUBSCRIPTION_VERSION = 3
ASSIGNMENT_VERSION = 3

T = TypeVar("T")

NamedPartition = tuple[str, int]
"""A partition by topic name, as in the classic protocol."""


@dataclass(frozen=True, slots=True)
class Subscription:
    topics: tuple[str, ...]
    owned: tuple[NamedPartition, ...] = ()
    generation: int = -1


def encode_subscription(subscription: Subscription) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=list(subscription.topics),
        owned_partitions=_by_topic(subscription.owned),
        generation_id=subscription.generation,
    )
    return _encode(message, SUBSCRIPTION_VERSION)


def decode_subscription(data: bytes) -> Subscription:
    message: ConsumerProtocolSubscription = _decode(ConsumerProtocolSubscription, data)
    return Subscription(
        tuple(message.topics), tuple(_named_partitions(message.owned_partitions)), message.generation_id
    )


def encode_assignment(partitions: Sequence[NamedPartition], *, made_for: str) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=_by_topic(partitions), user_data=made_for.encode()
    )
    return _encode(message, ASSIGNMENT_VERSION)


def decode_assignment(data: bytes) -> tuple[list[NamedPartition], str]:
    """The partitions, and the member and generation that they are for."""
    message: ConsumerProtocolAssignment = _decode(ConsumerProtocolAssignment, data)
    return _named_partitions(message.assigned_partitions), (message.user_data or b"").decode()


def assign(
    protocol: str, subscriptions: Mapping[str, Subscription], partitions: Sequence[NamedPartition]
) -> dict[str, list[NamedPartition]]:
    """Assign every partition to one member, by member id."""
    members = sorted(subscriptions)
    if protocol == ROUND_ROBIN:
        return {member: list(partitions[at :: len(members)]) for at, member in enumerate(members)}
    target = _assign_ranges(members, partitions)
    return _withhold_owned(target, subscriptions) if protocol == COOPERATIVE else target


def _assign_ranges(
    members: Sequence[str], partitions: Sequence[NamedPartition]
) -> dict[str, list[NamedPartition]]:
    assigned: dict[str, list[NamedPartition]] = {member: [] for member in members}
    for topic in dict.fromkeys(topic for topic, _ in partitions):
        of_topic = [partition for partition in partitions if partition[0] == topic]
        share, rest = divmod(len(of_topic), len(members))
        start = 0
        for at, member in enumerate(members):
            end = start + share + (at < rest)
            assigned[member] += of_topic[start:end]
            start = end
    return assigned


def _withhold_owned(
    target: dict[str, list[NamedPartition]], subscriptions: Mapping[str, Subscription]
) -> dict[str, list[NamedPartition]]:
    """No member gets a partition that another has not revoked yet (KIP-429)."""
    owners: dict[NamedPartition, list[str]] = {}
    for member, subscription in subscriptions.items():
        for partition in subscription.owned:
            owners.setdefault(partition, []).append(member)
    return {
        member: [partition for partition in partitions if owners.get(partition, [member]) == [member]]
        for member, partitions in target.items()
    }


def _by_topic(partitions: Sequence[NamedPartition]) -> list[TopicPartition]:
    return [
        TopicPartition(topic=topic, partitions=[index for each, index in partitions if each == topic])
        for topic in dict.fromkeys(topic for topic, _ in partitions)
    ]


def _named_partitions(topics: Sequence[TopicPartition]) -> list[NamedPartition]:
    return [(topic.topic, index) for topic in topics for index in topic.partitions]


def _encode(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int) -> bytes:
    return struct.pack(">h", version) + codec(type(message), version).encode(message)


def _decode(kind: type[T], data: bytes) -> T:
    (version,) = struct.unpack_from(">h", data)
    message, _ = codec(kind, version).decode(data, 2)
    return message
