"""Configuring a topology with the existing topics: the partition counts of internal topics, the number of tasks of each
subtopology, and which topics are missing or have the wrong partition count.

While topics are missing or wrong, there are no tasks, the group is NotReady, and members get a status with the reason.
If the topology itself cannot work, the heartbeat is refused with STREAMS_INVALID_TOPOLOGY.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from penstock.coordinator.group.streams.topology import UNDECIDED, InternalTopic, Subtopology, Topology
from penstock.metadata.errors import Refused
from penstock.metadata.image import TopicsImage
from penstock.protocol.errors import ErrorCode

NAMED_MAX = 3  # topic names in a status; the others are counted


class StatusCode(enum.IntEnum):
    """Statuses in the heartbeat response."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    task_count: int
    source_topics: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)

    def inputs(self) -> list[str]:
        return [*self.source_topics, *(topic.name for topic in self.repartition_sources)]


@dataclass(frozen=True, slots=True)
class TopicFault:
    """Why tasks cannot be assigned yet."""

    code: StatusCode
    detail: str


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology]
    """By id, in order; empty if source topics are missing or partition counts are wrong."""
    missing: tuple[InternalTopic, ...] = ()
    """Internal topics to create."""
    fault: TopicFault | None = None

    @property
    def is_ready(self) -> bool:
        return self.fault is None


def configure(topology: Topology, topics: TopicsImage) -> ConfiguredTopology:
    try:
        _check_sources(topology, topics)
        counts = _decide_partition_counts(topology, topics)
        parts = {
            part.subtopology_id: _configured(part, counts, topics) for part in topology.subtopologies.values()
        }
        missing = _missing_topics(parts.values(), topics)
    except _TopicFaultError as error:
        return ConfiguredTopology(topology.epoch, {}, fault=error.fault)
    fault = None
    if missing:
        names = summary([topic.name for topic in missing])
        fault = TopicFault(StatusCode.MISSING_INTERNAL_TOPICS, f"Internal topics do not exist yet: {names}")
    return ConfiguredTopology(topology.epoch, parts, missing=missing, fault=fault)


def summary(names: list[str]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


class _TopicFaultError(Exception):
    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.fault = TopicFault(code, detail)


def _check_sources(topology: Topology, topics: TopicsImage) -> None:
    missing = {
        name for part in topology.subtopologies.values() for name in part.source_topics if name not in topics
    }
    if missing:
        raise _TopicFaultError(
            StatusCode.MISSING_SOURCE_TOPICS, f"Source topics do not exist: {summary(sorted(missing))}"
        )


def _decide_partition_counts(topology: Topology, topics: TopicsImage) -> dict[str, int]:
    """Of every internal topic. A repartition topic has the count of its upstream topics, unless the application sets it
    or it is joined with others; a changelog topic has the task count of its subtopology."""
    parts = topology.subtopologies.values()
    counts = _repartition_counts(parts, topics)
    fixed = {
        topic.name
        for part in parts
        for topic in part.repartition_sources
        if topic.partition_count != UNDECIDED
    }
    repartition_names = {topic.name for part in parts for topic in part.repartition_sources}
    for part in parts:
        for joined in part.copartitioned():
            if joined:
                counts.update(_enforce_copartitioning(joined, repartition_names, fixed, counts, topics))
    for part in parts:
        count = _task_count(part, counts, topics)
        counts.update((changelog.name, count) for changelog in part.changelogs)
    return counts


def _repartition_counts(parts: Collection[Subtopology], topics: TopicsImage) -> dict[str, int]:
    counts = {
        topic.name: topic.partition_count
        for part in parts
        for topic in part.repartition_sources
        if topic.partition_count != UNDECIDED
    }
    undecided = [(sink, part) for part in parts for sink in part.repartition_sinks if sink not in counts]
    while undecided:
        still_undecided = []
        for sink, part in undecided:
            known = [counts[topic.name] for topic in part.repartition_sources if topic.name in counts]
            known += [len(topics.by_name[name].partitions) for name in part.source_topics]
            if known:
                counts[sink] = max(known)
            else:
                still_undecided.append((sink, part))
        if len(still_undecided) == len(undecided):
            raise Refused(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                "The partition counts of repartition topics cannot be determined: they depend on each other.",
            )
        undecided = still_undecided
    for part in parts:
        for topic in part.repartition_sources:
            if topic.name not in counts:
                raise Refused(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Nothing writes to repartition topic {topic.name}, so its partition count is unknown.",
                )
    return counts


def _enforce_copartitioning(
    joined: frozenset[str],
    repartition_names: set[str],
    fixed: set[str],
    counts: Mapping[str, int],
    topics: TopicsImage,
) -> dict[str, int]:
    """The common partition count for the repartition topics of a copartition group.

    As in Kafka, all repartition topics with a count set by the application must agree, not only those of the group.
    """
    internal = {name: _partition_count(name, counts, topics) for name in sorted(joined & repartition_names)}
    external = {name: _partition_count(name, counts, topics) for name in sorted(joined - repartition_names)}
    if external:
        count = _one_count(external, external)
    elif fixed:
        count = _one_count({name: _partition_count(name, counts, topics) for name in sorted(fixed)}, internal)
    else:
        count = max(internal.values())
    for name in internal:
        if name in fixed and internal[name] != count:
            raise _TopicFaultError(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Repartition topic {name} has {internal[name]} partitions, but is joined with topics of {count}.",
            )
    return dict.fromkeys(internal, count)


def _one_count(counts: Mapping[str, int], joined: Mapping[str, int]) -> int:
    distinct = set(counts.values())
    if len(distinct) > 1:
        raise _TopicFaultError(
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            "Joined topics have different partition counts: "
            + ", ".join(f"{name} has {count}" for name, count in joined.items()),
        )
    return distinct.pop()


def _partition_count(name: str, counts: Mapping[str, int], topics: TopicsImage) -> int:
    topic = topics.get(name)
    return counts[name] if topic is None else len(topic.partitions)


def _task_count(part: Subtopology, counts: Mapping[str, int], topics: TopicsImage) -> int:
    return max(_partition_count(name, counts, topics) for name in part.inputs())


def _configured(part: Subtopology, counts: Mapping[str, int], topics: TopicsImage) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        _task_count(part, counts, topics),
        source_topics=part.source_topics,
        repartition_sources=tuple(_counted(topic, counts) for topic in part.repartition_sources),
        repartition_sinks=part.repartition_sinks,
        changelogs=tuple(_counted(topic, counts) for topic in part.changelogs),
    )


def _counted(topic: InternalTopic, counts: Mapping[str, int]) -> InternalTopic:
    if topic.partition_count != UNDECIDED:
        return topic
    return replace(topic, partition_count=counts[topic.name])


def _missing_topics(
    parts: Collection[ConfiguredSubtopology], topics: TopicsImage
) -> tuple[InternalTopic, ...]:
    wanted = {topic.name: topic for part in parts for topic in (*part.repartition_sources, *part.changelogs)}
    for name in sorted(wanted):
        existing = topics.get(name)
        if existing is not None and len(existing.partitions) != wanted[name].partition_count:
            raise _TopicFaultError(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Topic {name} has {len(existing.partitions)} partitions, but needs"
                f" {wanted[name].partition_count}.",
            )
    return tuple(wanted[name] for name in sorted(wanted) if name not in topics)
