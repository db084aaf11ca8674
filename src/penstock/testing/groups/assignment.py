"""What the leader of a classic group works out, and the bytes in which members tell one another.

Brokers carry these bytes unread; so every assignment names the generation and the member that it was made for, and
a member that is handed another's, or an old one, notices.
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

Place = tuple[str, int]
"""A partition by its topic's name, as the classic protocol knows it."""


@dataclass(frozen=True, slots=True)
class Subscription:
    topics: tuple[str, ...]
    owned: tuple[Place, ...] = ()
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
        tuple(message.topics), tuple(_places(message.owned_partitions)), message.generation_id
    )


def encode_assignment(places: Sequence[Place], *, made_for: str) -> bytes:
    message = ConsumerProtocolAssignment(assigned_partitions=_by_topic(places), user_data=made_for.encode())
    return _encode(message, ASSIGNMENT_VERSION)


def decode_assignment(data: bytes) -> tuple[list[Place], str]:
    """The partitions, and for whom they were meant."""
    message: ConsumerProtocolAssignment = _decode(ConsumerProtocolAssignment, data)
    return _places(message.assigned_partitions), (message.user_data or b"").decode()


def assign(
    protocol: str, subscriptions: Mapping[str, Subscription], places: Sequence[Place]
) -> dict[str, list[Place]]:
    """Every partition to one member, by member id."""
    members = sorted(subscriptions)
    if protocol == ROUND_ROBIN:
        return {member: list(places[at :: len(members)]) for at, member in enumerate(members)}
    target = _assign_ranges(members, places)
    return _withhold(target, subscriptions) if protocol == COOPERATIVE else target


def _assign_ranges(members: Sequence[str], places: Sequence[Place]) -> dict[str, list[Place]]:
    assigned: dict[str, list[Place]] = {member: [] for member in members}
    for topic in dict.fromkeys(topic for topic, _ in places):
        of_topic = [place for place in places if place[0] == topic]
        share, rest = divmod(len(of_topic), len(members))
        start = 0
        for at, member in enumerate(members):
            end = start + share + (at < rest)
            assigned[member] += of_topic[start:end]
            start = end
    return assigned


def _withhold(
    target: dict[str, list[Place]], subscriptions: Mapping[str, Subscription]
) -> dict[str, list[Place]]:
    """Nobody gets now what another member has not given up yet (KIP-429)."""
    owners: dict[Place, list[str]] = {}
    for member, subscription in subscriptions.items():
        for place in subscription.owned:
            owners.setdefault(place, []).append(member)
    return {
        member: [place for place in places if owners.get(place, [member]) == [member]]
        for member, places in target.items()
    }


def _by_topic(places: Sequence[Place]) -> list[TopicPartition]:
    return [
        TopicPartition(topic=topic, partitions=[index for each, index in places if each == topic])
        for topic in dict.fromkeys(topic for topic, _ in places)
    ]


def _places(topics: Sequence[TopicPartition]) -> list[Place]:
    return [(topic.topic, index) for topic in topics for index in topic.partitions]


def _encode(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int) -> bytes:
    return struct.pack(">h", version) + codec(type(message), version).encode(message)


def _decode(kind: type[T], data: bytes) -> T:
    (version,) = struct.unpack_from(">h", data)
    message, _ = codec(kind, version).decode(data, 2)
    return message
