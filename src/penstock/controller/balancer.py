"""The self-balancer: moves replicas to a broker that just joined, and away from brokers that are drained.

It is a plan (`Plan`) and a periodic decision (`balance`) that starts some of its moves. A move is an ordinary
reassignment, so it can be listed and cancelled, and it survives a change of the active controller. The balancer is
conservative: unless a broker is drained, it does nothing as long as every broker has at least 80 % of the average
number of replicas.

A decision examines a limited number of partitions, because other requests wait for it; the next one continues
(`state.Balancing`). If everything was examined and nothing can be moved, for example because it would put two
replicas into the same rack, the balancer tries again only after `penstock.balancer.interval.ms`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice

from penstock.controller.broker_index import BrokerIndex, PartitionKey
from penstock.controller.leadership import LeaderRules
from penstock.controller.outcome import Outcome
from penstock.controller.placement import can_take_replicas, drained_brokers, host_of
from penstock.controller.reassignment import reassign
from penstock.controller.state import Balancing, ControllerState, Search
from penstock.metadata.image import MetadataImage, PartitionImage, TopicImage
from penstock.protocol.types import Uuid

ENABLE = "penstock.balancer.enable"
MOVES_MAX = "penstock.balancer.moves.max"
INTERVAL_MS = "penstock.balancer.interval.ms"

FEW = 0.8
"""A broker with fewer replicas than this part of the average is filled up to the average."""

WINDOW = 1000
"""Partitions of a broker that are examined at a time. They are compared, and the best one is moved."""

EXAMINED_MAX = 5000
"""Partitions that one decision examines, which takes about 20 ms."""

ANY_TARGET = -1  # in searches for partitions that leave a drained broker

BUSY_WAIT_MS = 1000
"""While replicas are being moved."""


@dataclass(frozen=True, slots=True)
class Move:
    """A replica moves from one broker to another, in the same place of the replica list: if the source is the preferred
    leader, the target becomes it."""

    topic: TopicImage
    index: int
    source: int
    target: int

    @property
    def replicas(self) -> list[int]:
        partition = self.topic.partitions[self.index]
        return [self.target if each == self.source else each for each in partition.replicas]


def balance(state: ControllerState) -> Outcome[None]:
    """Start as many moves as the settings allow."""
    settings, balancing = state.settings, state.balancing
    drained = drained_brokers(settings)
    balancing.filling = (
        brokers_to_fill(state.image, state.index, drained=drained, filling=balancing.filling)
        if settings.get(ENABLE)
        else ()
    )
    if not _has_work(state):
        state.balancing = Balancing()
        return Outcome([], None)
    moving_count = state.index.reassigning_count()
    room = max(0, settings.get(MOVES_MAX) - moving_count)
    plan = Plan(state.image, state.index, drained=drained, searches=balancing.searches)
    rules = LeaderRules(state)
    records = [
        record
        for move in islice(plan.moves(balancing.filling), room)
        if (record := reassign(move.topic, move.index, move.replicas, rules)) is not None
    ]
    balancing.is_stuck = False
    if records:
        balancing.has_moved = True
    elif not moving_count and not plan.is_cut_short:
        # The round is over. A moved partition may make another move possible, or can move again.
        is_stuck = not balancing.has_moved
        state.balancing = Balancing(() if is_stuck else balancing.filling, is_stuck=is_stuck)
    return Outcome(records, None, is_atomic=False)


def wait_to_balance_ms(state: ControllerState) -> int:
    if _has_work(state) and not state.balancing.is_stuck:
        return BUSY_WAIT_MS
    interval_ms: int = state.settings.get(INTERVAL_MS)
    return interval_ms


def _has_work(state: ControllerState) -> bool:
    if not state.settings.get(ENABLE):
        return False
    is_draining = any(state.index.hosted_count(node_id) for node_id in drained_brokers(state.settings))
    return bool(state.balancing.filling) or is_draining


def brokers_to_fill(
    image: MetadataImage, index: BrokerIndex, *, drained: Collection[int], filling: Collection[int] = ()
) -> tuple[int, ...]:
    """Brokers with far fewer replicas than others, and those of `filling` that are not full yet."""
    open_brokers = _open_brokers(image, drained)
    if len(open_brokers) < 2:
        return ()
    counts = _counts(image, index)
    average = sum(counts[node_id] for node_id in open_brokers) / len(open_brokers)
    return tuple(
        node_id
        for node_id in open_brokers
        if average - counts[node_id] >= 1 and (node_id in filling or counts[node_id] < FEW * average)
    )


class Plan:
    """Moves for one decision. Each considers those before it."""

    def __init__(
        self,
        image: MetadataImage,
        index: BrokerIndex,
        *,
        drained: Collection[int] = (),
        searches: dict[tuple[int, int], Search] | None = None,
    ) -> None:
        """`searches` are those of earlier decisions, by source and target. They are continued."""
        self._image = image
        self._index = index
        self._open_brokers = _open_brokers(image, drained)
        self._drained = drained
        self._counts = _counts(image, index)
        self._preferred: Counter[int] = Counter(
            {node_id: index.preferred_count(node_id) for node_id in image.brokers}
        )
        self._average_preferred = index.partition_count() / max(1, len(self._open_brokers))
        self._places = {node_id: (broker.rack, host_of(broker)) for node_id, broker in image.brokers.items()}
        self._planned: set[PartitionKey] = set()
        self._searches = {} if searches is None else searches
        self._hosted: dict[int, list[PartitionKey]] = {}
        self._candidates: dict[tuple[int, int], dict[PartitionKey, bool]] = {}
        """By source and target: partitions that can move, and whether the source is their preferred leader."""
        self._topic_counts: dict[int, Counter[Uuid]] = {}
        """By target: its replicas of each topic."""
        self._examined_count = 0
        self.is_cut_short = False
        """Whether there may be more moves, but the decision has examined as many partitions as it may."""

    def moves(self, filling: Collection[int]) -> Iterator[Move]:
        """Drained brokers first, then moves to the brokers of `filling`."""
        for node_id in sorted(self._drained):
            yield from self._drain(node_id)
        # One move per broker in turn, so that two new brokers fill up together.
        waiting = [node_id for node_id in filling if node_id in self._open_brokers]
        while waiting:
            for node_id in list(waiting):
                move = self._fill(node_id)
                if move is None:
                    waiting.remove(node_id)
                else:
                    yield move

    def _drain(self, source: int) -> Iterator[Move]:
        search = self._search(source, ANY_TARGET)
        for number in range(search.position, search.window_count):
            keys = self._window(source, search, number)
            for key in keys:
                topic, partition = self._find(key)
                # Without a leader nothing can be copied.
                if key in self._planned or not partition.has_leader or _is_reassigning(partition):
                    continue
                targets = [
                    each
                    for each in self._open_brokers
                    if self._is_possible(partition, source=source, target=each)
                ] or [each for each in self._open_brokers if each not in partition.replicas]
                if targets:
                    target = min(targets, key=lambda each: (self._counts[each], each))
                    yield self._move(topic, key, source, target)
            if self.is_cut_short:
                return
            if search.position == number and self._planned.isdisjoint(keys):
                search.position += 1

    def _fill(self, target: int) -> Move | None:
        """The next move to a broker; None if it has enough."""
        sources = sorted(self._image.brokers, key=lambda each: (-self._counts[each], each))
        for source in sources:
            if source in self._drained:
                continue
            if self._counts[source] - self._counts[target] < 2:
                return None
            key = self._choose(source, target)
            if key is not None:
                return self._move(self._find(key)[0], key, source, target)
        return None

    def _choose(self, source: int, target: int) -> PartitionKey | None:
        """A healthy partition of the source, of a topic with few replicas on the target."""
        candidates = self._find_candidates(source, target)
        if not candidates:
            return None
        topic_counts = self._topic_counts.get(target)
        if topic_counts is None:
            topic_counts = Counter(topic_id for topic_id, _ in self._index.hosted(target))
            self._topic_counts[target] = topic_counts
        wants_leader = self._preferred[target] < self._average_preferred
        return min(candidates, key=lambda key: (candidates[key] != wants_leader, topic_counts[key[0]]))

    def _find_candidates(self, source: int, target: int) -> dict[PartitionKey, bool]:
        """The partitions of the next window that has some. A search that found the end costs nothing any more."""
        search = self._search(source, target)
        candidates = self._candidates.setdefault((source, target), {})
        while not candidates and search.position < search.window_count:
            for key in self._window(source, search, search.position):
                _, partition = self._find(key)
                if key not in self._planned and self._is_movable(partition, source=source, target=target):
                    candidates[key] = partition.replicas[0] == source
            if self.is_cut_short:
                break
            if not candidates:
                search.position += 1
        return candidates

    def _search(self, source: int, target: int) -> Search:
        found = self._searches.get((source, target))
        if found is None:
            window_count = -(-self._index.hosted_count(source) // WINDOW)
            found = self._searches[source, target] = Search(window_count)
        return found

    def _window(self, source: int, search: Search, number: int) -> list[PartitionKey]:
        """Partitions of the source, of as many topics as possible. None if the decision has examined enough."""
        if self._examined_count >= EXAMINED_MAX:
            self.is_cut_short = True
            return []
        hosted = self._hosted.get(source)
        if hosted is None:
            hosted = self._hosted[source] = self._index.hosted(source)
        keys = hosted[number :: search.window_count]
        self._examined_count += len(keys)
        return keys

    def _is_movable(self, partition: PartitionImage, *, source: int, target: int) -> bool:
        is_healthy = partition.has_leader and len(partition.isr) == len(partition.replicas)
        return (
            is_healthy
            and not _is_reassigning(partition)
            and self._is_possible(partition, source=source, target=target)
        )

    def _is_possible(self, partition: PartitionImage, *, source: int, target: int) -> bool:
        """Whether the target has no replica yet, and the replicas would be in as many racks and on as many hosts as
        before."""
        if target in partition.replicas:
            return False
        places = self._places
        if source not in places:
            return True
        others = [places[each] for each in partition.replicas if each != source and each in places]
        racks = [rack for rack, _ in others]
        hosts = [host for _, host in others]
        (new_rack, new_host), (old_rack, old_host) = places[target], places[source]
        keeps_racks = new_rack not in racks or old_rack in racks
        return keeps_racks and (new_host not in hosts or old_host in hosts)

    def _move(self, topic: TopicImage, key: PartitionKey, source: int, target: int) -> Move:
        self._planned.add(key)
        for candidates in self._candidates.values():
            candidates.pop(key, None)
        if target in self._topic_counts:
            self._topic_counts[target][topic.topic_id] += 1
        self._counts[source] -= 1
        self._counts[target] += 1
        if topic.partitions[key[1]].replicas[0] == source:
            self._preferred[source] -= 1
            self._preferred[target] += 1
        return Move(topic, key[1], source, target)

    def _find(self, key: PartitionKey) -> tuple[TopicImage, PartitionImage]:
        topic = self._image.topics.with_id(key[0])
        assert topic is not None, "the index follows the image"
        return topic, topic.partitions[key[1]]


def _open_brokers(image: MetadataImage, drained: Collection[int]) -> list[int]:
    """Brokers that may get replicas, in ascending order."""
    return sorted(
        node_id
        for node_id, broker in image.brokers.items()
        if broker.is_active and can_take_replicas(broker) and node_id not in drained
    )


def _counts(image: MetadataImage, index: BrokerIndex) -> Counter[int]:
    """Replicas of each broker, as if all reassignments were complete."""
    counts: Counter[int] = Counter({node_id: index.hosted_count(node_id) for node_id in image.brokers})
    for topic_id, number in index.reassigning():
        topic = image.topics.with_id(topic_id)
        assert topic is not None, "the index follows the image"
        counts.subtract(topic.partitions[number].removing_replicas)
    return counts


def _is_reassigning(partition: PartitionImage) -> bool:
    return bool(partition.adding_replicas or partition.removing_replicas)
