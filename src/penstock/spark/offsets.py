"""Where a query starts, stands and ends: offsets as JSON, and the options that set them. No I/O.

The offset of a stream is the JSON of Spark's Kafka connector plus the ids of topics, which tell a recreated topic from
the one in the checkpoint:

    {"orders": {"0": 17, "1": 4}, "@ids": {"orders": "Vb9R..."}}

No topic name contains an @. Checkpoints of the connector, which have no ids, are accepted too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from penstock.client.cluster import TopicPartition
from penstock.protocol.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from penstock.spark.errors import BadCheckpoint, BadOption
from penstock.spark.options import Options

IDS = "@ids"

Offsets = dict[TopicPartition, int]
ListOffsets = Callable[[Mapping[TopicPartition, int]], Offsets]
"""Offsets by partition for a timestamp, `EARLIEST_TIMESTAMP` or `LATEST_TIMESTAMP`; -1 if no record is that recent."""


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """How far a stream has read."""

    offsets: Offsets
    ids: dict[str, str] = field(default_factory=dict)
    """Topic ids by name; older clusters have none."""

    @classmethod
    def of_json(cls, given: Mapping[str, Any]) -> Self:
        try:
            offsets = {
                TopicPartition(topic, int(index)): int(offset)
                for topic, partitions in given.items()
                if topic != IDS
                for index, offset in partitions.items()
            }
            return cls(offsets, dict(given.get(IDS, {})))
        except (AttributeError, TypeError, ValueError):
            raise BadCheckpoint(
                f"the checkpoint has {given!r} instead of topic offsets: it belongs to a query with another source"
            ) from None

    def to_json(self) -> dict[str, Any]:
        """Always in the same order: Spark compares offsets as text."""
        topics: dict[str, Any] = {}
        for partition in sorted(self.offsets):
            topics.setdefault(partition.topic, {})[str(partition.partition)] = self.offsets[partition]
        ids = {topic: self.ids[topic] for topic in sorted(topics) if topic in self.ids}
        return topics | ({IDS: ids} if ids else {})

    def is_other_topic(self, topic: str, other: StreamOffset) -> bool:
        """Whether the topic was recreated between the two offsets."""
        return topic in self.ids and topic in other.ids and self.ids[topic] != other.ids[topic]


class Edge(NamedTuple):
    """One end of the range that a query reads, as its options give it. Exactly one of `end`, `offsets` and `times` is
    set."""

    option: str
    """The option that was given."""
    end: int | None = None
    """`EARLIEST_TIMESTAMP` or `LATEST_TIMESTAMP` for all partitions."""
    offsets: Offsets | None = None
    times: Offsets | int | None = None
    is_start: bool = True
    falls_to_latest: bool = True
    """For partitions without a record that recent."""


def starting_edge(options: Options, *, is_stream: bool) -> Edge:
    """Timestamps take precedence over offsets, and one timestamp over several, as in Spark's connector."""
    default = LATEST_TIMESTAMP if is_stream else EARLIEST_TIMESTAMP
    edge = _edge(options, "starting", default)
    edge = edge._replace(falls_to_latest=options.get("startingOffsetsByTimestampStrategy") == "latest")
    if not is_stream:
        if edge.end == LATEST_TIMESTAMP:
            raise BadOption("option startingOffsets: a batch that starts at the latest offset reads nothing")
        for partition, offset in (edge.offsets or {}).items():
            if offset == LATEST_TIMESTAMP:
                raise BadOption(
                    f"option startingOffsets: a batch cannot start at the latest offset of {partition}"
                )
    return edge


def ending_edge(options: Options) -> Edge:
    edge = _edge(options, "ending", LATEST_TIMESTAMP)._replace(is_start=False)
    if edge.end == EARLIEST_TIMESTAMP:
        raise BadOption("option endingOffsets: a batch that ends at the earliest offset reads nothing")
    for partition, offset in (edge.offsets or {}).items():
        if offset == EARLIEST_TIMESTAMP:
            raise BadOption(f"option endingOffsets: a batch cannot end at the earliest offset of {partition}")
    return edge


def _edge(options: Options, side: str, default: int) -> Edge:
    if (time := options.get(f"{side}Timestamp")) is not None:
        return Edge(f"{side}Timestamp", times=time)
    if (times := options.get(f"{side}OffsetsByTimestamp")) is not None:
        return Edge(f"{side}OffsetsByTimestamp", times=_flat(times))
    option = f"{side}Offsets"
    if not options.is_set(option):
        return Edge(option, end=default)
    given = options.get(option)
    if isinstance(given, str):
        return Edge(option, end={"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}[given])
    return Edge(option, offsets=_flat(given))


def _flat(numbers: Mapping[str, Mapping[int, int]]) -> Offsets:
    return {
        TopicPartition(topic, index): number
        for topic, partitions in numbers.items()
        for index, number in partitions.items()
    }


def resolve(edge: Edge, partitions: Collection[TopicPartition], list_offsets: ListOffsets) -> Offsets:
    """The offset of each partition. Offsets given by partition must name all partitions and no others."""
    if edge.end is not None:
        return list_offsets(dict.fromkeys(partitions, edge.end))
    if edge.times is not None:
        return _resolve_times(edge, partitions, list_offsets)
    assert edge.offsets is not None
    _check_named(edge, edge.offsets, partitions)
    ends = {partition: offset for partition, offset in edge.offsets.items() if offset < 0}
    return edge.offsets | (list_offsets(ends) if ends else {})


def _resolve_times(edge: Edge, partitions: Collection[TopicPartition], list_offsets: ListOffsets) -> Offsets:
    times = edge.times
    if isinstance(times, int):
        times = dict.fromkeys(partitions, times)
    assert times is not None
    _check_named(edge, times, partitions)
    found = list_offsets(times)
    beyond = [partition for partition in found if found[partition] < 0]
    if not beyond:
        return found
    if edge.is_start and not edge.falls_to_latest:
        partition = beyond[0]
        raise BadOption(
            f"option {edge.option}: {partition} has no record with timestamp {times[partition]} or later; to start at"
            " the end in this case, set startingOffsetsByTimestampStrategy=latest"
        )
    return found | list_offsets(dict.fromkeys(beyond, LATEST_TIMESTAMP))


def _check_named(
    edge: Edge, given: Collection[TopicPartition], partitions: Collection[TopicPartition]
) -> None:
    lacking = sorted(set(partitions) - set(given))
    if lacking:
        hint = ", with -2 for earliest and -1 for latest" if edge.is_start else ", with -1 for latest"
        raise BadOption(
            f"option {edge.option} has no value for {_listed(lacking)}; name all partitions"
            f"{'' if edge.offsets is None else hint}"
        )
    surplus = sorted(set(given) - set(partitions))
    if surplus:
        raise BadOption(f"option {edge.option} names {_listed(surplus)}, which the query does not read")


NAMED_MAX = 5  # a topic may have thousands


def _listed(partitions: list[TopicPartition]) -> str:
    shown = ", ".join(map(str, partitions[:NAMED_MAX]))
    return shown if len(partitions) <= NAMED_MAX else f"{shown} and {len(partitions) - NAMED_MAX} more"
