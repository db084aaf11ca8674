"""Requests of administrators reach the active controller from any broker, through fail-overs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.client.connection import ClientConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest
from penstock.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.unregister_broker import UnregisterBrokerRequest
from penstock.protocol.types import ZERO_UUID
from simulator.cluster import COMBINED, CONTROLLER_PORT, SimulatedCluster, host_of
from simulator.clusters.inside import active_controller

SEPARATE = {1: "controller", 2: "controller", 3: "controller", 4: "broker", 5: "broker"}
TOGETHER = dict.fromkeys((1, 2, 3), COMBINED)

DONE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)  # the second if the response of the first was lost


def run(
    scenario: Callable[[SimulatedCluster], Awaitable[None]], *, roles: dict[int, str], seed: int = 1
) -> None:
    async def main(cluster: Any) -> None:
        await cluster.start()
        await scenario(cluster)
        for node_id in list(cluster.nodes):
            cluster.nodes[node_id].resume_if_paused()

    SimulatedCluster(seed, roles=roles).run(main)


def creation(name: str, *, replicas: int = 1, timeout_ms: int = 20_000) -> CreateTopicsRequest:
    topic = CreatableTopic(
        name=name, num_partitions=1, replication_factor=replicas, assignments=[], configs=[]
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)


async def created(client: ClientConnection, request: CreateTopicsRequest) -> ErrorCode:
    (topic,) = (await client.ask(request, timeout_s=60)).topics
    error: ErrorCode = topic.error_code
    return error


def leader(cluster: SimulatedCluster) -> int:
    found = active_controller(cluster)
    assert found is not None
    return found


@pytest.mark.parametrize("roles", [TOGETHER, SEPARATE], ids=["together", "separate"])
def test_every_broker_carries_out_the_requests_of_administrators(roles: dict[int, str]) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        producer_ids = set()
        for node_id in cluster.broker_ids:
            client = await cluster.connect(node_id)
            assert await created(client, creation(f"t{node_id}", replicas=2)) is ErrorCode.NONE
            metadata = await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=f"t{node_id}")]))
            assert metadata.topics[0].error_code is ErrorCode.NONE
            setting = AlterableConfig(name="log.cleaner.threads", config_operation=0, value="2")
            resource = AlterConfigsResource(resource_type=4, resource_name=str(node_id), configs=[setting])
            altered = await client.ask(
                IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            )
            assert altered.responses[0].error_code is ErrorCode.NONE
            producer = await client.ask(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
            )
            producer_ids.add(producer.producer_id)
            quorum = await client.ask(
                DescribeQuorumRequest(
                    topics=[
                        DescribeQuorumRequestTopic(
                            topic_name="__cluster_metadata",
                            partitions=[DescribeQuorumRequestPartition(partition_index=0)],
                        )
                    ]
                )
            )
            (described,) = quorum.topics[0].partitions
            assert described.leader_id == active_controller(cluster)
            assert [voter.replica_id for voter in described.current_voters] == cluster.controller_ids
            gone = await client.ask(UnregisterBrokerRequest(broker_id=99))
            assert gone.error_code is ErrorCode.BROKER_ID_NOT_REGISTERED
            client.close()
        assert len(producer_ids) == len(cluster.broker_ids)

    run(scenario, roles=roles)


def test_a_client_sees_its_change_of_a_topic_at_the_broker_that_answered() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        for node_id in cluster.broker_ids:
            client = await cluster.connect(node_id)
            name = f"t{node_id}"
            look_up = MetadataRequest(
                topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
            )
            assert await created(client, creation(name, replicas=2)) is ErrorCode.NONE

            more = CreatePartitionsTopic(name=name, count=3, assignments=None)
            grown = await client.ask(
                CreatePartitionsRequest(topics=[more], timeout_ms=20_000, validate_only=False)
            )
            assert grown.results[0].error_code is ErrorCode.NONE
            metadata = await client.ask(look_up)
            assert len(metadata.topics[0].partitions) == 3

            gone = DeleteTopicState(name=name, topic_id=ZERO_UUID)
            deleted = await client.ask(DeleteTopicsRequest(topics=[gone], timeout_ms=20_000))
            assert deleted.responses[0].error_code is ErrorCode.NONE
            metadata = await client.ask(look_up)
            assert metadata.topics[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    for seed in range(5):
        run(scenario, roles=SEPARATE, seed=seed)


def test_a_partition_is_moved_and_led_by_its_preferred_replica_again() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        client = await cluster.connect(2)
        assert await created(client, creation("t", replicas=2)) is ErrorCode.NONE
        (partition,) = (
            (await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]))).topics[0].partitions
        )
        first, second = partition.replica_nodes
        (third,) = {1, 2, 3} - {first, second}
        moved = await client.ask(
            AlterPartitionReassignmentsRequest(
                topics=[
                    ReassignableTopic(
                        name="t",
                        partitions=[ReassignablePartition(partition_index=0, replicas=[third, first])],
                    )
                ]
            )
        )
        assert moved.responses[0].partitions[0].error_code is ErrorCode.NONE
        while (await client.ask(ListPartitionReassignmentsRequest())).topics:
            await asyncio.sleep(0.1)
        elected = await client.ask(
            ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0])])
        )
        result = elected.replica_election_results[0].partition_result[0]
        assert result.error_code in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
        await asyncio.sleep(0.5)
        (partition,) = (
            (await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]))).topics[0].partitions
        )
        assert partition.replica_nodes == [third, first]
        assert partition.leader_id == third
        client.close()

    run(scenario, roles=TOGETHER)


@pytest.mark.parametrize("roles", [TOGETHER, SEPARATE], ids=["together", "separate"])
@pytest.mark.parametrize("fault", ["crash", "pause"])
@pytest.mark.parametrize("turns", range(1, 4))
def test_a_request_survives_the_fail_over_of_the_controller(
    roles: dict[int, str], fault: str, turns: int
) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        active = leader(cluster)
        asked = next(node_id for node_id in cluster.broker_ids if node_id != active)
        client = await cluster.connect(asked)
        waiting = asyncio.ensure_future(created(client, creation("before")))
        await asyncio.sleep(0.002 * turns)
        getattr(cluster.nodes[active], fault)()
        assert await waiting in DONE
        assert await created(client, creation("after")) is ErrorCode.NONE
        assert active_controller(cluster) != active
        client.close()

    run(scenario, roles=roles, seed=turns)


def test_without_a_quorum_a_request_is_refused_at_its_timeout() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        client = await cluster.connect(4)
        for node_id in (1, 2):
            cluster.nodes[node_id].crash()
        began = cluster.loop.time()
        assert await created(client, creation("t", timeout_ms=5000)) is ErrorCode.REQUEST_TIMED_OUT
        assert cluster.loop.time() - began == pytest.approx(5.0, abs=0.5)
        client.close()

    run(scenario, roles=SEPARATE)


def test_brokers_and_controllers_are_described_on_their_listeners() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        client = await cluster.connect(4)
        controllers = await ClientConnection.open(cluster.network, host_of(2), CONTROLLER_PORT)
        request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=2)
        async with asyncio.timeout(5):  # a controller registers after it serves
            while len((described := await controllers.ask(request)).brokers) < 3:
                await asyncio.sleep(0.1)
        assert [(node.broker_id, node.host, node.port) for node in described.brokers] == [
            (node_id, host_of(node_id), CONTROLLER_PORT) for node_id in (1, 2, 3)
        ]
        assert described.controller_id == active_controller(cluster)
        cluster.nodes[5].crash()
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, include_fenced_brokers=True
        )
        while True:
            nodes = (await client.ask(request)).brokers
            if any(node.is_fenced for node in nodes):
                break
            await asyncio.sleep(0.1)
        assert [(node.broker_id, node.is_fenced) for node in nodes] == [(4, False), (5, True)]
        request.include_fenced_brokers = False
        assert [node.broker_id for node in (await client.ask(request)).brokers] == [4]
        for connection in (client, controllers):
            connection.close()

    run(scenario, roles=SEPARATE)


def test_groups_work_with_three_controllers_and_two_brokers() -> None:
    """The dedicated controllers were counted as brokers: no internal topic could be created, ever."""

    async def main(cluster: Any) -> None:
        await cluster.start(1, 2, 3, 4)
        client = await cluster.connect(4)
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=["group"])
        (refused,) = (await client.ask(find, version=4)).coordinators
        assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE  # other brokers may still start
        await cluster.start(5)

        async with asyncio.timeout(120):
            while (await client.ask(find, version=4)).coordinators[0].error_code != ErrorCode.NONE:
                await asyncio.sleep(1)

        offsets = cluster.nodes[4].node.metadata.image.topics.by_name["__consumer_offsets"]
        assert {len(partition.replicas) for partition in offsets.partitions} == {2}
        client.close()

    SimulatedCluster(1, roles=SEPARATE).run(main)
