"""User data of the sticky assignor: the previous assignment of a member, in Kafka's format.

Version 0 ends after the partitions; version 1 appends the generation. Neither has a version number.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.client.cluster import TopicPartition
from penstock.client.group.assignors.assignor import NO_GENERATION
from penstock.client.group.assignors.wire import flat, topic_partitions
from penstock.protocol.codec import codec
from penstock.protocol.declare import field, message
from penstock.protocol.messages.consumer_protocol import TopicPartition as TopicPartitions
from penstock.protocol.types import Int32


@message(versions=(0, 1))
class StickyUserData:
    previous_assignment: list[TopicPartitions]
    generation: Int32 = field(since=1, default=NO_GENERATION)


def write_previous(partitions: Sequence[TopicPartition], generation: int) -> bytes:
    data = StickyUserData(previous_assignment=topic_partitions(partitions), generation=generation)
    return codec(StickyUserData, 1).encode(data)


def read_previous(data: bytes) -> tuple[list[TopicPartition], int]:
    """Raises `MalformedMessage` if it is something else."""
    message, end = codec(StickyUserData, 0).decode(data)
    if end < len(data):
        message, _ = codec(StickyUserData, 1).decode(data)
    return flat(message.previous_assignment), message.generation
