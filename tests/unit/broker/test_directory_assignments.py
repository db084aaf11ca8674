"""Reports of log directories of replicas, around the failure of one."""

from __future__ import annotations

import asyncio
import errno
import random
from typing import Any

import pytest

from harness.datapath import NODE_ID, Cluster, DataNode, partition_record, topic_id_of
from penstock.broker.directory_assignments import DirectoryAssignments
from penstock.metadata.directories import LOST, UNASSIGNED
from penstock.metadata.image import EMPTY_IMAGE
from penstock.metadata.records.topics import PartitionChangeRecord, TopicRecord
from penstock.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from penstock.protocol.types import Uuid
from penstock.runtime import Runtime, Supervisor
from penstock.runtime.clock import SystemClock
from penstock.storage.directory import LogDirectory
from simulator.disk import SimulatedDisk
from simulator.workers import SimulatedWorkers

Reported = dict[Uuid, list[int]]
TOPIC = "orders"


class Controller:
    def __init__(self) -> None:
        self.requests: asyncio.Queue[AssignReplicasToDirsRequest] = asyncio.Queue()

    async def ask(self, request: Any, *, timeout_ms: int) -> Any:
        self.requests.put_nowait(request)
        return AssignReplicasToDirsResponse(directories=[])

    async def reported(self) -> Reported:
        """The partitions of the next request by directory."""
        request = await self.requests.get()
        return {
            directory.id: [each.partition_index for topic in directory.topics for each in topic.partitions]
            for directory in request.directories
        }


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def runtime(disk: SimulatedDisk) -> Runtime:
    nothing: Any = None
    rng = random.Random(1)
    return Runtime(clock=SystemClock(), random=rng, disk=disk, network=nothing, workers=SimulatedWorkers(rng))


def new_node(cluster: Cluster, runtime: Runtime) -> DataNode:
    return DataNode(cluster, ["/one", "/two"], runtime)


def assignments_of(node: DataNode, controller: Controller) -> DirectoryAssignments:
    return DirectoryAssignments(
        node_id=NODE_ID,
        broker_epoch=lambda: 7,
        partitions=node.partitions,
        logs=node.logs,
        metadata=node.cluster.metadata,
        controller=controller,
        supervisor=Supervisor(),
        draw=lambda: 0.5,
    )


def add_topic(cluster: Cluster, *directories: Uuid) -> None:
    """One partition per directory."""
    cluster.publish(
        TopicRecord(name=TOPIC, topic_id=topic_id_of(TOPIC)),
        *(partition_record(TOPIC, index, directory=each) for index, each in enumerate(directories)),
    )


def assign(cluster: Cluster, index: int, directory: Uuid) -> None:
    cluster.publish(
        PartitionChangeRecord(partition_id=index, topic_id=topic_id_of(TOPIC), directories=[directory])
    )


def directory_of(node: DataNode, index: int = 0) -> LogDirectory:
    return node.logs.directory_of(node.partition(TOPIC, index).log)


def break_disk(directory: LogDirectory) -> None:
    directory.io.fail(OSError(errno.EIO, "gone"), "looking at it")


async def test_a_replica_whose_disk_failed_before_its_report_is_reported_as_lost(
    cluster: Cluster, runtime: Runtime
) -> None:
    """The controller does not know that it was in the failed directory, and would keep it as leader."""
    controller = Controller()
    node = new_node(cluster, runtime)
    await node.start()
    assignments = assignments_of(node, controller)
    cluster.metadata.subscribe(assignments.apply)
    add_topic(cluster, UNASSIGNED)

    break_disk(directory_of(node))
    assignments.start()

    assert await controller.reported() == {LOST: [0]}
    await assignments.close()
    await node.stop()


async def test_a_replica_whose_log_may_be_on_a_failed_disk_is_reported_as_lost_after_a_restart(
    cluster: Cluster, runtime: Runtime, disk: SimulatedDisk
) -> None:
    first = new_node(cluster, runtime)
    await first.start()
    add_topic(cluster, UNASSIGNED)
    failed = directory_of(first)
    await first.stop()
    disk.fail(failed.path, errno.EIO)
    controller = Controller()
    node = new_node(cluster, runtime)
    await node.start()
    assert node.partitions.get(TOPIC, 0) is None

    assignments = assignments_of(node, controller)
    assignments.apply(EMPTY_IMAGE.apply(cluster.records, offset=1, epoch=1))
    assignments.start()

    assert await controller.reported() == {LOST: [0]}
    await assignments.close()
    await node.stop()


async def test_a_replica_that_moved_to_a_disk_that_failed_is_reported_as_lost(
    cluster: Cluster, runtime: Runtime
) -> None:
    controller = Controller()
    node = new_node(cluster, runtime)
    await node.start()
    assignments = assignments_of(node, controller)
    cluster.metadata.subscribe(assignments.apply)
    add_topic(cluster, UNASSIGNED)
    actual = directory_of(node)
    (other,) = [each for each in node.logs.directories if each is not actual]
    assign(cluster, 0, other.directory_id)

    break_disk(actual)
    assignments.start()

    assert await controller.reported() == {LOST: [0]}
    await assignments.close()
    await node.stop()


@pytest.mark.parametrize("is_lost", [True, False])
async def test_a_replica_that_the_controller_knows_to_be_offline_is_not_reported(
    cluster: Cluster, runtime: Runtime, is_lost: bool
) -> None:
    controller = Controller()
    node = new_node(cluster, runtime)
    await node.start()
    assignments = assignments_of(node, controller)
    cluster.metadata.subscribe(assignments.apply)
    add_topic(cluster, UNASSIGNED, UNASSIGNED, UNASSIGNED)
    failed = directory_of(node)
    (unknown,) = [index for index in (1, 2) if directory_of(node, index) is failed]
    assign(cluster, 0, failed.directory_id)

    break_disk(failed)
    assign(cluster, 0, LOST if is_lost else failed.directory_id)
    assignments.start()

    assert (await controller.reported())[LOST] == [unknown]
    await assignments.close()
    await node.stop()
