"""Topics that are deleted and made again round a failing disk or a power cut."""

from __future__ import annotations

import errno
import random

from harness.datapath import Cluster, DataNode, make_batch, partition_record, topic_id_of
from penstock.metadata.records.topics import TopicRecord
from penstock.protocol.types import Uuid
from penstock.runtime import Runtime
from penstock.testing.disk import SimulatedDisk

NOW = 1_700_000_000_000
NEW_ID = Uuid(b"orders, again...")


def add_orders_again(cluster: Cluster, directory: Uuid) -> None:
    record = partition_record("orders", 0, directory=directory)
    record.topic_id = NEW_ID
    cluster.publish(TopicRecord(name="orders", topic_id=NEW_ID), record)


def write(node: DataNode, value: bytes) -> None:
    node.partition("orders").append_as_leader(make_batch(value), acks=1, now_ms=NOW)


async def test_a_topic_made_again_elsewhere_is_served_though_a_power_cut_brought_the_old_one_back(
    cluster: Cluster, frail_runtime: Runtime, disk: SimulatedDisk
) -> None:
    node = DataNode(cluster, ["/one", "/two"], frail_runtime)
    await node.start()
    one, two = (directory.directory_id for directory in node.logs.directories)
    cluster.publish(
        TopicRecord(name="orders", topic_id=topic_id_of("orders")),
        partition_record("orders", 0, directory=one),
    )
    write(node, b"old")
    await node.partition("orders").log.flush()
    cluster.delete_topic("orders")
    add_orders_again(cluster, two)
    write(node, b"new")
    await node.partition("orders").log.flush()
    disk.crash(_ForgetsEverything())

    again = DataNode(cluster, ["/one", "/two"], frail_runtime)
    await again.start()

    assert again.partition("orders").log.topic_id == NEW_ID
    assert again.partition("orders").high_watermark == 1
    (left,) = [name for name in disk.list("/one") if name.startswith("orders")]
    assert left.endswith("-stray")
    await again.stop()


async def test_a_topic_deleted_while_its_directory_is_offline_can_be_made_again(
    cluster: Cluster, frail_runtime: Runtime, disk: SimulatedDisk
) -> None:
    node = DataNode(cluster, ["/one", "/two"], frail_runtime)
    await node.start()
    one, two = (directory.directory_id for directory in node.logs.directories)
    cluster.publish(
        TopicRecord(name="orders", topic_id=topic_id_of("orders")),
        partition_record("orders", 0, directory=one),
    )
    write(node, b"old")
    disk.fail("/one/", errno.EIO)
    node.logs.directories[0].volume.fail(OSError(errno.EIO, "gone"), "looking at it")

    cluster.delete_topic("orders")
    add_orders_again(cluster, two)
    write(node, b"new")

    assert node.partition("orders").high_watermark == 1
    await node.stop()
    disk.heal()
    again = DataNode(cluster, ["/one", "/two"], frail_runtime)
    await again.start()
    assert again.partition("orders").log.topic_id == NEW_ID
    assert again.partition("orders").high_watermark == 1
    await again.stop()


class _ForgetsEverything(random.Random):
    """A power cut that takes all that was not synced."""

    def randint(self, a: int, b: int) -> int:
        return a
