"""Divides a topology into places and stages: which operators run together, and what is sent between them. Sans-IO.

An operator runs in a **place**. Stateless operators run where their records are: in the tasks that read a topic
(`Reading`, one place for each source), or behind a stateful operator. Stateful operators run in a **domain**: a part
of the topology whose records are partitioned by the same key, so any number of operators share one shuffle while the
key does not change. Kafka Streams calls this a sub-topology.

    reading place --(shuffle by key)--> domain --(internal topic)--> reading place --(shuffle)--> domain ...

A Spark query has one shuffle before state, which needs no topic. An internal topic is needed only if a key changes
*after* state. Places connected by shuffles form one **stage**: one Spark query. A merge has no place of its own: its
children run in each place that records come from.

Invariant: all inputs of a stateful operator end in one domain.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from penstock.streams.functions import Function
from penstock.streams.topology import (
    STATEFUL,
    FlatMap,
    ForeignKeyJoin,
    GlobalTable,
    Map,
    Node,
    Process,
    Repartition,
    Sink,
    Source,
    TableAggregate,
    Topology,
    ToStream,
)

CrossingKind = Literal["stream", "group", "subscribe", "answer"]

# The inputs of a foreign key join, in the order of its parents first: see `references`.
LEFT_CHANGED, RIGHT_CHANGED, ANSWERED, SUBSCRIBED = range(4)


@dataclass(eq=False)
class Place:
    """Where operators run: the reading tasks of a source (or of an internal topic), or a domain."""

    name: str
    root: Node | None
    """The node whose records are read here; None for a domain."""
    crossing: Crossing | None = None
    """The internal topic that is read; None for a source's topics and for a domain."""
    children: dict[Node, list[tuple[Node, int]]] = field(default_factory=lambda: defaultdict(list))
    """The children of a node in this place: the operator, and which of its inputs."""
    entries: dict[Node, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    """The shuffles of a node's records to a domain."""
    crossings: dict[Node, list[Crossing]] = field(default_factory=lambda: defaultdict(list))
    """The internal topics that a node's records are written to."""

    @property
    def is_domain(self) -> bool:
        return self.root is None

    @property
    def nodes(self) -> list[Node]:
        """The operators of this place, in the order of first use."""
        return list(dict.fromkeys(child for found in self.children.values() for child, _ in found))

    def __repr__(self) -> str:
        return f"<{'domain' if self.is_domain else 'reading'} {self.name}>"


@dataclass(frozen=True, eq=False)
class Entry:
    """An edge through the shuffle: records of `parent` become input number `position` of `child` in `domain`."""

    parent: Node
    child: Node
    position: int
    domain: Place
    after: int = 0
    """How many operators of the place that take the same records come before it in the topology."""


@dataclass(frozen=True, eq=False)
class Crossing:
    """An edge through an internal topic. `topic` is without the application's name."""

    topic: str
    parent: Node
    kind: CrossingKind
    """`stream`: records as they are. `group`: values removed from and added to the groups of a TableAggregate.
    `subscribe`: left rows of a foreign key join, sent to the row they refer to. `answer`: that row, sent back."""
    child: Node | None = None
    partitions: int | None = None
    partition: Function | None = None
    """Chooses the partition of a record; None uses the key."""


@dataclass(frozen=True, eq=False)
class Stage:
    """One query: its sources and its places."""

    name: str
    reading: tuple[Place, ...]
    domains: tuple[Place, ...]

    @property
    def is_stateful(self) -> bool:
        return bool(self.domains)

    @property
    def sources(self) -> list[Source]:
        return [
            place.root for place in self.reading if isinstance(place.root, Source) and place.crossing is None
        ]

    @property
    def internal_topics(self) -> list[str]:
        """The internal topics that it reads, without the application's name."""
        return [place.crossing.topic for place in self.reading if place.crossing is not None]

    @property
    def entries(self) -> list[Entry]:
        """All shuffle edges. Their numbers stay the same as long as the topology does."""
        return [entry for place in self.reading for found in place.entries.values() for entry in found]


@dataclass(frozen=True)
class Cut:
    """The result: stages in order of dependence, and all crossings between and within them."""

    stages: tuple[Stage, ...]
    crossings: tuple[Crossing, ...]


def cut(topology: Topology) -> Cut:
    return _Cutting(topology).run()


def feeds(stage: Stage, other: Stage, application_id: str) -> bool:
    """Whether another stage (or this one) reads what a stage writes. A sink that chooses its topic by a function may
    feed any stage."""
    written: set[str] = set()
    for place in stage.reading + stage.domains:
        written |= {f"{application_id}-{c.topic}" for found in place.crossings.values() for c in found}
        for node in place.nodes:
            if isinstance(node, Sink):
                if not isinstance(node.topic, str):
                    return True
                written.add(node.topic)
    read = {f"{application_id}-{topic}" for topic in other.internal_topics}
    read |= {topic for source in other.sources for topic in source.topics}
    patterns = [source.pattern for source in other.sources if source.pattern is not None]
    return bool(read & written) or any(re.fullmatch(p, topic) for p in patterns for topic in written)


class _Cutting:
    """Walks over a topology, parents before children."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.places: dict[Node, dict[Place, bool]] = {}
        """The places of a node's records, and whether they still have the key they were shuffled by."""
        self.reading: list[Place] = []
        self.domains: list[Place] = []
        self.crossings: dict[tuple[Node, str], tuple[Crossing, Place]] = {}
        self.same: dict[Place, Place] = {}
        """A domain that was merged into another one."""

    def run(self) -> Cut:
        for node in self.topology.nodes:
            match node:
                case Source():
                    self.places[node] = {self._read(node.name, node): False}
                case GlobalTable():
                    self.places[node] = {}
                case Repartition():
                    place = self._cross_all(node.parents[0], node, "stream")
                    place.children[node.parents[0]].append((node, 0))
                    self.places[node] = {place: False}
                case TableAggregate():
                    place = self._cross_all(node.parents[0], node, "group")
                    self._enter(node, [(0, node.parents[0], place)], direct=[])
                case ForeignKeyJoin():
                    self._foreign_key_join(node)
                case _ if isinstance(node, STATEFUL):
                    self._stateful(node)
                case _:
                    self._stateless(node)
        return Cut(tuple(self._stages()), tuple(crossing for crossing, _ in self.crossings.values()))

    def _stateless(self, node: Node) -> None:
        changes_key = _changes_key(node)
        here: dict[Place, bool] = {}
        for position, parent in enumerate(node.parents):
            for place, intact in self.places[parent].items():
                place = self._now(place)
                place.children[parent].append((node, position))
                here[place] = here.get(place, True) and intact and not changes_key
        self.places[node] = here

    def _stateful(self, node: Node) -> None:
        direct: list[tuple[int, Node, Place]] = []
        shuffled: list[tuple[int, Node, Place]] = []
        for position, parent in enumerate(node.parents):
            for place, intact in self.places[parent].items():
                place = self._now(place)
                # As in Kafka Streams, a processor without stores runs where its records are, whatever their key.
                if place.is_domain and (intact or isinstance(node, Process)):
                    direct.append((position, parent, place))
                elif place.is_domain:
                    shuffled.append((position, parent, self._cross(parent, place, node, "stream")))
                else:
                    shuffled.append((position, parent, place))
        self._enter(node, shuffled, direct)

    def _enter(
        self, node: Node, shuffled: Iterable[tuple[int, Node, Place]], direct: list[tuple[int, Node, Place]]
    ) -> Place:
        """Assign the node to the domain of its direct parents, which are merged, or to a new one."""
        if direct:
            domain = self._now(direct[0][2])
            for _, _, other in direct[1:]:
                domain = self._merge(domain, self._now(other))
        else:
            domain = Place(node.name, None)
            self.domains.append(domain)
        for position, parent, _ in direct:
            domain.children[parent].append((node, position))
        for position, parent, place in shuffled:
            after = len(place.children.get(parent, ()))
            place.entries[parent].append(Entry(parent, node, position, domain, after))
            domain.children.setdefault(parent, [])
        keeps_key = not isinstance(node, Process) or node.keeps_key
        self.places[node] = {domain: keeps_key}
        return domain

    def _foreign_key_join(self, node: ForeignKeyJoin) -> None:
        """Send left rows to the place of the row they refer to, and the result back to the left row's place, so that
        the later of two results for one left row wins."""
        left, right = node.parents
        subscriptions = self._cross_all(left, node, "subscribe")
        rights = [(RIGHT_CHANGED, right, self._now(place)) for place in self.places[right]]
        domain = self._enter(node, [(SUBSCRIBED, left, subscriptions)], rights)
        answers = self._cross(node, domain, node, "answer")
        lefts = [(LEFT_CHANGED, left, self._now(place)) for place in self.places[left]]
        self._enter(node, [(ANSWERED, node, answers)], lefts)

    def _cross_all(self, parent: Node, child: Node, kind: CrossingKind) -> Place:
        place: Place | None = None
        for origin in self.places[parent]:
            place = self._cross(parent, self._now(origin), child, kind)
        assert place is not None, f"{parent} has no place"
        return place

    def _cross(self, parent: Node, origin: Place, child: Node, kind: CrossingKind) -> Place:
        """Write the records of `parent` in `origin` to an internal topic, and return the place that reads it.
        Operators that need the same records share one topic."""
        by = parent if kind == "stream" and not isinstance(child, Repartition) else child
        found = self.crossings.get((by, kind))
        if found is None:
            suffix = f"-{kind}" if kind in ("subscribe", "answer") else ""
            topic = f"{child.name}{suffix}-repartition"
            crossing = Crossing(topic, parent, kind, child if kind != "stream" else None)
            if isinstance(child, Repartition):
                crossing = replace(crossing, partitions=child.partitions, partition=child.partition)
            found = crossing, self._read(topic, parent, crossing)
            self.crossings[by, kind] = found
        crossing, place = found
        if crossing not in origin.crossings[parent]:
            origin.crossings[parent].append(crossing)
        return place

    def _read(self, name: str, root: Node, crossing: Crossing | None = None) -> Place:
        place = Place(name, root, crossing)
        self.reading.append(place)
        return place

    def _merge(self, kept: Place, other: Place) -> Place:
        if other is kept:
            return kept
        for node, children in other.children.items():
            kept.children[node].extend(child for child in children if child not in kept.children[node])
        for node, crossings in other.crossings.items():
            kept.crossings[node].extend(crossings)
        self.same[other] = kept
        self.domains.remove(other)
        for place in self.reading:
            for node, entries in place.entries.items():
                place.entries[node] = [
                    replace(entry, domain=kept) if entry.domain is other else entry for entry in entries
                ]
        return kept

    def _now(self, place: Place) -> Place:
        while place in self.same:
            place = self.same[place]
        return place

    def _stages(self) -> Iterable[Stage]:
        """Places connected by shuffles, in the order of their creation."""
        group: dict[Place, int] = {place: index for index, place in enumerate([*self.reading, *self.domains])}
        for place in self.reading:
            for entries in place.entries.values():
                for entry in entries:
                    old, new = group[entry.domain], group[place]
                    if old != new:
                        first = min(old, new)
                        group = {each: first if at in (old, new) else at for each, at in group.items()}
        for index in sorted(set(group.values())):
            reading = tuple(place for place in self.reading if group[place] == index)
            domains = tuple(place for place in self.domains if group[place] == index)
            yield Stage(domains[0].name if domains else reading[0].name, reading, domains)


def _changes_key(node: Node) -> bool:
    match node:
        case Map(result=result) | FlatMap(result=result):
            return result != "value"
        case ToStream(selector=selector):
            return selector is not None
        case _:
            return False
