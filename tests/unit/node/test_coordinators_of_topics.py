"""A node coordinates the groups and transactions of the partitions that it leads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from harness.datapath import NODE_ID, Cluster, DataNode, partition_record, real_runtime, topic_id_of
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.records.topics import RemoveTopicRecord, TopicRecord
from penstock.node.broker_role import BrokerRole
from penstock.protocol.types import Uuid

NAME = "__consumer_offsets"


class Coordinator:
    """Records what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def elected(self, partition: int, leader_epoch: int) -> None:
        self.heard.append("elected")

    def resigned(self, partition: int) -> None:
        self.heard.append("resigned")


async def test_a_recreated_topic_begins_without_the_groups_of_the_deleted_one(tmp_path: Any) -> None:
    """Both changes come in one delta. The old state was kept, and new offset commits were not visible."""
    cluster = Cluster()
    cluster.add_broker(NODE_ID)
    runtime = real_runtime()
    node = DataNode(cluster, [str(tmp_path / "data")], runtime)
    await node.start()
    coordinator = Coordinator()
    role: Any = SimpleNamespace(partitions=node.partitions, coordinators={NAME: coordinator})

    def elect(delta: MetadataDelta) -> None:
        BrokerRole._elect_coordinators(role, delta)

    cluster.metadata.subscribe(elect)
    cluster.add_topic(NAME)
    assert coordinator.heard == ["elected"]

    again = partition_record(NAME, 0)
    again.topic_id = Uuid(b"another id......")
    cluster.publish(
        RemoveTopicRecord(topic_id=topic_id_of(NAME)),
        TopicRecord(name=NAME, topic_id=again.topic_id),
        again,
    )

    assert coordinator.heard == ["elected", "resigned", "elected"]
    await node.stop()
    runtime.workers.close()
