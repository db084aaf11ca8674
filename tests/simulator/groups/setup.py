"""Draws the groups of a seed: their protocols, timeouts and members, and the node's settings."""

from __future__ import annotations

import random
from collections.abc import Sequence

from simulator.checks.ledger import Ledger
from simulator.clients.producers import Conditions
from simulator.groups.assignment import COOPERATIVE as COOPERATIVE_STICKY
from simulator.groups.assignment import RANGE, ROUND_ROBIN
from simulator.groups.classic import ClassicMember
from simulator.groups.committer import Committer
from simulator.groups.consumer import ConsumerMember
from simulator.groups.group import SimulatedGroup
from simulator.groups.member import Member
from simulator.groups.offsets import CommittedOffsets
from simulator.groups.ownership import Ownership
from simulator.groups.workload import GroupWorkload, MakeMember
from simulator.simulation import Simulation

FLUSH_EVERY_MESSAGE = "log.flush.interval.messages"
CONSUMER_SESSION_MS = 800
CONSUMER_HEARTBEAT_MS = 120
CONSUMER_SETTINGS = {
    "consumer.session.timeout.ms": (str(CONSUMER_SESSION_MS), str(2 * CONSUMER_SESSION_MS)),
    "consumer.heartbeat.interval.ms": (str(CONSUMER_HEARTBEAT_MS), str(2 * CONSUMER_HEARTBEAT_MS)),
    "consumer.assignment.interval.ms": ("0", "300"),
}
GROUPS_MAX = 2
EAGER_PROTOCOLS: tuple[str, ...] = (RANGE, ROUND_ROBIN)

EAGER, COOPERATIVE, CONSUMER, MIXED = "eager", "cooperative", "consumer", "mixed"
KINDS = (EAGER, COOPERATIVE, CONSUMER, CONSUMER, MIXED)


def draw_group_settings(rng: random.Random) -> dict[str, str]:
    """Timeouts a hundred times shorter than usual, and few coordinator partitions."""
    settings = {
        "offsets.topic.num.partitions": rng.choice(("1", "3")),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.compression.codec": rng.choice(("0", "0", "1", "4")),
        "group.min.session.timeout.ms": "300",
        "group.initial.rebalance.delay.ms": rng.choice(("0", "0", "300")),
        "group.consumer.min.session.timeout.ms": str(CONSUMER_SESSION_MS),
        "group.consumer.session.timeout.ms": str(CONSUMER_SESSION_MS),
        "group.consumer.min.heartbeat.interval.ms": str(CONSUMER_HEARTBEAT_MS),
        "group.consumer.max.heartbeat.interval.ms": str(2 * CONSUMER_HEARTBEAT_MS),
        "group.consumer.heartbeat.interval.ms": str(CONSUMER_HEARTBEAT_MS),
        "group.consumer.assignment.interval.ms": rng.choice(("0", "300")),
    }
    if rng.random() < 0.8:
        settings[FLUSH_EVERY_MESSAGE] = "1"
    return settings


def make_group_workloads(
    simulation: Simulation, topics: Sequence[str], ledger: Ledger, conditions: Conditions
) -> list[GroupWorkload]:
    rng = simulation.generator("groups")
    return [
        _make_group_workload(simulation, rng, number, topics, ledger, conditions)
        for number in range(rng.randint(1, GROUPS_MAX))
    ]


def _make_group_workload(
    simulation: Simulation,
    rng: random.Random,
    number: int,
    topics: Sequence[str],
    ledger: Ledger,
    conditions: Conditions,
) -> GroupWorkload:
    kind = rng.choice(KINDS)
    topics = rng.sample(list(topics), rng.randint(1, len(topics)))
    group = _make_group(simulation, f"{kind}-{number}", topics, ledger, conditions)
    group.is_mixed = group.ownership.may_restart_generations = kind == MIXED
    if kind in (EAGER, COOPERATIVE):
        group.session_s = rng.choice((0.5, 1.0))
    else:
        group.settings = CONSUMER_SETTINGS
    group.rebalance_s = rng.choice((0.8, 2.0))
    return GroupWorkload(simulation, group, _member_factory(simulation, group, kind))


def make_committer(
    simulation: Simulation, topics: Sequence[str], ledger: Ledger, conditions: Conditions
) -> Committer:
    group = _make_group(simulation, "simple", topics[:1], ledger, conditions)
    return Committer(simulation, "committer", group)


def _make_group(
    simulation: Simulation, group_id: str, topics: Sequence[str], ledger: Ledger, conditions: Conditions
) -> SimulatedGroup:
    return SimulatedGroup(
        group_id=group_id,
        topics=tuple(topics),
        ownership=Ownership(group_id),
        offsets=CommittedOffsets(group_id),
        ledger=ledger,
        conditions=conditions,
        is_durable=simulation.properties.get(FLUSH_EVERY_MESSAGE) == "1",
        session_s=CONSUMER_SESSION_MS / 1000,
        rebalance_s=1.0,
        heartbeat_s=CONSUMER_HEARTBEAT_MS / 1000,
        now=simulation.loop.time,
    )


def _member_factory(simulation: Simulation, group: SimulatedGroup, kind: str) -> MakeMember:
    rng = simulation.generator(f"members/{group.group_id}")
    protocols = (COOPERATIVE_STICKY,) if rng.random() < 0.5 else EAGER_PROTOCOLS  # of a mixed group
    if kind != MIXED:
        protocols = (COOPERATIVE_STICKY,) if kind == COOPERATIVE else EAGER_PROTOCOLS

    def make(name: str, instance_id: str | None) -> Member:
        if kind == CONSUMER or (kind == MIXED and rng.random() < 0.5):
            return ConsumerMember(simulation, name, group, instance_id=instance_id)
        return ClassicMember(simulation, name, group, protocols=protocols, instance_id=instance_id)

    return make
