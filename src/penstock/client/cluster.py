"""The client's metadata of a cluster: nodes, topics, partitions, leaders and their epochs. No I/O.

A `Cluster` is immutable; updates make a new one (`merged`, `with_leaders`). Brokers learn of changes at different
times, so a response may be older than what is known: a leader with an older epoch never replaces one with a newer epoch
of the same topic (KIP-320). Only a topic that was created again, which has another id, starts anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from penstock.protocol.constants import NO_LEADER_EPOCH
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Uuid, uuid_text

NO_NODE = -1


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[TopicPartition | tuple[str, int]]) -> dict[str, list[int]]:
    """Partition indexes by topic, as most requests list them."""
    indexes: dict[str, list[int]] = {}
    for topic, index in partitions:
        indexes.setdefault(topic, []).append(index)
    return indexes


@dataclass(frozen=True, slots=True)
class Node:
    """A broker and its address."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.id < 0 else f"node {self.id} ({self.host}:{self.port})"


class Leader(NamedTuple):
    node_id: int
    epoch: int
    """-1 if the broker is too old to send it (before Kafka 2.1)."""


class LeaderChange(NamedTuple):
    """A new leader, from the response to a produce or fetch request (KIP-951)."""

    partition: TopicPartition
    leader: Leader


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """The metadata of one partition."""

    index: int
    leader_id: int = NO_NODE
    leader_epoch: int = NO_LEADER_EPOCH
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.NONE

    @property
    def leader(self) -> Leader | None:
        return None if self.leader_id < 0 else Leader(self.leader_id, self.leader_epoch)


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: Uuid = ZERO_UUID
    is_internal: bool = False
    partitions: tuple[PartitionInfo, ...] = ()
    """By index. An index that is missing in the response has no leader here."""
    error: ErrorCode = ErrorCode.NONE
    """The error in the last response. After a retriable error the earlier partitions are kept."""
    authorized_operations: int = -(2**31)


@dataclass(frozen=True, slots=True)
class Cluster:
    cluster_id: str | None = None
    controller_id: int = NO_NODE
    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    topics_by_id: Mapping[Uuid, Topic] = field(default_factory=dict)

    def leader_of(self, partition: TopicPartition) -> Leader | None:
        """None if the partition has no leader or is unknown."""
        topic = self.topics.get(partition[0])
        if topic is None or not 0 <= partition[1] < len(topic.partitions):
            return None
        return topic.partitions[partition[1]].leader

    def leader_node_id(self, topic: str, partition: int) -> int | None:
        """The node to send to; None if the partition has no leader, or the leader's address is unknown."""
        known = self.topics.get(topic)
        if known is None or partition >= len(known.partitions):
            return None
        leader_id = known.partitions[partition].leader_id
        return leader_id if leader_id in self.nodes else None

    def partition(self, partition: TopicPartition) -> PartitionInfo | None:
        topic = self.topics.get(partition[0])
        if topic is None or not 0 <= partition[1] < len(topic.partitions):
            return None
        return topic.partitions[partition[1]]

    def id_of(self, name: str) -> str | None:
        """The topic id as text; None for an unknown topic, and for brokers without topic ids."""
        topic = self.topics.get(name)
        return None if topic is None or topic.id == ZERO_UUID else uuid_text(topic.id)

    def partitions_of(self, name: str) -> tuple[TopicPartition, ...]:
        topic = self.topics.get(name)
        return () if topic is None else tuple(TopicPartition(name, each.index) for each in topic.partitions)

    def merged(self, response: Any, *, keep: Collection[str] = ()) -> Cluster:
        """The cluster after a `MetadataResponse`: its nodes and topics, plus the topics in `keep` that it does not
        name."""
        topics = {name: self.topics[name] for name in keep if name in self.topics}
        for described in response.topics:
            if described.name is not None:
                topics[described.name] = _merged_topic(self.topics.get(described.name), described)
        nodes = {
            each.node_id: Node(each.node_id, each.host, each.port, each.rack) for each in response.brokers
        }
        return _cluster(
            cluster_id=response.cluster_id if response.cluster_id is not None else self.cluster_id,
            controller_id=response.controller_id,
            nodes=nodes,
            topics=topics,
        )

    def with_leaders(self, changes: Iterable[LeaderChange], nodes: Iterable[Node] = ()) -> Cluster:
        """The cluster after a response with new leaders; the same object if nothing changed."""
        topics: dict[str, Topic] = {}
        for (name, index), leader in changes:
            topic = topics.get(name) or self.topics.get(name)
            if topic is None or not 0 <= index < len(topic.partitions):
                continue
            known = topic.partitions[index]
            if leader.epoch <= known.leader_epoch or leader.node_id < 0:
                continue
            led = replace(known, leader_id=leader.node_id, leader_epoch=leader.epoch, error=ErrorCode.NONE)
            topics[name] = replace(
                topic, partitions=(*topic.partitions[:index], led, *topic.partitions[index + 1 :])
            )
        known_nodes = {**self.nodes, **{node.id: node for node in nodes}}
        if not topics and known_nodes == self.nodes:
            return self
        return _cluster(
            cluster_id=self.cluster_id,
            controller_id=self.controller_id,
            nodes=known_nodes,
            topics={**self.topics, **topics},
        )


def _cluster(
    *, cluster_id: str | None, controller_id: int, nodes: dict[int, Node], topics: dict[str, Topic]
) -> Cluster:
    by_id = {topic.id: topic for topic in topics.values() if topic.id != ZERO_UUID}
    return Cluster(
        cluster_id, controller_id, MappingProxyType(nodes), MappingProxyType(topics), MappingProxyType(by_id)
    )


def _merged_topic(known: Topic | None, described: Any) -> Topic:
    if described.error_code != ErrorCode.NONE:
        if known is not None and described.error_code.is_retriable:
            return replace(known, error=described.error_code)
        return Topic(described.name, described.topic_id, described.is_internal, (), described.error_code)
    is_same = known is not None and (
        known.id == described.topic_id or ZERO_UUID in (known.id, described.topic_id)
    )
    before = known.partitions if known is not None and is_same else ()
    by_index = {each.partition_index: each for each in described.partitions}
    partitions = tuple(
        _merged_partition(before[index] if index < len(before) else None, by_index.get(index), index)
        for index in range(max(by_index, default=-1) + 1)
    )
    topic_id = described.topic_id
    if known is not None and is_same and topic_id == ZERO_UUID:
        topic_id = known.id  # from an older broker, without topic ids
    return Topic(
        described.name,
        topic_id,
        described.is_internal,
        partitions,
        ErrorCode.NONE,
        described.topic_authorized_operations,
    )


def _merged_partition(known: PartitionInfo | None, described: Any | None, index: int) -> PartitionInfo:
    if described is None:
        return known or PartitionInfo(index, error=ErrorCode.LEADER_NOT_AVAILABLE)
    if known is not None and NO_LEADER_EPOCH < described.leader_epoch < known.leader_epoch:
        return known
    return PartitionInfo(
        index,
        described.leader_id,
        # A lost leader leaves its epoch: without it, an older response would be taken as newer.
        described.leader_epoch,
        tuple(described.replica_nodes),
        tuple(described.isr_nodes),
        tuple(described.offline_replicas),
        described.error_code,
    )
