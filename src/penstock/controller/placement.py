"""The placement of replicas of new partitions.

Leaders and followers are spread over the active brokers, one partition after the other, and the replicas of a partition
over as many racks as possible, then over hosts. A fenced broker, or a drained one that will be removed, gets a replica
only if there are too few others; a fenced one never leads. Each topic starts at a random broker, so that many small
topics do not all start at the same one.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice, zip_longest

from penstock.config.broker import BrokerSettings
from penstock.metadata.directories import UNASSIGNED
from penstock.metadata.errors import Refused
from penstock.metadata.image import BrokerImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid


def drained_brokers(settings: BrokerSettings) -> tuple[int, ...]:
    """Brokers that will be removed."""
    return tuple(int(each) for each in settings.get("penstock.balancer.drained.brokers"))


def place_replicas(
    brokers: Mapping[int, BrokerImage],
    *,
    partition_count: int,
    replication_factor: int,
    rng: random.Random,
    drained: Collection[int] = (),
) -> list[tuple[int, ...]]:
    """Broker ids for each new partition, the leader first; INVALID_REPLICATION_FACTOR if there are too few brokers."""
    usable = [broker for broker in brokers.values() if can_take_replicas(broker)]
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
    leaving = [broker for broker in active if broker.node_id in drained]
    if len(leaving) == len(active):
        leaving = []
    circle = _alternate_racks([broker for broker in active if broker not in leaving], rng)
    placements = []
    for index in range(partition_count):
        leader = circle[index % len(circle)]
        # Each round shifts the followers by one, so that a broker shares its partitions with many others.
        shift = index + 1 + index // len(circle)
        followers = [circle[(shift + step) % len(circle)] for step in range(len(circle))]
        placements.append(_pick(leader, followers, [*leaving, *fenced], replication_factor))
    return placements


def default_directory(broker: BrokerImage) -> Uuid:
    """The directory of a new replica: the only one of the broker, otherwise the broker chooses (KIP-858)."""
    open_directories = [each for each in broker.directories if each not in broker.cordoned_directories]
    return open_directories[0] if len(open_directories) == 1 else UNASSIGNED


def can_take_replicas(broker: BrokerImage) -> bool:
    """Whether a log directory is open, and the broker is not shutting down."""
    has_room = not broker.directories or set(broker.directories) - set(broker.cordoned_directories)
    return bool(has_room) and not broker.in_controlled_shutdown


def _alternate_racks(brokers: Iterable[BrokerImage], rng: random.Random) -> list[BrokerImage]:
    """Brokers in an order that alternates between racks as long as possible, from a random start."""
    by_rack: dict[str, list[BrokerImage]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.node_id):
        by_rack.setdefault(broker.rack or "", []).append(broker)
    racks = [by_rack[rack] for rack in sorted(by_rack)]
    circle = [broker for column in zip_longest(*racks) for broker in column if broker is not None]
    start = rng.randrange(len(circle))
    return circle[start:] + circle[:start]


def host_of(broker: BrokerImage) -> str:
    """Several nodes may run on one host, and fail with it."""
    return broker.endpoints[0].host if broker.endpoints else ""


def _pick(
    leader: BrokerImage, others: Sequence[BrokerImage], spares: Sequence[BrokerImage], count: int
) -> tuple[int, ...]:
    """The leader, then brokers in other racks, then on other hosts, then the next ones, then spares."""
    chosen = [leader]
    racks = {leader.rack}
    hosts = {host_of(leader)}
    for broker in others:
        if broker.rack not in racks:
            racks.add(broker.rack)
            hosts.add(host_of(broker))
            chosen.append(broker)
    if len(chosen) < count:
        for broker in others:
            if host_of(broker) not in hosts:
                hosts.add(host_of(broker))
                chosen.append(broker)
        chosen += [broker for broker in (*others, *spares) if broker not in chosen]
    return tuple(broker.node_id for broker in islice(chosen, count))
