"""A consumer for `Producer.transaction(consumer=...)`, with one partition and no broker."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.client.cluster import TopicPartition
from penstock.client.group.types import GroupMetadata, Offset
from penstock.client.settings import ConsumerSettings

P0 = TopicPartition("input", 0)


class FakeConsumer:
    """It has returned the messages before offset 10, and committed none of them."""

    def __init__(self) -> None:
        self.settings = ConsumerSettings.of(None, {}, {"group": "g", "enable_auto_commit": False})
        self.offset = 10
        self.committed = 0

    def positions(self) -> dict[TopicPartition, int]:
        return {P0: self.offset}

    def group_metadata(self) -> GroupMetadata:
        return GroupMetadata("g")

    def rewind(self) -> None:
        self.offset = self.committed

    def _note_committed(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        self.committed = offsets[P0].offset
