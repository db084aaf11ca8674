"""Single scenarios of a whole node, without randomness."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Sequence

import pytest

from penstock.client.connection import ClientConnection, Disconnected
from penstock.node.node import CannotStart
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.types import Uuid
from penstock.records import kernel
from penstock.records.batch import NewRecord
from simulator.simulation import HOST, PORT, Crashed, Simulation

DURABLE = {"flush.messages": "1"}


async def create_topic(
    client: ClientConnection, name: str, *, partitions: int = 1, configs: dict[str, str] | None = None
) -> Uuid:
    response = await client.ask(
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=1,
                    assignments=[],
                    configs=[
                        CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
                    ],
                )
            ]
        )
    )
    (created,) = response.topics
    assert created.error_code == ErrorCode.NONE, created.error_message
    topic_id: Uuid = created.topic_id
    return topic_id


async def produce(client: ClientConnection, topic_id: Uuid, indexes: Sequence[int] = (0,)) -> list[ErrorCode]:
    """Produce one record to each of these partitions; their error codes."""
    batch = bytes(kernel.build_batch([NewRecord(1_700_000_000_000, None, b"value")]))
    response = await client.ask(
        ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                TopicProduceData(
                    topic_id=topic_id,
                    partition_data=[PartitionProduceData(index=index, records=batch) for index in indexes],
                )
            ],
        )
    )
    return [answer.error_code for answer in response.responses[0].partition_responses]


async def topics_of(client: ClientConnection) -> dict[str, Uuid]:
    response = await client.ask(MetadataRequest(topics=None))
    return {topic.name: topic.topic_id for topic in response.topics}


def test_a_power_cut_closes_connections_and_keeps_acknowledged_data() -> None:
    async def scenario(simulation: Simulation) -> None:
        await simulation.start()
        client = await simulation.connect()
        topic_id = await create_topic(client, "orders", configs=DURABLE)
        assert await produce(client, topic_id) == [ErrorCode.NONE]

        simulation.crash()
        with pytest.raises(Disconnected):
            await produce(client, topic_id)
        with pytest.raises(ConnectionRefusedError):
            await simulation.connect()
        await simulation.start()

        assert await topics_of(await simulation.connect()) == {"orders": topic_id}
        assert simulation.node.partitions.find("orders", 0).high_watermark == 1

    Simulation(1).run(scenario)


def test_a_dead_node_does_nothing() -> None:
    async def scenario(simulation: Simulation) -> None:
        await simulation.start()
        client = await simulation.connect()
        topic_id = await create_topic(client, "orders", configs=DURABLE)
        client.send(
            ProduceRequest(
                acks=0, timeout_ms=1, topic_data=[TopicProduceData(topic_id=topic_id, partition_data=[])]
            )
        ).add_done_callback(lambda future: future.exception())
        dead = simulation.node
        simulation.crash()
        events, files = simulation.trace.count, simulation.disk.paths()

        await asyncio.sleep(3600)

        assert simulation.trace.count == events
        assert simulation.disk.paths() == files
        assert not simulation.is_up
        assert simulation.node is dead

    Simulation(1).run(scenario)


@pytest.mark.parametrize("changes", range(0, 60, 3))
def test_a_node_that_dies_during_its_first_start_starts_the_next_time(changes: int) -> None:
    async def scenario(simulation: Simulation) -> None:
        with contextlib.suppress(Crashed):
            await simulation.start(dies_after=changes)
            simulation.crash()
        ready = await simulation.start()
        await simulation.restart()

        assert ready.cluster_id == simulation.node.cluster_id

    Simulation(changes).run(scenario)


def test_a_directory_for_the_metadata_log_holds_no_partitions() -> None:
    async def scenario(simulation: Simulation) -> None:
        await simulation.start()
        await create_topic(await simulation.connect(), "orders", partitions=6)

        folders = {directory: simulation.disk.list(directory) for directory in ("/a", "/b", "/meta")}
        assert sorted(name for name in folders["/meta"] if simulation.disk.is_directory(f"/meta/{name}")) == [
            "__cluster_metadata-0"
        ]
        for directory in ("/a", "/b"):
            assert len([name for name in folders[directory] if name.startswith("orders-")]) == 3

    Simulation(1, settings={"log.dirs": "/a,/b", "metadata.log.dir": "/meta"}).run(scenario)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("operations", [{"append"}, {"sync"}, {"create", "append", "sync", "rename"}])
def test_a_failed_directory_takes_only_its_own_partitions_offline(error: int, operations: set[str]) -> None:
    async def scenario(simulation: Simulation) -> None:
        await simulation.start()
        client = await simulation.connect()
        topic_id = await create_topic(client, "orders", partitions=4, configs=DURABLE)
        everywhere = range(4)
        assert set(await produce(client, topic_id, everywhere)) == {ErrorCode.NONE}
        bad = {i for i in everywhere if simulation.node.partitions.find("orders", i).log.directory == "/b"}
        assert len(bad) == 2

        simulation.disk.fail("/b/", error, operations=operations)
        for _ in range(3):
            answers = await produce(client, topic_id, everywhere)
            assert {i for i in everywhere if answers[i] != ErrorCode.NONE} == bad
            assert {answers[i] for i in bad} == {ErrorCode.KAFKA_STORAGE_ERROR}
        await create_topic(client, "while-it-fails")

        simulation.disk.heal()
        await simulation.restart()
        client = await simulation.connect()
        assert set(await produce(client, topic_id, everywhere)) == {ErrorCode.NONE}

    Simulation(1, settings={"log.dirs": "/a,/b"}).run(scenario)


def test_a_node_whose_metadata_log_fails_reports_it_and_ends() -> None:
    async def scenario(simulation: Simulation) -> None:
        await simulation.start()
        client = await simulation.connect()
        simulation.disk.fail("/data/__cluster_metadata-0/", errno.EIO, operations={"append"})

        response = await client.ask(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[]
                    )
                ]
            )
        )
        assert response.topics[0].error_code == ErrorCode.NOT_CONTROLLER
        await simulation.wait_until_down()
        assert simulation.node.ended.done()

    Simulation(1).run(scenario)


def leader_epoch_of(simulation: Simulation, topic: str) -> int:
    return simulation.node.partitions.find(topic, 0).leader_epoch


def test_a_failed_start_does_not_hide_that_records_were_lost() -> None:
    """New records at their offsets get a new leader epoch, whichever start succeeds first."""

    async def scenario(simulation: Simulation) -> None:
        await simulation.start()
        client = await simulation.connect()
        topic_id = await create_topic(client, "orders")
        await produce(client, topic_id)
        epoch = leader_epoch_of(simulation, "orders")
        simulation.crash()

        other_listener = await simulation.network.listen(HOST, PORT, lambda stream: None)
        other_listener.start()
        with pytest.raises(CannotStart, match="in use"):
            await simulation.start()
        other_listener.close()
        await simulation.start()

        assert leader_epoch_of(simulation, "orders") > epoch

    Simulation(1).run(scenario)


def test_records_written_after_a_disk_was_replaced_have_a_new_leader_epoch() -> None:
    async def scenario(simulation: Simulation) -> None:
        await simulation.start()
        client = await simulation.connect()
        topic_id = await create_topic(client, "orders")
        await produce(client, topic_id)
        epoch = leader_epoch_of(simulation, "orders")
        await simulation.stop()

        simulation.disk.remove_tree("/data")
        await simulation.start()

        assert simulation.node.partitions.find("orders", 0).log.end_offset == 0
        assert leader_epoch_of(simulation, "orders") > epoch

    Simulation(1, settings={"metadata.log.dir": "/meta"}).run(scenario)


def test_a_clean_restart_keeps_leader_epochs() -> None:
    async def scenario(simulation: Simulation) -> None:
        await simulation.start()
        await create_topic(await simulation.connect(), "orders")
        epoch = leader_epoch_of(simulation, "orders")

        await simulation.restart()

        assert leader_epoch_of(simulation, "orders") == epoch

    Simulation(1).run(scenario)
