"""The cluster at a glance: the work behind `penstock cluster status`. `overview` sees only descriptions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from penstock.cli.reassignment import ReassigningAdmin
from penstock.client.admin.cluster import ClusterDescription
from penstock.client.admin.quorum import QuorumAdmin, QuorumDescription
from penstock.client.admin.topics import TopicDescription


class OverviewAdmin(ReassigningAdmin, QuorumAdmin):
    """The families of admin calls that an overview needs."""


class NodeRow(NamedTuple):
    node: int
    address: str | None
    rack: str | None
    state: str
    """`alive`, `fenced`, or `-` for a controller that is not a broker."""
    controller: str | None
    """`leader` or `voter`; None for a broker that is not a controller."""
    lag: int | None
    """Records of the metadata log that it does not have."""
    leaders: int
    replicas: int
    out_of_sync: int
    """Replicas of this node that are not in sync."""


class Overview(NamedTuple):
    cluster_id: str | None
    partitions: int
    under_replicated: int
    offline: int
    """Partitions without a leader."""
    moving: int
    """Partitions that are being reassigned."""
    nodes: list[NodeRow]


def overview(
    cluster: ClusterDescription, quorum: QuorumDescription, topics: Iterable[TopicDescription], moving: int
) -> Overview:
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    out_of_sync: Counter[int] = Counter()
    partitions = under_replicated = offline = 0
    for topic in topics:
        for partition in topic.partitions:
            partitions += 1
            missing = set(partition.replicas) - set(partition.in_sync)
            under_replicated += bool(missing)
            offline += partition.leader is None
            if partition.leader is not None:
                leaders[partition.leader] += 1
            replicas.update(partition.replicas)
            out_of_sync.update(missing)
    # A node may be in both lists: as voter with the directory of an earlier disk, and as observer with its present one.
    ends = {each.id: each.log_end_offset for each in (*quorum.observers, *quorum.voters)}
    end = ends.get(quorum.leader, max(ends.values(), default=0))
    voters = {each.id for each in quorum.voters}
    brokers = {broker.id: broker for broker in cluster.brokers}
    rows = []
    for node in sorted({*brokers, *voters}):
        broker = brokers.get(node)
        rows.append(
            NodeRow(
                node=node,
                address=None if broker is None else f"{broker.host}:{broker.port}",
                rack=None if broker is None else broker.rack,
                state="-" if broker is None else "fenced" if broker.is_fenced else "alive",
                controller="leader" if node == quorum.leader else "voter" if node in voters else None,
                lag=max(0, end - ends[node]) if node in ends else None,
                leaders=leaders[node],
                replicas=replicas[node],
                out_of_sync=out_of_sync[node],
            )
        )
    return Overview(cluster.cluster_id, partitions, under_replicated, offline, moving, rows)


async def describe_overview(admin: OverviewAdmin) -> Overview:
    cluster, quorum, listed, moving = await asyncio.gather(
        admin.describe_cluster(include_fenced=True),
        admin.describe_quorum(),
        admin.list_topics(include_internal=True),
        admin.list_reassignments(),
    )
    topics = await admin.describe_topics([each.name for each in listed]) if listed else {}
    return overview(cluster, quorum, topics.values(), len(moving))
