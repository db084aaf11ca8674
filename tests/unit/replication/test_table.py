"""The partition table follows the metadata: it creates and deletes logs, applies settings, and marks stray logs."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from harness.datapath import (
    NODE_ID,
    Cluster,
    DataNode,
    make_batch,
    partition_record,
    real_runtime,
    topic_id_of,
)
from penstock.metadata.errors import Refused
from penstock.metadata.records.cluster import ConfigRecord
from penstock.metadata.records.topics import RemoveTopicRecord, TopicRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid
from penstock.records.batch import Compression
from penstock.runtime import Runtime
from simulator.disk import SimulatedDisk

NOW = 1_700_000_000_000


def error_of(node: DataNode, topic: str, index: int = 0) -> ErrorCode:
    with pytest.raises(Refused) as caught:
        node.partitions.find(topic, index)
    return caught.value.error


def write(node: DataNode, topic: str, value: bytes = b"x", index: int = 0) -> None:
    node.partition(topic, index).append_as_leader(make_batch(value), acks=1, now_ms=NOW)


# -- looking up


async def test_a_partition_is_found_by_name_and_by_id(cluster: Cluster, node: DataNode) -> None:
    cluster.add_topic("orders", partitions=2)

    partition = node.partitions.find("orders", 1)

    assert node.partitions.find_by_id(topic_id_of("orders"), 1) is partition
    assert node.partitions.get("orders", 1) is partition
    assert node.partitions.get_by_id(topic_id_of("orders"), 1) is partition
    assert (partition.topic, partition.index) == ("orders", 1)
    assert partition.is_leader


async def test_a_missing_partition_is_refused_with_the_reason(cluster: Cluster, node: DataNode) -> None:
    cluster.add_topic("orders")
    cluster.add_topic("elsewhere", replicas=(2,))

    assert error_of(node, "absent") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error_of(node, "orders", 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error_of(node, "orders", -1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error_of(node, "elsewhere") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    for topic_id, error in (
        (Uuid(b"?" * 16), ErrorCode.UNKNOWN_TOPIC_ID),
        (topic_id_of("elsewhere"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ):
        with pytest.raises(Refused) as caught:
            node.partitions.find_by_id(topic_id, 0)
        assert caught.value.error == error
    assert node.partitions.get("absent", 0) is None


# -- topics


async def test_a_new_topic_gets_folders_and_a_deleted_one_loses_them(
    cluster: Cluster, node: DataNode, tmp_path: Path
) -> None:
    cluster.add_topic("orders", partitions=2)
    assert (tmp_path / "data" / "orders-1").is_dir()

    cluster.delete_topic("orders")

    assert not (tmp_path / "data" / "orders-1").exists()
    assert error_of(node, "orders") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list(node.partitions.all()) == []


async def test_partitions_can_be_added(cluster: Cluster, node: DataNode) -> None:
    cluster.add_topic("orders")
    first = node.partition()

    cluster.publish(partition_record("orders", 1))

    assert node.partition(index=0) is first
    assert node.partition(index=1).is_leader


async def test_a_name_that_is_deleted_and_created_in_one_change_starts_empty(
    cluster: Cluster, node: DataNode
) -> None:
    cluster.add_topic("orders")
    write(node, "orders")
    renewed = Uuid(b"another id......")

    cluster.publish(
        RemoveTopicRecord(topic_id=topic_id_of("orders")),
        TopicRecord(name="orders", topic_id=renewed),
        partition_record("orders", 0).__class__(
            partition_id=0,
            topic_id=renewed,
            replicas=[NODE_ID],
            isr=[NODE_ID],
            removing_replicas=[],
            adding_replicas=[],
            leader=NODE_ID,
            leader_epoch=0,
            partition_epoch=0,
            directories=[Uuid(bytes(16))],
        ),
    )

    assert node.partition().topic_id == renewed
    assert node.partition().high_watermark == 0
    with pytest.raises(Refused):
        node.partitions.find_by_id(topic_id_of("orders"), 0)


async def test_a_replica_that_is_reassigned_to_another_broker_is_deleted(
    cluster: Cluster, node: DataNode, tmp_path: Path
) -> None:
    cluster.add_topic("orders")

    cluster.publish(partition_record("orders", 0, replicas=(2,), leader_epoch=1))

    assert error_of(node, "orders") == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not (tmp_path / "data" / "orders-0").exists()


async def test_leadership_moves_there_and_back(cluster: Cluster, node: DataNode) -> None:
    cluster.add_topic("orders", replicas=(1, 2))
    partition = node.partition()

    cluster.publish(partition_record("orders", 0, replicas=(1, 2), leader=2, leader_epoch=1))
    assert (partition.is_leader, partition.leader, partition.leader_epoch) == (False, 2, 1)

    cluster.publish(partition_record("orders", 0, replicas=(1, 2), leader=1, leader_epoch=2))
    assert (partition.is_leader, partition.leader_epoch) == (True, 2)


# -- settings


async def test_a_changed_topic_setting_applies_at_once(cluster: Cluster, node: DataNode) -> None:
    cluster.add_topic("orders")
    cluster.add_topic("other")

    cluster.set("orders", "max.message.bytes", "100")
    cluster.set("orders", "retention.ms", "5000")
    cluster.set("orders", "compression.type", "lz4")

    partition = node.partition()
    assert partition.rules.max_message_bytes == 100
    assert partition.rules.compression == Compression.LZ4
    assert partition.log.settings.retention_ms == 5000
    assert node.partition("other").rules.max_message_bytes == 1_048_588

    cluster.set("orders", "max.message.bytes", None)
    assert partition.rules.max_message_bytes == 1_048_588


async def test_a_changed_broker_setting_applies_to_all_topics_that_do_not_override_it(
    cluster: Cluster, node: DataNode
) -> None:
    cluster.add_topic("orders")
    cluster.add_topic("own", settings={"retention.ms": "7"})

    cluster.publish(ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="1234"))

    assert node.partition("orders").log.settings.retention_ms == 1234
    assert node.partition("own").log.settings.retention_ms == 7


# -- restarting


async def test_all_partitions_are_loaded_after_a_restart(cluster: Cluster, tmp_path: Path) -> None:
    runtime = real_runtime()
    cluster.add_topic("orders", partitions=2, settings={"max.message.bytes": "5000"})
    node = DataNode(cluster, [str(tmp_path)], runtime)
    await node.start()
    write(node, "orders", b"kept", 1)
    await node.stop()

    again = DataNode(cluster, [str(tmp_path)], runtime)
    await again.start()

    partition = again.partition("orders", 1)
    assert partition.high_watermark == 1
    assert partition.is_leader
    assert partition.rules.max_message_bytes == 5000
    await again.stop()
    runtime.workers.close()


async def test_a_log_that_no_partition_claims_becomes_stray(cluster: Cluster, tmp_path: Path) -> None:
    runtime = real_runtime()
    cluster.add_topic("orders")
    node = DataNode(cluster, [str(tmp_path)], runtime)
    await node.start()
    cluster.add_topic("gone")
    await node.stop()
    cluster.delete_topic("gone")  # while the node was down

    again = DataNode(cluster, [str(tmp_path)], runtime)
    await again.start()

    folders = sorted(name for name in os.listdir(tmp_path) if (tmp_path / name).is_dir())
    assert [name for name in folders if name.startswith("orders-0")] == ["orders-0"]
    assert not (tmp_path / "gone-0").exists()
    assert any(name.startswith("gone-0.") and name.endswith("-stray") for name in folders)
    await again.stop()
    runtime.workers.close()


async def test_a_log_of_a_deleted_topic_of_the_same_name_is_not_served(
    cluster: Cluster, tmp_path: Path
) -> None:
    runtime = real_runtime()
    cluster.add_topic("orders")
    node = DataNode(cluster, [str(tmp_path)], runtime)
    await node.start()
    write(node, "orders")
    await node.stop()

    renewed = Cluster()
    renewed.add_broker(NODE_ID)
    record = partition_record("orders", 0)
    record.topic_id = Uuid(b"another id......")
    renewed.publish(TopicRecord(name="orders", topic_id=record.topic_id), record)
    again = DataNode(renewed, [str(tmp_path)], runtime)
    await again.start()

    assert again.partition().high_watermark == 0
    assert again.partition().log.topic_id == record.topic_id
    await again.stop()
    runtime.workers.close()


# -- directories


async def test_new_logs_are_spread_over_the_directories(cluster: Cluster, frail_node: DataNode) -> None:
    cluster.add_topic("orders", partitions=4)

    directories = [partition.log.directory for partition in frail_node.partitions.all()]

    assert sorted(directories) == ["/one", "/one", "/two", "/two"]


async def test_a_log_is_created_in_the_directory_of_the_metadata(
    cluster: Cluster, frail_node: DataNode
) -> None:
    wanted = frail_node.logs.directories[1]
    for index in range(3):
        records = [] if index else [TopicRecord(name="orders", topic_id=topic_id_of("orders"))]
        cluster.publish(*records, partition_record("orders", index, directory=wanted.directory_id))

    assert {partition.log.directory for partition in frail_node.partitions.all()} == {wanted.path}


async def test_a_directory_that_cannot_be_written_leaves_only_its_new_partitions_offline(
    cluster: Cluster, frail_node: DataNode, disk: SimulatedDisk
) -> None:
    disk.fail("/one", errno.EROFS, operations={"make_directory", "create"})

    cluster.add_topic("orders", partitions=3)

    states = {index: frail_node.partitions.get("orders", index) is not None for index in range(3)}
    assert states == {0: False, 1: True, 2: True}
    assert error_of(frail_node, "orders", 0) == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_log_that_may_be_in_an_offline_directory_is_not_created_again(
    cluster: Cluster, frail_runtime: Runtime, disk: SimulatedDisk
) -> None:
    cluster.add_topic("orders", partitions=2)
    node = DataNode(cluster, ["/one", "/two"], frail_runtime)
    await node.start()
    for index in range(2):
        write(node, "orders", index=index)
    await node.stop()
    disk.fail("/one", errno.EIO)

    again = DataNode(cluster, ["/one", "/two"], frail_runtime)
    await again.start()

    assert error_of(again, "orders", 0) == ErrorCode.KAFKA_STORAGE_ERROR
    assert again.partition("orders", 1).high_watermark == 1
    cluster.add_topic("new")
    assert again.partition("new").log.directory == "/two"
    await again.stop()


async def test_an_offline_replica_is_logged_once_however_often_its_partition_changes(
    cluster: Cluster, frail_node: DataNode, disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    disk.fail("/one", errno.EIO, operations={"make_directory", "create"})
    cluster.add_topic("orders")

    for leader_epoch in (1, 2):
        cluster.publish(partition_record("orders", 0, leader_epoch=leader_epoch))

    refusals = [record for record in caplog.records if "orders-0 cannot be served" in record.getMessage()]
    assert len(refusals) == 1
    assert "log directory /one is offline" in refusals[0].getMessage()
    assert error_of(frail_node, "orders", 0) == ErrorCode.KAFKA_STORAGE_ERROR
