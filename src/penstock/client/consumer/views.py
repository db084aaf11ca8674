"""What both faces make of what the core knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.client.cluster import TopicPartition
from penstock.client.consumer.arguments import RebalanceListener
from penstock.client.consumer.lookups import ListedOffset, OffsetAndTimestamp
from penstock.client.consumer.positions import PartitionState
from penstock.client.group.nouns import Assigned, Event, Lost

if TYPE_CHECKING:
    from penstock.client.consumer.core import ConsumerCore


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


def shown(core: ConsumerCore, *, is_closed: bool) -> str:
    """How a consumer shows itself in a debugger or a notebook."""
    subscription = core.subscription
    what = sorted(subscription.topics) or ([str(subscription.pattern)] if subscription.pattern else [])
    what = what or [str(partition) for partition in core.positions.partitions] or ["nothing"]
    group = f" in group {core.group_id}" if core.group_id is not None else ""
    state = ", closed" if is_closed else ""
    return f"<Consumer of {', '.join(what)}{group} at {core.settings.cluster_name}{state}>"


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
