"""What both faces make of what the core knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.client.cluster import TopicPartition
from penstock.client.consumer.arguments import RebalanceListener
from penstock.client.consumer.lookups import ListedOffset, OffsetAndTimestamp
from penstock.client.consumer.positions import PartitionState
from penstock.client.group.nouns import Assigned, Event, Lost


def offsets_and_times(
    listed: Mapping[TopicPartition, ListedOffset],
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    return {
        partition: None
        if told.offset < 0
        else OffsetAndTimestamp(
            told.offset, told.timestamp_ms, told.leader_epoch if told.leader_epoch >= 0 else None
        )
        for partition, told in listed.items()
    }


def only_offsets(listed: Mapping[TopicPartition, ListedOffset]) -> dict[TopicPartition, int]:
    return {partition: told.offset for partition, told in listed.items()}


def lag_of(state: PartitionState) -> int | None:
    if not state.has_position or state.end_offset < 0:
        return None
    return max(state.end_offset - state.offset, 0)


def tell_listener(listener: RebalanceListener | None, event: Event) -> Any:
    """What the listener returns: an async one, something to await."""
    if isinstance(event, Assigned):
        name = "on_partitions_assigned"
    elif isinstance(event, Lost) and hasattr(listener, "on_partitions_lost"):
        name = "on_partitions_lost"
    else:
        name = "on_partitions_revoked"
    method = getattr(listener, name, None)
    return None if method is None else method(event.partitions)
