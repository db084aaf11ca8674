"""The topology of a streams application: its subtopologies, and the topics that they read and write.

Partition counts of internal topics may be undecided here; `configuring` decides them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.coordinator.group.records import streams as records
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import streams_group_heartbeat as messages

UNDECIDED = 0
"""As a partition count: the coordinator decides. As a replication factor: the broker's default."""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A repartition or changelog topic of the application, which the broker creates."""

    name: str
    partition_count: int
    replication_factor: int
    settings: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CopartitionGroup:
    """Topics that must have the same partition count, because they are joined: indexes into the subtopology's lists."""

    source_topics: tuple[int, ...]
    source_topic_regex: tuple[int, ...]
    repartition_sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of the topology that is connected to other parts only through repartition topics."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    source_topic_regex: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]
    """Changelog topics of its state stores."""
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    copartition_groups: tuple[CopartitionGroup, ...]

    def inputs(self) -> list[str]:
        """All topics that its tasks read."""
        return [*self.source_topics, *(topic.name for topic in self.repartition_sources)]

    def copartitioned(self) -> list[frozenset[str]]:
        """Groups of topics that must have the same partition count."""
        return [
            frozenset(
                [self.source_topics[index] for index in group.source_topics]
                + [self.repartition_sources[index].name for index in group.repartition_sources]
            )
            for group in self.copartition_groups
        ]


@dataclass(frozen=True, slots=True)
class Topology:
    epoch: int
    subtopologies: Mapping[str, Subtopology]
    """By id, in the order of the ids."""
    subtopology_of: Mapping[str, str] = field(init=False, compare=False)
    """From an input topic to the subtopology that reads it."""
    required_topics: frozenset[str] = field(init=False, compare=False)
    """Topics that must exist before tasks can be assigned."""

    def __post_init__(self) -> None:
        parts = self.subtopologies.values()
        readers = {topic: part.subtopology_id for part in parts for topic in part.inputs()}
        object.__setattr__(self, "subtopology_of", readers)
        changelogs = (topic.name for part in parts for topic in part.changelogs)
        object.__setattr__(self, "required_topics", frozenset((*readers, *changelogs)))

    @classmethod
    def read(cls, value: messages.Topology | records.StreamsGroupTopologyValue) -> Topology:
        """From a request or a record."""
        parts = [_read_subtopology(part) for part in value.subtopologies]
        return cls(value.epoch, {part.subtopology_id: part for part in sorted(parts, key=_by_id)})

    def as_record(self) -> records.StreamsGroupTopologyValue:
        return records.StreamsGroupTopologyValue(
            epoch=self.epoch, subtopologies=[_write_subtopology(each) for each in self.subtopologies.values()]
        )


def check_topology(topology: messages.Topology) -> None:
    """`Refused` with STREAMS_INVALID_TOPOLOGY if the topology is inconsistent, which no Streams client sends."""
    if topology.epoch < 0:
        raise _invalid(f"The topology's epoch is {topology.epoch}, which is negative.")
    seen: set[str] = set()
    for part in topology.subtopologies:
        if part.subtopology_id in seen:
            raise _invalid(f"Subtopology {part.subtopology_id} occurs twice.")
        seen.add(part.subtopology_id)
        _check_subtopology(part)


def _check_subtopology(part: messages.Subtopology) -> None:
    for topic in part.state_changelog_topics:
        if topic.partitions != UNDECIDED:
            raise _invalid(f"Changelog topic {topic.name} has {topic.partitions} partitions; it must be 0.")
    for topic in part.repartition_source_topics:
        if topic.partitions < 0:
            raise _invalid(
                f"Repartition topic {topic.name} has {topic.partitions} partitions, which is negative."
            )
    if not part.source_topics and not part.repartition_source_topics:
        raise _invalid(f"Subtopology {part.subtopology_id} reads no topic.")
    for group in part.copartition_groups:
        _check_indexes(part, group.source_topics, part.source_topics)
        _check_indexes(part, group.repartition_source_topics, part.repartition_source_topics)


def _check_indexes(part: messages.Subtopology, indexes: Sequence[int], named: Sequence[object]) -> None:
    for index in indexes:
        if not 0 <= index < len(named):
            raise _invalid(
                f"A copartition group of subtopology {part.subtopology_id} has an invalid topic index {index}."
            )


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def _by_id(part: Subtopology) -> str:
    return part.subtopology_id


def _read_subtopology(part: messages.Subtopology | records.Subtopology) -> Subtopology:
    return Subtopology(
        part.subtopology_id,
        source_topics=tuple(part.source_topics),
        source_topic_regex=tuple(part.source_topic_regex),
        changelogs=tuple(_read_topic(topic) for topic in part.state_changelog_topics),
        repartition_sinks=tuple(part.repartition_sink_topics),
        repartition_sources=tuple(_read_topic(topic) for topic in part.repartition_source_topics),
        copartition_groups=tuple(
            CopartitionGroup(
                tuple(group.source_topics),
                tuple(group.source_topic_regex),
                tuple(group.repartition_source_topics),
            )
            for group in part.copartition_groups
        ),
    )


def _read_topic(topic: messages.TopicInfo | records.TopicInfo) -> InternalTopic:
    settings = tuple((config.key, config.value) for config in topic.topic_configs)
    return InternalTopic(topic.name, topic.partitions, topic.replication_factor, settings)


def _write_subtopology(part: Subtopology) -> records.Subtopology:
    return records.Subtopology(
        subtopology_id=part.subtopology_id,
        source_topics=list(part.source_topics),
        source_topic_regex=list(part.source_topic_regex),
        state_changelog_topics=[_write_topic(topic) for topic in part.changelogs],
        repartition_sink_topics=list(part.repartition_sinks),
        repartition_source_topics=[_write_topic(topic) for topic in part.repartition_sources],
        copartition_groups=[
            records.CopartitionGroup(
                source_topics=list(group.source_topics),
                source_topic_regex=list(group.source_topic_regex),
                repartition_source_topics=list(group.repartition_sources),
            )
            for group in part.copartition_groups
        ],
    )


def _write_topic(topic: InternalTopic) -> records.TopicInfo:
    return records.TopicInfo(
        name=topic.name,
        partitions=topic.partition_count,
        replication_factor=topic.replication_factor,
        topic_configs=[records.TopicConfig(key=key, value=value) for key, value in topic.settings],
    )
