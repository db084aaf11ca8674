"""The state of a cluster at one moment, from admin calls that any client may make."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock import Admin, TopicPartition


@dataclass(frozen=True, slots=True)
class BrokerState:
    id: int
    address: str
    rack: str | None = None
    is_controller: bool = False
    used_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionState:
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    end_offset: int | None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class GroupState:
    state: str
    members: int
    lags: Mapping[tuple[str, int], int]
    """By partition with a committed offset."""
    committed: Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the cluster at `seconds` of a monotonic clock."""

    seconds: float
    cluster_id: str | None
    brokers: tuple[BrokerState, ...] = ()
    partitions: Mapping[tuple[str, int], PartitionState] = field(default_factory=dict)
    groups: Mapping[str, GroupState] = field(default_factory=dict)


class SnapshotSource:
    """Takes snapshots over the connections of one admin client."""

    def __init__(self, admin: Admin, *, shows_internal: bool) -> None:
        self._admin = admin
        self._shows_internal = shows_internal

    def take(self, *, timeout: float | None = None) -> Snapshot:
        """`timeout` is in seconds, for each call; by default that of the admin client."""
        from penstock import TopicPartition

        admin = self._admin
        cluster = admin.describe_cluster(timeout=timeout)
        names = [
            topic.name for topic in admin.list_topics(include_internal=self._shows_internal, timeout=timeout)
        ]
        topics = admin.describe_topics(names, timeout=timeout) if names else {}
        led = {
            TopicPartition(topic.name, partition.index): partition
            for topic in topics.values()
            for partition in topic.partitions
        }
        ends = self._ends([one for one, partition in led.items() if partition.leader is not None], timeout)
        sizes, used = self._sizes(timeout)
        groups = self._groups(timeout)
        return Snapshot(
            seconds=time.monotonic(),
            cluster_id=cluster.cluster_id,
            brokers=tuple(
                BrokerState(
                    broker.id,
                    f"{broker.host}:{broker.port}",
                    broker.rack,
                    broker.id == cluster.controller,
                    used.get(broker.id),
                )
                for broker in cluster.brokers
            ),
            partitions={
                (one.topic, one.partition): PartitionState(
                    partition.leader,
                    partition.replicas,
                    partition.in_sync,
                    ends.get(one),
                    sizes.get((one.topic, one.partition)),
                )
                for one, partition in led.items()
            },
            groups=groups,
        )

    def _ends(self, partitions: list[TopicPartition], timeout: float | None) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        listed = self._admin.list_offsets(dict.fromkeys(partitions, "latest"), timeout=timeout)
        return {partition: one.offset for partition, one in listed.items()}

    def _sizes(self, timeout: float | None) -> tuple[dict[tuple[str, int], int], dict[int, int]]:
        """The size of the largest replica of each partition, and the total size by broker."""
        sizes: dict[tuple[str, int], int] = {}
        used: dict[int, int] = {}
        for broker, directories in self._admin.describe_log_dirs(timeout=timeout).items():
            for directory in directories:
                for replica in directory.replicas:
                    place = replica.partition.topic, replica.partition.partition
                    sizes[place] = max(sizes.get(place, 0), replica.size_bytes)
                    used[broker] = used.get(broker, 0) + replica.size_bytes
        return sizes, used

    def _groups(self, timeout: float | None) -> dict[str, GroupState]:
        listed = self._admin.list_groups(timeout=timeout)
        if not listed:
            return {}
        names = [group.group_id for group in listed]
        described = self._admin.describe_groups(names, timeout=timeout)
        lags = self._admin.groups_lag(names, timeout=timeout)
        return {
            name: GroupState(
                str(group.state),
                len(group.members),
                {
                    (one.partition.topic, one.partition.partition): one.lag
                    for one in lags.get(name, [])
                    if one.lag is not None
                },
                {
                    (one.partition.topic, one.partition.partition): one.committed_offset
                    for one in lags.get(name, [])
                    if one.committed_offset is not None
                },
            )
            for name, group in described.items()
        }
