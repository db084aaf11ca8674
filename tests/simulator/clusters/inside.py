"""What checks and chaos read from the inside of nodes, in one place. Clients never use it."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.metadata.image import MetadataImage
from penstock.replication.partition import Partition
from simulator.cluster import SimulatedCluster
from simulator.node import SimulatedNode


def image_of(node: SimulatedNode) -> MetadataImage:
    return node.node.metadata.image


def metadata_offset_of(node: SimulatedNode) -> int:
    """The offset of the last record in its image."""
    return image_of(node).offset


def partitions_of(node: SimulatedNode) -> Iterator[Partition]:
    yield from node.node.partitions.all()


def quorum_state_of(node: SimulatedNode) -> tuple[int, bool]:
    """The epoch of the quorum, as it knows it, and whether it won the election of that epoch."""
    core = node.node.quorum._core
    return core.epoch, core.is_leader


def quorum_role_of(node: SimulatedNode) -> str:
    """As a candidate, follower ..."""
    return str(node.node.quorum._core.role_name)


def active_controller(cluster: SimulatedCluster) -> int | None:
    """The leader of the newest epoch, if it has loaded everything."""
    found: tuple[int, int] | None = None
    for node_id, node in cluster.nodes.items():
        if node.is_serving and "controller" in cluster.roles[node_id]:
            epoch, is_leader = quorum_state_of(node)
            if is_leader and node.node.controller.is_active and (found is None or epoch > found[0]):
                found = (epoch, node_id)
    return None if found is None else found[1]


def is_fully_in_sync(cluster: SimulatedCluster) -> bool:
    """Whether all replicas of all partitions are in sync, all brokers are unfenced, and the quorum has all voters."""
    controller_id = active_controller(cluster)
    if controller_id is None or not all(
        node.is_serving and not node.is_paused for node in cluster.nodes.values()
    ):
        return False
    image = image_of(cluster.nodes[controller_id])
    if any(broker.is_fenced for broker in image.brokers.values()) or len(image.brokers) < len(
        cluster.broker_ids
    ):
        return False
    return all(
        partition.has_leader and set(partition.isr) == set(partition.replicas)
        for topic in image.topics.by_name.values()
        for partition in topic.partitions
    )
