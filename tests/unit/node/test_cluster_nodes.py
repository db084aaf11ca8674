"""Several nodes as one cluster: roles, start, stop, and what is refused. Real nodes on a virtual loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.metadata.image import MetadataImage, PartitionImage
from penstock.node.errors import CannotStart
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.types import Uuid, uuid_text
from penstock.storage.meta_properties import MetaProperties, write_meta_properties
from simulator.cluster import COMBINED, LOG_DIR, SimulatedCluster

LONG_SESSION = {"broker.session.timeout.ms": "60000", "broker.heartbeat.interval.ms": "2000"}
SEPARATE = {1: "controller", 2: "broker", 3: "broker"}


def image_of(cluster: SimulatedCluster, node_id: int) -> MetadataImage:
    return cluster.nodes[node_id].node.metadata.image


async def until(is_so: Callable[[], bool], *, seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not is_so():
            await asyncio.sleep(0.01)


async def create_topic(cluster: SimulatedCluster, via: int, name: str = "t", *, replicas: int = 2) -> None:
    connection = await cluster.connect(via)
    topic = CreatableTopic(
        name=name, num_partitions=4, replication_factor=replicas, assignments=[], configs=[]
    )
    response = await connection.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    assert [each.error_code for each in response.topics] == [0]
    connection.close()


def leaders(cluster: SimulatedCluster, via: int, name: str = "t") -> set[int]:
    return {partition.leader for partition in image_of(cluster, via).topics.by_name[name].partitions}


def run(
    scenario: Callable[[SimulatedCluster], Coroutine[Any, Any, None]],
    *,
    roles: dict[int, str] | None = None,
    settings: dict[str, str] | None = None,
) -> None:
    SimulatedCluster(1, roles=roles, settings=settings).run(scenario)


@pytest.mark.parametrize(
    "roles", [None, SEPARATE, {1: COMBINED, 2: "controller", 3: "controller", 4: "broker"}]
)
def test_all_nodes_of_a_cluster_have_the_same_metadata(roles: dict[int, str] | None) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.start()
        await create_topic(cluster, cluster.broker_ids[-1])

        await until(lambda: sorted(image_of(cluster, 1).controllers) == cluster.controller_ids)
        newest = max(image_of(cluster, node_id).offset for node_id in cluster.nodes)
        await until(lambda: all(image_of(cluster, each).offset >= newest for each in cluster.nodes))
        images = [image_of(cluster, node_id) for node_id in cluster.nodes]
        assert all(image.topics == images[0].topics for image in images)
        assert sorted(images[0].brokers) == cluster.broker_ids
        assert all(broker.is_active for broker in images[0].brokers.values())
        assert sorted(images[0].controllers) == cluster.controller_ids

    run(scenario, roles=roles)


def test_a_killed_broker_is_fenced_long_before_its_session_timeout() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.start()
        await create_topic(cluster, 2)
        await until(lambda: leaders(cluster, 1) == {2, 3})
        began = cluster.loop.time()

        cluster.nodes[3].crash(loses_power=False)
        await until(lambda: leaders(cluster, 2) == {2})

        assert cluster.loop.time() - began < 5
        assert image_of(cluster, 2).brokers[3].is_fenced

    run(scenario, roles=SEPARATE, settings=LONG_SESSION)


def test_a_broker_killed_with_the_active_controller_is_fenced_by_the_next_one() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.start()
        await create_topic(cluster, 1, replicas=3)
        active = next(each for each in cluster.nodes if cluster.nodes[each].node.quorum.is_leader)
        alive = next(each for each in cluster.nodes if each != active)
        await asyncio.sleep(1)  # all controllers are connected to all brokers
        began = cluster.loop.time()

        cluster.nodes[active].crash(loses_power=False)
        await until(lambda: image_of(cluster, alive).brokers[active].is_fenced)

        assert cluster.loop.time() - began < 10
        assert active not in leaders(cluster, alive)

    run(scenario, settings=LONG_SESSION)


def test_a_killed_broker_registers_again_without_waiting_for_its_session() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.start()
        await asyncio.sleep(1)
        cluster.nodes[3].crash(loses_power=False)
        began = cluster.loop.time()

        await cluster.nodes[3].start()

        assert cluster.loop.time() - began < 10
        assert image_of(cluster, 2).brokers[3].is_active

    run(scenario, roles=SEPARATE, settings=LONG_SESSION)


def test_a_paused_broker_is_fenced_by_its_session_timeout_only() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.start()
        await asyncio.sleep(1)

        cluster.nodes[3].pause()
        await asyncio.sleep(0.9)
        assert not image_of(cluster, 2).brokers[3].is_fenced
        await until(lambda: image_of(cluster, 2).brokers[3].is_fenced, seconds=5)
        cluster.nodes[3].resume()

        await until(lambda: image_of(cluster, 2).brokers[3].is_active)

    run(scenario, roles=SEPARATE)


def test_a_controlled_shutdown_moves_leaders_before_the_broker_stops() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.start()
        await create_topic(cluster, 2)
        await until(lambda: leaders(cluster, 2) == {2, 3})
        epochs = {
            partition.leader_epoch
            for partition in image_of(cluster, 2).topics.by_name["t"].partitions
            if partition.leader == 3
        }

        await cluster.nodes[3].stop()

        assert leaders(cluster, 2) == {2}
        assert image_of(cluster, 2).brokers[3].is_fenced
        assert epochs == {0}
        await cluster.nodes[3].start()
        await until(
            lambda: all(len(each.isr) == 2 for each in image_of(cluster, 2).topics.by_name["t"].partitions)
        )

    run(scenario, roles=SEPARATE)


def test_a_node_of_another_cluster_is_refused() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        other = cluster.nodes[3]
        other_id = uuid_text(Uuid(b"another cluster!"))
        write_meta_properties(other.disk, LOG_DIR, MetaProperties(other_id, 3, Uuid(b"directory of 3..")))
        await cluster.start(1, 2)

        with pytest.raises(CannotStart, match=f"another cluster|{other_id}"):
            await other.start()

        assert list(image_of(cluster, 2).brokers) == [2]

    run(scenario, roles=SEPARATE)


def test_a_second_broker_with_the_same_node_id_is_refused() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.start()
        twin = cluster.add_node(4, "broker", settings={"node.id": "3"})
        identity = MetaProperties(cluster.cluster_id, 3, Uuid(b"directory of 4.."))
        write_meta_properties(twin.disk, LOG_DIR, identity)

        with pytest.raises(CannotStart, match="another broker with this node"):
            await twin.start()

        assert image_of(cluster, 2).brokers[3].is_active

    run(scenario, roles=SEPARATE, settings={"initial.broker.registration.timeout.ms": "5000"})


def test_a_broker_without_a_reachable_controller_gives_up_after_its_timeout() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        with pytest.raises(CannotStart, match="No active controller could be reached"):
            await cluster.nodes[2].start()

    run(scenario, roles=SEPARATE, settings={"initial.broker.registration.timeout.ms": "5000"})


def test_leaders_leave_a_log_directory_that_fails() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await cluster.start()
        await create_topic(cluster, 2)
        logs = cluster.nodes[3].node.logs

        def are_reported() -> bool:
            return all(
                partition.directories[partition.replicas.index(3)]
                == logs.directory_of(cluster.nodes[3].node.partitions.find("t", index).log).directory_id
                for index, partition in enumerate(image_of(cluster, 3).topics.by_name["t"].partitions)
            )

        await until(are_reported)
        await until(lambda: image_of(cluster, 2).offset >= image_of(cluster, 3).offset)
        await until(lambda: all(len(each.isr) == 2 for each in partitions_of(cluster)))
        failed = logs.directories[1]
        lost = [
            index
            for index, each in enumerate(partitions_of(cluster))
            if each.directories[each.replicas.index(3)] == failed.directory_id
        ]
        assert 0 < len(lost) < 4

        failed.io.fail(OSError(5, "input/output error"), "testing")

        await until(lambda: all(partitions_of(cluster)[index].isr == (2,) for index in lost))
        assert {partitions_of(cluster)[index].leader for index in lost} == {2}
        assert failed.directory_id not in image_of(cluster, 2).brokers[3].directories
        assert image_of(cluster, 2).brokers[3].is_active

    run(scenario, roles=SEPARATE, settings={"log.dirs": "/a,/b"})


def partitions_of(cluster: SimulatedCluster) -> tuple[PartitionImage, ...]:
    return image_of(cluster, 2).topics.by_name["t"].partitions
