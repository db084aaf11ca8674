"""The groups of one seed: which protocols they speak, how long they wait for one another, and the node's settings."""

from __future__ import annotations

import random
from collections.abc import Sequence

from penstock.testing.groups.assignment import COOPERATIVE as COOPERATIVE_STICKY
from penstock.testing.groups.assignment import RANGE, ROUND_ROBIN
from penstock.testing.groups.claims import Claims
from penstock.testing.groups.classic import ClassicMember
from penstock.testing.groups.committer import Committer
from penstock.testing.groups.consumer import ConsumerMember
from penstock.testing.groups.member import Member
from penstock.testing.groups.offsets import CommittedOffsets
from penstock.testing.groups.party import Party
from penstock.testing.groups.troupe import MakeMember, Troupe
from penstock.testing.ledger import Ledger
from penstock.testing.producers import Weather
from penstock.testing.simulation import Simulation

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
    """Everything a hundred times faster than in life, and few partitions to coordinate."""
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
    kind = rng.choice(KINDS)
    topics = rng.sample(list(topics), rng.randint(1, len(topics)))
    party = _make_party(simulation, f"{kind}-{number}", topics, ledger, weather)
    party.is_mixed = party.claims.may_begin_anew = kind == MIXED
    if kind in (EAGER, COOPERATIVE):
        party.session_s = rng.choice((0.5, 1.0))
    else:
        party.settings = CONSUMER_SETTINGS
    party.rebalance_s = rng.choice((0.8, 2.0))
    return Troupe(simulation, party, _maker(simulation, party, kind))


def cast_committer(
    simulation: Simulation, topics: Sequence[str], ledger: Ledger, weather: Weather
) -> Committer:
    party = _make_party(simulation, "simple", topics[:1], ledger, weather)
    return Committer(simulation, "committer", party)


def _make_party(
    simulation: Simulation, group_id: str, topics: Sequence[str], ledger: Ledger, weather: Weather
) -> Party:
    return Party(
        group_id=group_id,
        topics=tuple(topics),
        claims=Claims(group_id),
        offsets=CommittedOffsets(group_id),
        ledger=ledger,
        weather=weather,
        is_durable=simulation.properties.get(FLUSH_EVERY_MESSAGE) == "1",
        session_s=CONSUMER_SESSION_MS / 1000,
        rebalance_s=1.0,
        heartbeat_s=CONSUMER_HEARTBEAT_MS / 1000,
        now=simulation.loop.time,
    )


def _maker(simulation: Simulation, party: Party, kind: str) -> MakeMember:
    rng = simulation.generator(f"members/{party.group_id}")
    protocols = (COOPERATIVE_STICKY,) if rng.random() < 0.5 else EAGER_PROTOCOLS  # of a mixed group
    if kind != MIXED:
        protocols = (COOPERATIVE_STICKY,) if kind == COOPERATIVE else EAGER_PROTOCOLS

    def make(name: str, instance_id: str | None) -> Member:
        if kind == CONSUMER or (kind == MIXED and rng.random() < 0.5):
            return ConsumerMember(simulation, name, party, instance_id=instance_id)
        return ClassicMember(simulation, name, party, protocols=protocols, instance_id=instance_id)

    return make
