"""Reads a given number of messages, and records what a rebalance listener gets."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from penstock import Consumer, Message, TopicPartition

WAIT_SECONDS = 30.0


def take(consumer: Consumer, count: int) -> list[Message]:
    """Poll until there are `count` messages, and no more."""
    deadline = time.monotonic() + WAIT_SECONDS
    messages: list[Message] = []
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} messages arrived"
        messages += consumer.poll(0.1, max_records=count - len(messages))
    return messages


def values(messages: Iterable[Any]) -> list[str]:
    return [message.value.decode() for message in messages]


class RecordingListener:
    """A rebalance listener that keeps its events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, tuple[TopicPartition, ...]]] = []

    def on_partitions_assigned(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.events.append(("assigned", partitions))

    def on_partitions_revoked(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.events.append(("revoked", partitions))

    def on_partitions_lost(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.events.append(("lost", partitions))
