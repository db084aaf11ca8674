"""Which partitions each endpoint serves, for interactive queries between the instances of an application.

A member receives all endpoints whenever they have changed since its last heartbeat."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.coordinator.group.streams.configuring import ConfiguredTopology
from penstock.coordinator.group.streams.member import StreamsMember
from penstock.coordinator.group.streams.tasks import Task, in_order
from penstock.metadata.image import TopicsImage
from penstock.protocol.messages.streams_group_heartbeat import Endpoint, EndpointToPartitions, TopicPartition


def partitions_by_endpoint(
    members: Iterable[StreamsMember], topology: ConfiguredTopology, topics: TopicsImage
) -> list[EndpointToPartitions]:
    return [
        EndpointToPartitions(
            user_endpoint=Endpoint(host=member.user_endpoint.host, port=member.user_endpoint.port),
            active_partitions=_partitions(member.assigned.active, topology, topics),
            standby_partitions=_partitions(member.assigned.standby, topology, topics),
        )
        for member in members
        if member.user_endpoint is not None
    ]


def _partitions(
    tasks: Iterable[Task], topology: ConfiguredTopology, topics: TopicsImage
) -> list[TopicPartition]:
    """The input partitions of the tasks; a topic may have fewer partitions than its subtopology has tasks."""
    found = []
    for subtopology_id, partitions in in_order(tasks):
        part = topology.subtopologies.get(subtopology_id)
        for name in sorted(part.inputs()) if part is not None else ():
            topic = topics.get(name)
            if topic is not None:
                existing = [partition for partition in partitions if partition < len(topic.partitions)]
                found.append(TopicPartition(topic=name, partitions=existing))
    return found
