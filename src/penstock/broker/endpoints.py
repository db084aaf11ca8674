"""The endpoints of brokers on the listener that a client uses."""

from __future__ import annotations

from penstock.metadata.directories import LOST, is_reserved
from penstock.metadata.image import NO_LEADER, BrokerImage, Endpoint, MetadataImage, PartitionImage


def alive_endpoint(image: MetadataImage, node_id: int, listener: str) -> tuple[BrokerImage, Endpoint] | None:
    """The broker and its endpoint, or None if it is unknown, fenced, or not on this listener."""
    broker = image.brokers.get(node_id)
    if broker is None or broker.is_fenced:
        return None
    endpoint = broker.endpoint(listener)
    return None if endpoint is None else (broker, endpoint)


def alive_brokers(image: MetadataImage, listener: str) -> list[tuple[BrokerImage, Endpoint]]:
    """The available brokers, ordered by id."""
    found = [alive_endpoint(image, node_id, listener) for node_id in sorted(image.brokers)]
    return [each for each in found if each is not None]


def current_leader(image: MetadataImage, topic: str, index: int) -> tuple[int, int]:
    """Leader and leader epoch of a partition, or -1 for both if it does not exist."""
    partition = image.topics.partition(topic, index)
    return (NO_LEADER, -1) if partition is None else (partition.leader, partition.leader_epoch)


class ReachableBrokers:
    """The available brokers on one listener. Created once per response, which may have many partitions."""

    __slots__ = ("_nodes", "endpoints")

    def __init__(self, image: MetadataImage, listener: str) -> None:
        self.endpoints = alive_brokers(image, listener)
        self._nodes = {broker.node_id: broker for broker, _ in self.endpoints}

    def __contains__(self, node_id: int) -> bool:
        return node_id in self._nodes

    def offline_replicas(self, partition: PartitionImage) -> list[int]:
        """Replicas whose broker, listener or log directory is offline."""
        nodes = self._nodes
        offline = []
        for node_id, directory_id in zip(partition.replicas, partition.directories, strict=True):
            node = nodes.get(node_id)
            if node is None or directory_id == LOST:
                offline.append(node_id)
            elif directory_id not in node.directories and node.directories and not is_reserved(directory_id):
                offline.append(node_id)  # the directory is not among the online directories of the broker
        return offline
