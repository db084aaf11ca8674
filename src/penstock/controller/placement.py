"""Where the replicas of new partitions go.

Leaders and followers are spread over the active nodes, one partition after the other, and the replicas of a
partition over as many racks as there are. A fenced node gets a replica only where the active ones are too
few, and never the leadership. Two topics start at different nodes, by chance, so that many small topics do
not all begin at the same one.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, zip_longest

from penstock.metadata.directories import UNASSIGNED
from penstock.metadata.errors import Refused
from penstock.metadata.image import BrokerImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid


def place_replicas(
    brokers: Mapping[int, BrokerImage], *, partition_count: int, replication_factor: int, rng: random.Random
) -> list[tuple[int, ...]]:
    """Node ids for each new partition, the leader first; INVALID_REPLICATION_FACTOR where there are too few
    nodes."""
    usable = [broker for broker in brokers.values() if _can_take_replicas(broker)]
    active = [broker for broker in usable if broker.is_active]
    fenced = [broker for broker in usable if not broker.is_active]
    if replication_factor > len(usable):
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor of {replication_factor} is larger than the number of available brokers, "
            f"{len(usable)}. Choose a replication factor of at most {len(usable)}, or add brokers."
            if usable
            else f"The replication factor of {replication_factor} cannot be reached: no broker is registered.",
        )
    if not active:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor of {replication_factor} cannot be reached: all registered brokers are fenced.",
        )
    circle = _alternate_racks(active, rng)
    placements = []
    for index in range(partition_count):
        leader = circle[index % len(circle)]
        # Every round begins its followers one further on, so that a node shares its load with many neighbours.
        shift = index + 1 + index // len(circle)
        followers = [circle[(shift + step) % len(circle)] for step in range(len(circle))]
        placements.append(_pick(leader, [*followers, *fenced], replication_factor))
    return placements


def default_directory(broker: BrokerImage) -> Uuid:
    """The directory of a new replica: known where a node has only one, otherwise the node's to choose
    (KIP-858)."""
    open_directories = [each for each in broker.directories if each not in broker.cordoned_directories]
    return open_directories[0] if len(open_directories) == 1 else UNASSIGNED


def _can_take_replicas(broker: BrokerImage) -> bool:
    has_room = not broker.directories or set(broker.directories) - set(broker.cordoned_directories)
    return bool(has_room) and not broker.in_controlled_shutdown


def _alternate_racks(brokers: Iterable[BrokerImage], rng: random.Random) -> list[BrokerImage]:
    """Neighbours stand in different racks as long as there are nodes for it; where it begins is left to
    chance."""
    by_rack: dict[str, list[BrokerImage]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.node_id):
        by_rack.setdefault(broker.rack or "", []).append(broker)
    racks = [by_rack[rack] for rack in sorted(by_rack)]
    circle = [broker for column in zip_longest(*racks) for broker in column if broker is not None]
    start = rng.randrange(len(circle))
    return circle[start:] + circle[:start]


def _pick(leader: BrokerImage, others: Sequence[BrokerImage], count: int) -> tuple[int, ...]:
    """The leader, then nodes of racks that have none yet, then whoever comes next."""
    racks = {leader.rack}
    chosen = [leader]
    for broker in others:
        if broker.rack not in racks and broker.is_active:
            racks.add(broker.rack)
            chosen.append(broker)
    chosen += [broker for broker in others if broker not in chosen]
    return tuple(broker.node_id for broker in islice(chosen, count))
