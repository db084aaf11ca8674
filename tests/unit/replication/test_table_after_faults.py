"""Topics that are deleted and recreated around a disk failure or a power cut."""

from __future__ import annotations

import errno
import random

import pytest

from harness.datapath import NODE_ID, Cluster, DataNode, make_batch, partition_record, topic_id_of
from penstock.metadata.directories import LOST
from penstock.metadata.errors import Refused
from penstock.metadata.records.topics import PartitionChangeRecord, TopicRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid
from penstock.runtime import Runtime
from simulator.disk import SimulatedDisk

NOW = 1_700_000_000_000
NEW_ID = Uuid(b"orders, again...")
REMOVED = Uuid(b"removed disk....")


def add_orders_again(cluster: Cluster, directory: Uuid) -> None:
    record = partition_record("orders", 0, directory=directory)
    record.topic_id = NEW_ID
    cluster.publish(TopicRecord(name="orders", topic_id=NEW_ID), record)


def write(node: DataNode, value: bytes) -> None:
    node.partition("orders").append_as_leader(make_batch(value), acks=1, now_ms=NOW)


async def test_a_recreated_topic_is_served_although_a_power_cut_brought_the_old_log_back(
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


async def test_a_topic_deleted_while_its_directory_is_offline_can_be_recreated(
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
    node.logs.directories[0].io.fail(OSError(errno.EIO, "gone"), "looking at it")

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


def publish_in_removed_directory(
    cluster: Cluster, *, isr: list[int], leader: int, directory: Uuid = REMOVED, **fields: object
) -> None:
    """A topic whose replica on this node is in a log directory that the node does not have."""
    record = partition_record("orders", 0, replicas=(NODE_ID, 2), isr=isr, leader=leader, directory=directory)
    for name, value in fields.items():
        setattr(record, name, value)
    cluster.publish(TopicRecord(name="orders", topic_id=topic_id_of("orders")), record)


@pytest.mark.parametrize("directory", [REMOVED, LOST])  # LOST: it failed before the broker had reported it
@pytest.mark.parametrize(
    ("isr", "fields"),
    [
        ([NODE_ID], {}),
        ([], {"eligible_leader_replicas": [NODE_ID]}),
        ([], {"last_known_elr": [NODE_ID]}),
    ],
)
async def test_a_replica_of_a_removed_directory_that_may_be_elected_does_not_start_empty(
    cluster: Cluster, frail_runtime: Runtime, isr: list[int], fields: dict[str, object], directory: Uuid
) -> None:
    """It was elected with an empty log, and the other replicas truncated theirs."""
    node = DataNode(cluster, ["/one"], frail_runtime)
    publish_in_removed_directory(cluster, isr=isr, leader=-1, directory=directory, **fields)

    await node.start()

    assert node.partitions.get("orders", 0) is None
    with pytest.raises(Refused) as caught:
        node.partitions.find("orders", 0)
    assert caught.value.error == ErrorCode.KAFKA_STORAGE_ERROR

    change = PartitionChangeRecord(partition_id=0, topic_id=topic_id_of("orders"), leader=2, isr=[2])
    change.eligible_leader_replicas = change.last_known_elr = []
    cluster.publish(change)  # now it can copy the records
    assert node.partition("orders").log.end_offset == 0
    await node.stop()


async def test_a_replica_of_a_removed_directory_that_is_not_in_sync_is_copied_again(
    cluster: Cluster, frail_runtime: Runtime
) -> None:
    node = DataNode(cluster, ["/one"], frail_runtime)
    publish_in_removed_directory(cluster, isr=[2], leader=2)

    await node.start()

    assert node.partition("orders").log.directory == "/one"
    await node.stop()


async def test_a_moved_log_does_not_give_way_to_the_outdated_one_that_a_power_cut_brought_back(
    cluster: Cluster, frail_runtime: Runtime, disk: SimulatedDisk
) -> None:
    """The longer of the two was used, although its last records had been truncated."""
    node = DataNode(cluster, ["/one", "/two"], frail_runtime)
    await node.start()
    cluster.add_topic("orders")
    log = node.partition("orders").log
    for value in (b"a", b"old", b"old", b"old"):
        write(node, value)
    await log.flush()
    target = "/two" if log.directory == "/one" else "/one"
    node.logs.move("orders", 0, target)
    move = node.logs.move_of("orders", 0)
    assert move is not None
    await move.wait()
    await log.truncate(1)  # a new leader has other records
    write(node, b"new")
    await log.flush()
    disk.crash(_ForgetsEverything())

    again = DataNode(cluster, ["/one", "/two"], frail_runtime)
    await again.start()

    found = again.partition("orders").log
    assert (found.directory, found.end_offset) == (target, 2)
    await again.stop()


class _ForgetsEverything(random.Random):
    """A power cut that loses everything that was not synced."""

    def randint(self, a: int, b: int) -> int:
        return a


async def test_a_replica_that_is_moved_here_is_created_although_another_directory_is_offline(
    cluster: Cluster, frail_node: DataNode
) -> None:
    """It was taken for a replica whose log is in the offline directory."""
    cluster.add_topic("orders", replicas=(2,))
    failed = frail_node.logs.directories[0]
    failed.io.fail(OSError(errno.EIO, "broken"), "testing")

    cluster.publish(partition_record("orders", 0, replicas=(2, 1), leader_epoch=1))

    assert frail_node.partition("orders").log.directory == frail_node.logs.directories[1].path
