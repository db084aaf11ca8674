"""Where a query begins, stands and ends: offsets as JSON, and what the options for them mean. No I/O.

The offset of a stream is the JSON of Spark's own Kafka connector, with the ids of topics besides, so that a topic which
was deleted and made anew is told from the one that a checkpoint speaks of:

    {"orders": {"0": 17, "1": 4}, "@ids": {"orders": "Vb9R..."}}

No topic's name has an @ in it. A checkpoint of the connector, which has no ids, is understood as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from penstock.client.cluster import TopicPartition
from penstock.spark.errors import BadCheckpoint, BadOption
from penstock.spark.options import Options

EARLIEST = -2
LATEST = -1
IDS = "@ids"

Offsets = dict[TopicPartition, int]
ListOffsets = Callable[[Mapping[TopicPartition, int]], Offsets]
"""Answers by partition for a time, `EARLIEST` or `LATEST` of each; -1 where no record is as young as the time."""


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """How far a stream has come."""

    offsets: Offsets
    ids: dict[str, str] = field(default_factory=dict)
    """Of topics; older clusters have none."""

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
                f"the checkpoint tells of {given!r}, which are no offsets of topics: it is of a query with another"
                " source"
            ) from None

    def to_json(self) -> dict[str, Any]:
        """Always in the same order: Spark compares offsets as text."""
        told: dict[str, Any] = {}
        for partition in sorted(self.offsets):
            told.setdefault(partition.topic, {})[str(partition.partition)] = self.offsets[partition]
        ids = {topic: self.ids[topic] for topic in sorted(told) if topic in self.ids}
        return told | ({IDS: ids} if ids else {})

    def is_other_topic(self, topic: str, other: StreamOffset) -> bool:
        """Whether the topic of this name is another one there."""
        return topic in self.ids and topic in other.ids and self.ids[topic] != other.ids[topic]


class Edge(NamedTuple):
    """One end of what a query reads, as options say it. One of the first three is set."""

    option: str
    """Which one said it."""
    end: int | None = None
    """`EARLIEST` or `LATEST`, of all partitions."""
    offsets: Offsets | None = None
    times: Offsets | int | None = None
    is_start: bool = True
    falls_to_latest: bool = True
    """Where no record is as young as the time."""


def starting_edge(options: Options, *, is_stream: bool) -> Edge:
    """Times go before offsets, and one time before several, as in the connector."""
    default = LATEST if is_stream else EARLIEST
    edge = _edge(options, "starting", default)
    edge = edge._replace(falls_to_latest=options.get("startingOffsetsByTimestampStrategy") == "latest")
    if not is_stream:
        if edge.end == LATEST:
            raise BadOption("option startingOffsets: a batch that begins at the latest offset reads nothing")
        for partition, offset in (edge.offsets or {}).items():
            if offset == LATEST:
                raise BadOption(
                    f"option startingOffsets: a batch cannot begin at the latest offset of {partition}"
                )
    return edge


def ending_edge(options: Options) -> Edge:
    edge = _edge(options, "ending", LATEST)._replace(is_start=False)
    if edge.end == EARLIEST:
        raise BadOption("option endingOffsets: a batch that ends at the earliest offset reads nothing")
    for partition, offset in (edge.offsets or {}).items():
        if offset == EARLIEST:
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
    said = options.get(option)
    if isinstance(said, str):
        return Edge(option, end={"earliest": EARLIEST, "latest": LATEST}[said])
    return Edge(option, offsets=_flat(said))


def _flat(numbers: Mapping[str, Mapping[int, int]]) -> Offsets:
    return {
        TopicPartition(topic, index): number
        for topic, partitions in numbers.items()
        for index, number in partitions.items()
    }


def resolve(edge: Edge, partitions: Collection[TopicPartition], list_offsets: ListOffsets) -> Offsets:
    """The offset of each partition. What was said by partition has to be said of all, and of no other."""
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
            f"option {edge.option}: no record of {partition} is of {times[partition]} or later;"
            " startingOffsetsByTimestampStrategy=latest begins at the end then"
        )
    return found | list_offsets(dict.fromkeys(beyond, LATEST))


def _check_named(
    edge: Edge, said: Collection[TopicPartition], partitions: Collection[TopicPartition]
) -> None:
    lacking = sorted(set(partitions) - set(said))
    if lacking:
        raise BadOption(
            f"option {edge.option} does not say where {_listed(lacking)} begin{'s' if len(lacking) == 1 else ''};"
            " all partitions have to be named, with -2 for earliest and -1 for latest"
            if edge.is_start
            else f"option {edge.option} does not say where {_listed(lacking)} end; all partitions have to be named"
        )
    surplus = sorted(set(said) - set(partitions))
    if surplus:
        raise BadOption(f"option {edge.option} names {_listed(surplus)}, which the query does not read")


NAMED_MAX = 5  # a topic may have thousands


def _listed(partitions: list[TopicPartition]) -> str:
    shown = ", ".join(map(str, partitions[:NAMED_MAX]))
    return shown if len(partitions) <= NAMED_MAX else f"{shown} and {len(partitions) - NAMED_MAX} more"
