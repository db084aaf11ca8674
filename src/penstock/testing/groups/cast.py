"""The groups of one seed: which protocols they speak, how long they wait for one another, and the node's settings."""

from __future__ import annotations

import random
from collections.abc import Sequence

from penstock.testing.groups.assignment import COOPERATIVE, RANGE, ROUND_ROBIN
from penstock.testing.groups.claims import Claims
from penstock.testing.groups.classic import ClassicMember
from penstock.testing.groups.consumer import ConsumerMember
from penstock.testing.groups.member import Member
from penstock.testing.groups.offsets import CommittedOffsets
from penstock.testing.groups.party import Party
from penstock.testing.groups.troupe import MakeMember, Troupe
from penstock.testing.ledger import Ledger
from penstock.testing.producers import Weather
from penstock.testing.simulation import Simulation

FLUSH_EVERY_MESSAGE = "log.flush.interval.messages"
CONSUMER_SESSION_MS = 1000
CONSUMER_HEARTBEAT_MS = 200
GROUPS_MAX = 2
EAGER_PROTOCOLS = (RANGE, ROUND_ROBIN)


def draw_group_settings(rng: random.Random) -> dict[str, str]:
    """Everything a hundred times faster than in life, and few partitions to coordinate."""
    settings = {
        "offsets.topic.num.partitions": rng.choice(("1", "3")),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.compression.codec": rng.choice(("0", "0", "1", "4")),
        "group.min.session.timeout.ms": "100",
        "group.initial.rebalance.delay.ms": rng.choice(("0", "0", "300")),
        "group.consumer.min.session.timeout.ms": str(CONSUMER_SESSION_MS),
        "group.consumer.session.timeout.ms": str(CONSUMER_SESSION_MS),
        "group.consumer.min.heartbeat.interval.ms": str(CONSUMER_HEARTBEAT_MS),
        "group.consumer.heartbeat.interval.ms": str(CONSUMER_HEARTBEAT_MS),
        "group.consumer.assignment.interval.ms": rng.choice(("0", "300")),
    }
    if rng.random() < 0.8:
        settings[FLUSH_EVERY_MESSAGE] = "1"
    return settings


def cast_groups(
    simulation: Simulation, topics: Sequence[str], ledger: Ledger, weather: Weather
) -> list[Troupe]:
    rng = simulation.generator("groups")
    return [
        _cast_group(simulation, rng, number, topics, ledger, weather)
        for number in range(rng.randint(1, GROUPS_MAX))
    ]


def _cast_group(
    simulation: Simulation,
    rng: random.Random,
    number: int,
    topics: Sequence[str],
    ledger: Ledger,
    weather: Weather,
) -> Troupe:
    kind = rng.choice(("eager", "cooperative", "consumer"))
    group_id = f"{kind}-{number}"
    party = Party(
        group_id=group_id,
        topics=tuple(rng.sample(list(topics), rng.randint(1, len(topics)))),
        claims=Claims(group_id),
        offsets=CommittedOffsets(group_id),
        ledger=ledger,
        weather=weather,
        is_durable=simulation.properties.get(FLUSH_EVERY_MESSAGE) == "1",
        session_s=CONSUMER_SESSION_MS / 1000 if kind == "consumer" else rng.choice((0.6, 1.2)),
        rebalance_s=rng.choice((0.8, 2.0)),
        heartbeat_s=CONSUMER_HEARTBEAT_MS / 1000,
        now=simulation.loop.time,
    )
    return Troupe(simulation, party, _maker(simulation, party, kind))


def _maker(simulation: Simulation, party: Party, kind: str) -> MakeMember:
    def make(name: str, instance_id: str | None) -> Member:
        if kind == "consumer":
            return ConsumerMember(simulation, name, party, instance_id=instance_id)
        protocols = (COOPERATIVE,) if kind == "cooperative" else EAGER_PROTOCOLS
        return ClassicMember(simulation, name, party, protocols=protocols, instance_id=instance_id)

    return make
