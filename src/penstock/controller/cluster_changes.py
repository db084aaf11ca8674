"""Log lines about brokers, leaders and reassignments: what an operator wants to know about a committed change.

One line per event. Partitions are counted, and only the first ones named: a broker that fails takes thousands with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import BrokerImage, PartitionImage
from penstock.protocol.types import uuid_text

NAMES_MAX = 5


def cluster_lines(delta: MetadataDelta) -> Iterator[str]:
    if len(delta.before.brokers) <= 1 and len(delta.image.brokers) <= 1:
        return  # a cluster of one has nothing to report: the start of the node is logged elsewhere
    for node_id in dict.fromkeys(delta.brokers):
        yield from _broker_lines(delta.before.brokers.get(node_id), delta.image.brokers.get(node_id))
    yield from _leader_lines(delta)
    yield from _reassignment_lines(delta)


def lost_leaders(delta: MetadataDelta) -> str | None:
    """A warning about partitions that have lost their leader, and what to do."""
    lost = [
        (name, partition)
        for name, old, partition in _changed(delta)
        if old.has_leader and not partition.has_leader
    ]
    if not lost or len(delta.image.brokers) <= 1:
        return None
    can_lead = sorted(
        {
            node_id
            for _, partition in lost
            for node_id in (*partition.isr, *partition.eligible_leaders, *partition.last_known_leaders)
        }
    )
    brokers, have = ("broker", "it has") if len(can_lead) == 1 else ("brokers", "they have")
    return (
        f"{_counted(len(lost))} no leader now: {_names([name for name, _ in lost])}. Start {brokers} "
        f"{', '.join(map(str, can_lead))}: only {have} all committed records"
    )


def unclean_elections(delta: MetadataDelta) -> str | None:
    """A warning about partitions whose new leader may lack committed records."""
    unclean = [name for name, old, new in _changed(delta) if new.is_recovering and not old.is_recovering]
    if not unclean:
        return None
    return f"{_counted(len(unclean))} been elected uncleanly, and may have lost records: {_names(unclean)}"


def _broker_lines(before: BrokerImage | None, after: BrokerImage | None) -> Iterator[str]:
    if after is None:
        if before is not None:
            yield f"unregistered broker {before.node_id}"
        return
    name = f"broker {after.node_id}"
    if before is None or before.epoch != after.epoch:
        rack = f", rack {after.rack}" if after.rack else ""
        yield f"registered {name}, broker epoch {after.epoch}{rack}"
        was_fenced, was_stopping = True, False
    else:
        was_fenced, was_stopping = before.is_fenced, before.in_controlled_shutdown
        lost = [each for each in before.directories if each not in after.directories]
        if lost:
            yield f"{name} lost the log directories {', '.join(map(uuid_text, lost))}"
        if before.cordoned_directories != after.cordoned_directories:
            cordoned = ", ".join(map(uuid_text, after.cordoned_directories)) or "none"
            yield f"cordoned log directories of {name}: {cordoned}"
    if after.in_controlled_shutdown and not was_stopping:
        yield f"{name} is in controlled shutdown"
    if after.is_fenced != was_fenced:
        yield f"{'fenced' if after.is_fenced else 'unfenced'} {name}"


def _leader_lines(delta: MetadataDelta) -> Iterator[str]:
    moved = [name for name, old, new in _changed(delta) if new.has_leader and new.leader != old.leader]
    if moved:
        yield f"{_counted(len(moved))} another leader: {_names(moved)}"


def _reassignment_lines(delta: MetadataDelta) -> Iterator[str]:
    for name, old, new in _changed(delta):
        if new.adding_replicas or new.removing_replicas:
            if (old.adding_replicas, old.removing_replicas) != (new.adding_replicas, new.removing_replicas):
                kept = [each for each in old.replicas if each not in old.adding_replicas]
                target = [each for each in new.replicas if each not in new.removing_replicas]
                yield f"reassigning {name} from {kept} to {target}"
        elif old.adding_replicas or old.removing_replicas or old.replicas != new.replicas:
            yield f"the reassignment of {name} is complete or cancelled: its replicas are {list(new.replicas)}"


def _changed(delta: MetadataDelta) -> Iterator[tuple[str, PartitionImage, PartitionImage]]:
    """Partitions that existed before: name, old and new."""
    for change in delta.topics.values():
        before, after = change.before, change.after
        if before is None or after is None:
            continue
        for index in change.changed_partitions:
            if index < len(before.partitions):
                yield f"{after.name}-{index}", before.partitions[index], after.partitions[index]


def _counted(count: int) -> str:
    return "1 partition has" if count == 1 else f"{count} partitions have"


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:NAMES_MAX])
    return f"{shown} and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else shown
