"""The topics of an application: its input topics must exist, its internal topics are created.

`plan` looks topics up and decides, `Planned.create` acts. In between the application checks its checkpoint.

Changelogs are compacted (windowed ones also expire); topics between stages delete old records. Existing topics are
left as they are, and must have the required number of partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock import errors
from penstock.admin import NewTopic
from penstock.spark import clients
from penstock.streams.compile import names
from penstock.streams.compile.cut import Cut
from penstock.streams.nouns import TopologyError
from penstock.streams.settings import AppSettings
from penstock.streams.stores import Store
from penstock.streams.topic_names import check_own_topic
from penstock.streams.topology import Aggregate, Node, Topology, is_own_changelog
from penstock.streams.windows import SessionWindows, SlidingWindows, TimeWindows


@dataclass(frozen=True)
class OwnTopic:
    """A topic that the application creates."""

    name: str
    config: Mapping[str, str] = field(default_factory=dict)
    partitions: int | None = None
    """None for as many as the input topic with the most partitions."""


def read_topics(topology: Topology) -> list[str]:
    """Input topics, by name."""
    streams = [topic for source in topology.sources for topic in source.topics]
    return list(dict.fromkeys([*streams, *(table.topic for table in topology.global_tables)]))


def own_topics(topology: Topology, cut: Cut, settings: AppSettings) -> list[OwnTopic]:
    """Changelogs, and topics between stages."""
    application_id = settings.application_id
    found = [
        OwnTopic(
            names.internal(application_id, crossing.topic),
            {"cleanup.policy": "delete", "retention.ms": "-1", "message.timestamp.type": "CreateTime"},
            crossing.partitions,
        )
        for crossing in cut.crossings
    ]
    for name, node in logged_stores(topology):
        kept_ms = _kept_ms(node, topology.store_of_processor(name))
        found.append(OwnTopic(names.changelog(application_id, name), _changelog_config(kept_ms, settings)))
    for topic in found:
        check_own_topic(topic.name, application_id)
    return found


def logged_stores(topology: Topology) -> Iterator[tuple[str, Node]]:
    """Stores with a changelog, and the node that owns each."""
    for name, node in topology.stores.items():
        store = topology.store_of_processor(name)
        if store is not None:
            if store.logged:
                yield name, node
        elif not is_own_changelog(node) and node not in topology.global_tables:
            yield name, node


def _kept_ms(node: Node, store: Store[Any, Any] | None) -> int | None:
    """How long rows of a store are kept behind stream time; None for no limit."""
    if store is not None:
        return store.retention_ms
    windows = node.windows if isinstance(node, Aggregate) else None
    match windows:
        case TimeWindows():
            return windows.size_ms + windows.grace_ms
        case SlidingWindows():
            return windows.difference_ms + windows.grace_ms
        case SessionWindows():
            return windows.gap_ms + windows.grace_ms
        case _:
            return None


def _changelog_config(kept_ms: int | None, settings: AppSettings) -> dict[str, str]:
    if kept_ms is None:
        return {"cleanup.policy": "compact"}
    longer_ms = settings.get("windowstore.changelog.additional.retention.ms")
    return {"cleanup.policy": "compact,delete", "retention.ms": str(kept_ms + longer_ms)}


@dataclass(frozen=True)
class Planned:
    """What an application needs in its cluster. Nothing is created before it is known that the application may run."""

    counts: Mapping[str, int]
    """Partitions of every topic that the application knows by name, including missing ones."""
    missing: tuple[NewTopic, ...]
    """Its own topics that do not exist yet."""

    def create(self, settings: AppSettings) -> None:
        if self.missing:
            with clients.admin(settings.client) as admin:
                _create(admin, list(self.missing))


def plan(topology: Topology, cut: Cut, settings: AppSettings) -> Planned:
    """Look topics up. Raises `TopologyError` if an input topic does not exist."""
    wanted = read_topics(topology)
    own = own_topics(topology, cut, settings)
    with clients.admin(settings.client) as admin:
        counts = _counts(admin, wanted)
        if absent := [topic for topic in wanted if topic not in counts]:
            raise TopologyError(
                f"input topics of {settings.application_id} do not exist: {', '.join(absent)}"
            )
        width = max(counts.values(), default=1)
        counts |= _counts(admin, [topic.name for topic in own])
        replicas = settings.get("replication.factor")
        missing = tuple(
            NewTopic(
                name=topic.name,
                partitions=topic.partitions or width,
                replication_factor=None if replicas == -1 else replicas,
                config={**topic.config, **settings.topics},
            )
            for topic in own
            if topic.name not in counts
        )
        counts |= {topic.name: int(topic.partitions or 1) for topic in missing}
        sinks = [sink.topic for sink in topology.sinks if isinstance(sink.topic, str)]
        counts |= _counts(admin, [topic for topic in sinks if topic not in counts])
    return Planned(counts, missing)


def _counts(admin: object, wanted: Iterable[str]) -> dict[str, int]:
    """Partitions of those that exist."""
    wanted = list(wanted)
    if not wanted:
        return {}
    try:
        found = admin.describe_topics(wanted)  # type: ignore[attr-defined]
    except errors.ItemsFailed as failed:
        for error in failed.failures.values():
            if not isinstance(error, errors.UnknownTopicOrPartition):
                raise
        found = failed.results
    return {name: len(described.partitions) for name, described in found.items()}


def _create(admin: object, new: list[NewTopic]) -> None:
    try:
        admin.create_topics(new)  # type: ignore[attr-defined]
    except errors.ItemsFailed as failed:
        for error in failed.failures.values():
            if not isinstance(error, errors.TopicAlreadyExists):  # created by another instance in between
                raise
