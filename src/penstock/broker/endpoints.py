"""Where nodes can be reached, as a client sees it: through the listener by which it came itself."""

from __future__ import annotations

from penstock.metadata.directories import LOST, is_reserved
from penstock.metadata.image import NO_LEADER, BrokerImage, Endpoint, MetadataImage, PartitionImage
from penstock.protocol.types import Uuid


def alive_brokers(image: MetadataImage, listener: str) -> list[tuple[BrokerImage, Endpoint]]:
    """Nodes that a client may talk to, in the order of their ids."""
    found = []
    for node_id in sorted(image.brokers):
        broker = image.brokers[node_id]
        endpoint = broker.endpoint(listener)
        if endpoint is not None and not broker.is_fenced:
            found.append((broker, endpoint))
    return found


def alive_endpoint(image: MetadataImage, node_id: int, listener: str) -> tuple[BrokerImage, Endpoint] | None:
    """How to reach one node, or None if it is unknown, fenced, or not on this listener."""
    broker = image.brokers.get(node_id)
    if broker is None or broker.is_fenced:
        return None
    endpoint = broker.endpoint(listener)
    return None if endpoint is None else (broker, endpoint)


def offline_replicas(image: MetadataImage, partition: PartitionImage, listener: str) -> list[int]:
    """Replicas whose node, listener or log directory cannot be reached."""
    offline = []
    for node_id, directory_id in zip(partition.replicas, partition.directories, strict=True):
        found = alive_endpoint(image, node_id, listener)
        if found is None or not _has_directory(found[0], directory_id):
            offline.append(node_id)
    return offline


def current_leader(image: MetadataImage, topic: str, index: int) -> tuple[int, int]:
    """Leader and leader epoch of a partition, or -1 for both where there is no such partition."""
    partition = image.topics.partition(topic, index)
    return (NO_LEADER, -1) if partition is None else (partition.leader, partition.leader_epoch)


def _has_directory(broker: BrokerImage, directory_id: Uuid) -> bool:
    if directory_id == LOST:
        return False
    if is_reserved(directory_id) or not broker.directories:
        return True  # chosen by a node that does not tell, or not chosen yet
    return directory_id in broker.directories
