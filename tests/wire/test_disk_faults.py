"""A disk that is full, read-only or broken takes its log directory offline, and everything else continues.

Whole nodes with two entries in `log.dirs`, on a simulated disk with injected faults. The errors were compared with
Apache Kafka 4.3.1 on a full file system.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from harness.nodes import simulate
from penstock.client.connection import ClientConnection
from penstock.metadata.names import METADATA_TOPIC, OFFSETS_TOPIC
from penstock.node.failures import NodeFailed
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest
from penstock.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from penstock.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from penstock.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records import kernel
from simulator.loop import EPOCH_MS
from simulator.simulation import Simulation

TWO_DIRECTORIES = {"log.dirs": "/one,/two", "metadata.log.dir": "/one"}
PARTITIONS = 6

FAULTS = {
    "full": ((errno.ENOSPC, ("append", "create", "make_directory")), "No space left on device (ENOSPC)"),
    "read-only": (
        (errno.EROFS, ("create", "append", "truncate", "rename", "remove", "make_directory")),
        "Read-only file system (EROFS)",
    ),
    "broken": ((errno.EIO, None), "Input/output error (EIO)"),
}

Test = Callable[[Simulation, ClientConnection], Coroutine[Any, Any, None]]


def with_topic(test: Test, **properties: str) -> None:
    """Run `test` with a node with two directories and a topic in both, with one record in each partition."""

    async def main(world: Simulation) -> None:
        client = await world.connect()
        await create(client, "spread", PARTITIONS)
        for index in range(PARTITIONS):
            assert (await produce(client, "spread", index)).error_code == ErrorCode.NONE
        await test(world, client)

    simulate(main, properties=TWO_DIRECTORIES | properties)


def indexes_in(world: Simulation, directory: str) -> list[int]:
    return [
        log.partition for log in world.node.logs.all() if log.topic == "spread" and log.directory == directory
    ]


@pytest.mark.parametrize(("fault", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_a_failing_directory_is_offline_and_the_other_serves_on(
    fault: tuple[int, tuple[str, ...] | None], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(world: Simulation, client: ClientConnection) -> None:
        lost, kept = indexes_in(world, "/two"), indexes_in(world, "/one")
        assert lost
        assert kept
        number, operations = fault
        world.disk.fail("/two", number, operations=operations)

        for round_number in (1, 2):
            for index in lost:
                assert (await produce(client, "spread", index)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            for index in kept:
                answer = await produce(client, "spread", index)
                assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, round_number)
        assert [(await fetch(client, "spread", index)).error_code for index in lost] == [
            ErrorCode.KAFKA_STORAGE_ERROR
        ] * len(lost)
        for index in kept:
            data = await fetch(client, "spread", index)
            assert [header.base_offset for header in kernel.check_batches(data.records)] == [0, 1, 2]
        assert [await list_offsets(client, "spread", index) for index in kept] == [
            (ErrorCode.NONE, 3) for _ in kept
        ]
        assert not world.node.ended.done()

    with_topic(test)
    complaints = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(complaints) == 1
    assert complaints[0].startswith(
        f"log directory /two is offline: {message} while appending to /two/spread-"
    )
    assert complaints[0].endswith("stay offline until the disk is repaired and the node restarted")


def test_a_directory_that_cannot_be_read_goes_offline_with_its_first_fetch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(world: Simulation, client: ClientConnection) -> None:
        lost, kept = indexes_in(world, "/two"), indexes_in(world, "/one")
        world.disk.fail("/two", errno.EIO, operations=["read"])

        with pytest.raises(ConnectionError):  # the header was out when the slice could not be read
            await fetch(client, "spread", lost[0])
        client = await world.connect()

        for index in lost:
            assert (await fetch(client, "spread", index)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert (await produce(client, "spread", index)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        for index in kept:
            assert (await fetch(client, "spread", index)).error_code == ErrorCode.NONE

    with_topic(test)
    (complaint,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert "log directory /two is offline: Input/output error (EIO) while reading /two/spread-" in complaint


def test_clients_see_that_lost_partitions_have_no_leader() -> None:
    async def test(world: Simulation, client: ClientConnection) -> None:
        lost = indexes_in(world, "/two")
        world.disk.make_read_only("/two")
        await produce(client, "spread", lost[0])

        (topic,) = (await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="spread")]))).topics
        errors = {
            partition.partition_index: (
                partition.error_code,
                partition.leader_id,
                partition.isr_nodes,
                partition.offline_replicas,
            )
            for partition in topic.partitions
        }
        assert errors == {
            index: (ErrorCode.LEADER_NOT_AVAILABLE, -1, [], [1])
            if index in lost
            else (ErrorCode.NONE, 1, [1], [])
            for index in range(PARTITIONS)
        }
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name="spread")], response_partition_limit=100
        )
        (described,) = (await client.ask(request)).topics
        assert [partition.leader_id for partition in described.partitions] == [
            -1 if index in lost else 1 for index in range(PARTITIONS)
        ]
        directories = (await client.ask(DescribeLogDirsRequest(topics=None))).results
        assert {each.log_dir: each.error_code for each in directories} == {
            "/one": ErrorCode.NONE,
            "/two": ErrorCode.KAFKA_STORAGE_ERROR,
        }

    with_topic(test)


def test_describing_a_broken_disk_takes_it_offline() -> None:
    async def test(world: Simulation, client: ClientConnection) -> None:
        world.disk.fail("/two", errno.EIO)

        directories = (await client.ask(DescribeLogDirsRequest(topics=None))).results

        assert {each.log_dir: (each.error_code, bool(each.topics)) for each in directories} == {
            "/one": (ErrorCode.NONE, True),
            "/two": (ErrorCode.KAFKA_STORAGE_ERROR, False),
        }

    with_topic(test)


def test_the_metadata_log_is_not_listed_as_a_replica() -> None:
    async def test(world: Simulation, client: ClientConnection) -> None:
        directories = (await client.ask(DescribeLogDirsRequest(topics=None))).results

        assert {topic.name for each in directories for topic in each.topics} == {"spread"}

    with_topic(test)


def test_new_topics_go_where_disks_are_well() -> None:
    async def test(world: Simulation, client: ClientConnection) -> None:
        world.disk.make_read_only("/two")
        await produce(client, "spread", indexes_in(world, "/two")[0])

        await create(client, "new", 4)

        for index in range(4):
            assert (await produce(client, "new", index)).error_code == ErrorCode.NONE
        assert {log.directory for log in world.node.logs.all() if log.topic == "new"} == {"/one"}

    with_topic(test)


def test_a_directory_that_fails_during_topic_creation_affects_only_its_partitions() -> None:
    async def test(world: Simulation, client: ClientConnection) -> None:
        world.disk.make_read_only("/two")

        await create(client, "new", 4)

        errors = [(await produce(client, "new", index)).error_code for index in range(4)]
        assert set(errors) <= {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}
        assert ErrorCode.NONE in errors

    with_topic(test)


def test_a_topic_in_a_failed_directory_can_be_deleted_and_made_again() -> None:
    async def test(world: Simulation, client: ClientConnection) -> None:
        world.disk.make_read_only("/two")
        await produce(client, "spread", indexes_in(world, "/two")[0])

        response = await client.ask(DeleteTopicsRequest(topic_names=["spread"], timeout_ms=10_000), version=4)
        assert response.responses[0].error_code == ErrorCode.NONE
        await create(client, "spread", 2)

        for index in range(2):
            answer = await produce(client, "spread", index)
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)

    with_topic(test)


def test_after_a_restart_with_a_mended_disk_everything_is_there_again() -> None:
    async def test(world: Simulation, client: ClientConnection) -> None:
        lost = indexes_in(world, "/two")
        world.disk.make_read_only("/two")
        for index in range(PARTITIONS):
            await produce(client, "spread", index)
        await world.stop()
        world.disk.heal()
        await world.start()
        client = await world.connect()

        for index in range(PARTITIONS):
            answer = await produce(client, "spread", index)
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 1 if index in lost else 2)

    with_topic(test)


def test_a_partition_with_one_replica_starts_empty_when_its_directory_is_removed() -> None:
    """As in Kafka: no other replica has records that could be truncated."""

    async def test(world: Simulation, client: ClientConnection) -> None:
        lost = indexes_in(world, "/two")
        await world.stop()
        world.server.properties["log.dirs"] = "/one"
        await world.start()
        await asyncio.sleep(world.settle_s)
        client = await world.connect()

        for index in range(PARTITIONS):
            answer = await produce(client, "spread", index)
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0 if index in lost else 1)

    with_topic(test)


def test_a_node_starts_without_a_directory_that_cannot_be_used() -> None:
    async def test(world: Simulation, client: ClientConnection) -> None:
        lost = indexes_in(world, "/two")
        await world.stop()
        world.disk.fail("/two", errno.EIO)
        await world.start()
        client = await world.connect()

        for index in range(PARTITIONS):
            error = (await produce(client, "spread", index)).error_code
            assert error == (ErrorCode.KAFKA_STORAGE_ERROR if index in lost else ErrorCode.NONE)

    with_topic(test)


def test_a_failed_sync_is_reported_to_the_requests_that_wait_for_it() -> None:
    async def test(world: Simulation, client: ClientConnection) -> None:
        lost = indexes_in(world, "/two")
        world.disk.fail("/two", errno.EIO, operations=["sync"])

        for index in range(PARTITIONS):
            error = (await produce(client, "spread", index)).error_code
            assert error == (ErrorCode.KAFKA_STORAGE_ERROR if index in lost else ErrorCode.NONE)

    with_topic(test, **{"log.flush.interval.messages": "1"})


def test_background_work_that_finds_the_fault_reports_it_and_nothing_else_stops() -> None:
    async def test(world: Simulation, client: ClientConnection) -> None:
        lost = indexes_in(world, "/two")
        world.disk.make_read_only("/two")
        await asyncio.sleep(120)  # checkpoints are written in between

        for index in range(PARTITIONS):
            error = (await produce(client, "spread", index)).error_code
            assert error == (ErrorCode.KAFKA_STORAGE_ERROR if index in lost else ErrorCode.NONE)

    with_topic(test)


def test_the_metadata_records_that_lost_partitions_have_no_leader() -> None:
    async def test(world: Simulation, client: ClientConnection) -> None:
        lost = indexes_in(world, "/two")
        one, two = (directory.directory_id for directory in world.node.logs.directories)
        assert set(world.node.metadata.image.brokers[1].directories) == {one, two}
        world.disk.make_read_only("/two")
        await produce(client, "spread", lost[0])
        await asyncio.sleep(world.settle_s)

        image = world.node.metadata.image
        partitions = image.topics.by_name["spread"].partitions
        assert {index for index in range(PARTITIONS) if partitions[index].leader == -1} == set(lost)
        for index, partition in enumerate(partitions):
            # A replica that was in sync when its disk failed stays eligible as leader (KIP-966).
            in_sync, eligible = ((), (1,)) if index in lost else ((1,), ())
            assert (partition.isr, partition.eligible_leaders) == (in_sync, eligible)
        assert image.brokers[1].directories == (one,)

        await world.stop()
        await world.start()  # the disk is still broken
        partitions = world.node.metadata.image.topics.by_name["spread"].partitions
        assert {index for index in range(PARTITIONS) if partitions[index].leader == -1} == set(lost)

        await world.stop()
        world.disk.heal()
        await world.start()
        image = world.node.metadata.image
        assert {partition.leader for partition in image.topics.by_name["spread"].partitions} == {1}
        assert set(image.brokers[1].directories) == {one, two}

    with_topic(test)


def test_a_coordinator_resigns_when_the_directory_of_its_partition_fails() -> None:
    async def test(world: Simulation, client: ClientConnection) -> None:
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["group"])
        while (await client.ask(find, version=4)).coordinators[0].error_code != ErrorCode.NONE:
            await asyncio.sleep(world.settle_s)
        offsets = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="group", topics=None)])
        assert (await client.ask(offsets, version=8)).groups[0].error_code == ErrorCode.NONE
        log = world.node.logs.get(OFFSETS_TOPIC, 0)
        assert log is not None
        (index,) = indexes_in(world, log.directory)[:1]
        world.disk.fail(f"{log.directory}/spread", errno.EIO, operations=["append"])

        assert (await produce(client, "spread", index)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(0)

        assert (await client.ask(offsets, version=8)).groups[0].error_code == ErrorCode.NOT_COORDINATOR
        answer = (await client.ask(find, version=4)).coordinators[0]
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert not world.node.ended.done()

    properties = {"metadata.log.dir": "/metadata", "offsets.topic.num.partitions": "1"}
    with_topic(test, **properties)


def test_the_node_cannot_go_on_without_its_metadata_log() -> None:
    async def test(world: Simulation, client: ClientConnection) -> None:
        world.disk.fail(f"/one/{METADATA_TOPIC}-0", errno.ENOSPC, operations=["append", "sync"])

        answer = (await client.ask(create_request("new", 1))).topics[0]
        assert answer.error_code == ErrorCode.NOT_CONTROLLER
        assert "No space left on device (ENOSPC)" in answer.error_message
        assert "holds the metadata log" in str(world.node.ended.exception())

    with_topic(test)


@pytest.mark.parametrize("operation", ["append", "sync", "read"])
def test_the_node_cannot_go_on_when_its_last_log_directory_fails(operation: str) -> None:
    async def test(world: Simulation, client: ClientConnection) -> None:
        for path in ("/two", "/one"):
            assert not world.node.ended.done()
            index = indexes_in(world, path)[0]
            world.disk.fail(f"{path}/spread", errno.EIO, operations=[operation])
            with contextlib.suppress(ConnectionError):
                await (fetch if operation == "read" else produce)(client, "spread", index)
            client = await world.connect()
        with pytest.raises(
            NodeFailed, match=r"/one is offline: .*\(EIO\).*No log directory is left. Free space"
        ):
            await world.node.ended

    properties = {"metadata.log.dir": "/metadata", "log.flush.interval.messages": "1"}
    with_topic(test, **properties)


def test_a_read_error_of_the_directory_with_the_metadata_log_ends_the_node() -> None:
    async def test(world: Simulation, client: ClientConnection) -> None:
        world.disk.fail("/one/spread", errno.EIO, operations=["read"])

        with contextlib.suppress(ConnectionError):
            await fetch(client, "spread", indexes_in(world, "/one")[0])

        with pytest.raises(NodeFailed, match=r"EIO.*reading /one/spread.*It holds the metadata log"):
            await world.node.ended

    with_topic(test)


def test_a_bug_that_ends_the_node_is_not_blamed_on_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise ValueError("a bug")

    async def test(world: Simulation, client: ClientConnection) -> None:
        monkeypatch.setattr(world.node.groups, "metadata_changed", broken)

        await client.ask(create_request("new", 1))

        with pytest.raises(NodeFailed, match="ValueError: a bug") as failure:
            await world.node.ended
        assert "disk" not in str(failure.value)

    with_topic(test)


# -- client requests


def create_request(name: str, partitions: int) -> CreateTopicsRequest:
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


async def create(client: ClientConnection, name: str, partitions: int) -> None:
    (answer,) = (await client.ask(create_request(name, partitions))).topics
    assert answer.error_code == ErrorCode.NONE, answer


async def produce(client: ClientConnection, topic: str, index: int) -> Any:
    batch = bytes(kernel.build_batch([(EPOCH_MS, b"key", b"value", ())]))
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=batch)])
    response = await client.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), version=9)
    return response.responses[0].partition_responses[0]


async def fetch(client: ClientConnection, topic: str, index: int) -> Any:
    wanted = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
        forgotten_topics_data=[],
    )
    return (await client.ask(request, version=11)).responses[0].partitions[0]


async def list_offsets(client: ClientConnection, topic: str, index: int) -> tuple[ErrorCode, int]:
    wanted = ListOffsetsTopic(
        name=topic, partitions=[ListOffsetsPartition(partition_index=index, timestamp=-1)]
    )
    response = await client.ask(ListOffsetsRequest(replica_id=-1, topics=[wanted]), version=7)
    answer = response.topics[0].partitions[0]
    return answer.error_code, answer.offset
