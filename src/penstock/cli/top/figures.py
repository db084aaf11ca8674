"""Figures computed from snapshots: rates, lag and problems.

A rate is the difference between two snapshots, divided by the time between them. A partition whose topic was deleted
and recreated has the rate 0, not a negative one.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.cli.top.snapshots import BrokerState, PartitionState, Snapshot

HISTORY = 60


@dataclass(frozen=True, slots=True)
class TopicFigures:
    name: str
    partitions: int
    records_per_second: float
    bytes_per_second: float
    records: int
    size_bytes: int
    lag: int
    """Of the group with the largest lag."""


@dataclass(frozen=True, slots=True)
class GroupFigures:
    name: str
    state: str
    members: int
    lag: int
    records_per_second: float
    """The rate of its committed offsets."""
    seconds_behind: float | None
    """Time to catch up at that rate without new records; None if it does not advance."""


@dataclass(frozen=True, slots=True)
class BrokerFigures:
    broker: BrokerState
    leads: int
    replicas: int
    records_per_second: float


@dataclass(frozen=True, slots=True)
class Figures:
    cluster_id: str | None
    brokers: tuple[BrokerFigures, ...]
    topics: tuple[TopicFigures, ...]
    groups: tuple[GroupFigures, ...]
    records_per_second: float
    bytes_per_second: float
    partitions: int
    without_leader: int
    under_replicated: int
    history: tuple[float, ...] = ()
    """Records a second of the previous snapshots, oldest first."""

    def facts(self) -> dict[str, object]:
        """For JSON."""
        return {
            "cluster_id": self.cluster_id,
            "records_per_second": round(self.records_per_second, 1),
            "bytes_per_second": round(self.bytes_per_second, 1),
            "partitions": self.partitions,
            "without_leader": self.without_leader,
            "under_replicated": self.under_replicated,
            "brokers": [
                {
                    "id": one.broker.id,
                    "address": one.broker.address,
                    "is_controller": one.broker.is_controller,
                    "leads": one.leads,
                    "replicas": one.replicas,
                    "records_per_second": round(one.records_per_second, 1),
                    "used_bytes": one.broker.used_bytes,
                }
                for one in self.brokers
            ],
            "topics": [
                {
                    "topic": one.name,
                    "partitions": one.partitions,
                    "records_per_second": round(one.records_per_second, 1),
                    "bytes_per_second": round(one.bytes_per_second, 1),
                    "records": one.records,
                    "size_bytes": one.size_bytes,
                    "lag": one.lag,
                }
                for one in self.topics
            ],
            "groups": [
                {
                    "group": one.name,
                    "state": one.state,
                    "members": one.members,
                    "lag": one.lag,
                    "records_per_second": round(one.records_per_second, 1),
                }
                for one in self.groups
            ],
        }


@dataclass(slots=True)
class Observer:
    """Computes figures from one snapshot after another."""

    history: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY))
    _last: Snapshot | None = None

    def take(self, snapshot: Snapshot) -> Figures:
        before = self._last
        seconds = snapshot.seconds - before.seconds if before is not None else 0.0
        figures = _figures(snapshot, before, seconds, tuple(self.history))
        if before is not None:
            self.history.append(figures.records_per_second)
        self._last = snapshot
        return figures


def _figures(now: Snapshot, before: Snapshot | None, seconds: float, history: tuple[float, ...]) -> Figures:
    old: Mapping[tuple[str, int], PartitionState] = {} if before is None else before.partitions
    rates = {
        place: _rate(state.end_offset, _offset(old.get(place)), seconds)
        for place, state in now.partitions.items()
    }
    byte_rates = {
        place: _rate(state.size_bytes, _size(old.get(place)), seconds)
        for place, state in now.partitions.items()
    }
    return Figures(
        cluster_id=now.cluster_id,
        brokers=_brokers(now, rates),
        topics=_topics(now, rates, byte_rates),
        groups=_groups(now, before, seconds),
        records_per_second=sum(rates.values()),
        bytes_per_second=sum(byte_rates.values()),
        partitions=len(now.partitions),
        without_leader=sum(state.leader is None for state in now.partitions.values()),
        under_replicated=sum(len(state.in_sync) < len(state.replicas) for state in now.partitions.values()),
        history=history,
    )


def _brokers(now: Snapshot, rates: Mapping[tuple[str, int], float]) -> tuple[BrokerFigures, ...]:
    leads: dict[int, int] = defaultdict(int)
    replicas: dict[int, int] = defaultdict(int)
    by_broker: dict[int, float] = defaultdict(float)
    for place, state in now.partitions.items():
        if state.leader is not None:
            leads[state.leader] += 1
            by_broker[state.leader] += rates[place]
        for broker in state.replicas:
            replicas[broker] += 1
    return tuple(
        BrokerFigures(broker, leads[broker.id], replicas[broker.id], by_broker[broker.id])
        for broker in sorted(now.brokers, key=lambda broker: broker.id)
    )


def _topics(
    now: Snapshot, rates: Mapping[tuple[str, int], float], byte_rates: Mapping[tuple[str, int], float]
) -> tuple[TopicFigures, ...]:
    by_topic: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for place in now.partitions:
        by_topic[place[0]].append(place)
    worst: dict[str, int] = defaultdict(int)
    for group in now.groups.values():
        lags: dict[str, int] = defaultdict(int)
        for (topic, _), lag in group.lags.items():
            lags[topic] += lag
        for topic, lag in lags.items():
            worst[topic] = max(worst[topic], lag)
    return tuple(
        TopicFigures(
            name,
            len(places),
            sum(rates[place] for place in places),
            sum(byte_rates[place] for place in places),
            sum(now.partitions[place].end_offset or 0 for place in places),
            sum(now.partitions[place].size_bytes or 0 for place in places),
            worst[name],
        )
        for name, places in sorted(by_topic.items())
    )


def _groups(now: Snapshot, before: Snapshot | None, seconds: float) -> tuple[GroupFigures, ...]:
    figures = []
    for name, group in sorted(now.groups.items()):
        old = before.groups.get(name) if before is not None else None
        pace = sum(
            _rate(offset, None if old is None else old.committed.get(place), seconds)
            for place, offset in group.committed.items()
        )
        lag = sum(group.lags.values())
        behind = 0.0 if lag == 0 else lag / pace if pace > 0 else None
        figures.append(GroupFigures(name, group.state, group.members, lag, pace, behind))
    return tuple(figures)


def _rate(value: int | None, old: int | None, seconds: float) -> float:
    if value is None or old is None or seconds <= 0:
        return 0.0
    return max(0, value - old) / seconds


def _offset(state: PartitionState | None) -> int | None:
    return None if state is None else state.end_offset


def _size(state: PartitionState | None) -> int | None:
    return None if state is None else state.size_bytes
