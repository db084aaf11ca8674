"""A client's connections to a real cluster: what scripted clusters cannot prove."""

from __future__ import annotations

import asyncio

import pytest

from harness.admin import new_name
from harness.brokers import Broker
from harness.kafka_cluster import KafkaCluster
from penstock.client import errors
from penstock.client.cluster import TopicPartition
from penstock.client.cluster_client import ClusterClient, CoordinatorKind
from penstock.client.settings import AdminSettings
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)
from penstock.protocol.messages.list_groups import ListGroupsRequest


async def create(client: ClusterClient, name: str, *, partitions: int = 1, replicas: int = 1) -> None:
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas, assignments=[], configs=[]
    )
    response = await client.ask_controller(CreateTopicsRequest(topics=[topic]))
    assert [each.error_code for each in response.topics] == [ErrorCode.NONE]


async def test_connecting_to_a_cluster_sending_requests_and_closing(cluster: Broker) -> None:
    client = ClusterClient(AdminSettings.of(cluster.bootstrap))
    before = asyncio.all_tasks()
    name = new_name("orders")
    await create(client, name, partitions=3)
    found = await client.topics([name])
    assert [each.leader_id for each in found.topics[name].partitions] == [1, 1, 1]
    node_id = await client.coordinator(CoordinatorKind.GROUP, new_name("readers"))
    await client.ask(node_id, ListGroupsRequest())
    await client.close()
    assert asyncio.all_tasks() == before


async def test_an_unknown_topic_is_an_error(cluster: Broker) -> None:
    client = ClusterClient(AdminSettings.of(cluster.bootstrap))
    try:
        with pytest.raises(errors.UnknownTopicOrPartition, match="nowhere"):
            await client.topics(["nowhere"], patience_ms=300)
        with pytest.raises(errors.InvalidTopic, match="no name!"):
            await client.topics(["no name!"])
    finally:
        await client.close()


async def test_a_broker_that_was_killed_and_restarted_is_found_again(broker: Broker) -> None:
    client = ClusterClient(AdminSettings.of(broker.bootstrap))
    try:
        name = new_name("orders")
        await create(client, name)
        await asyncio.to_thread(broker.kill)
        starting = asyncio.create_task(asyncio.to_thread(broker.start))
        assert name in (await client.refresh()).topics or name in (await client.topics([name])).topics
        await client.ask_any(ListGroupsRequest())
        await starting
    finally:
        await client.close()


async def test_the_successor_of_a_killed_leader_is_found(kafka_cluster: KafkaCluster) -> None:
    client = ClusterClient(AdminSettings.of(kafka_cluster.bootstrap))
    try:
        name = new_name("orders")
        await create(client, name, partitions=3, replicas=3)
        before = (await client.topics([name])).leader_of(TopicPartition(name, 0))
        assert before is not None
        await client.connect(before.node_id)
        await asyncio.to_thread(kafka_cluster.kill, before.node_id)
        deadline_ms = client.deadline(60_000)
        after = before
        while after.node_id == before.node_id or after.epoch <= before.epoch:
            found = (await client.refresh(deadline_ms=deadline_ms)).leader_of(TopicPartition(name, 0))
            after = found or after
        await client.ask(after.node_id, ListGroupsRequest())
        await create(client, new_name("later"))  # the controller may be the node that died
        await client.coordinator(CoordinatorKind.GROUP, new_name("readers"))
    finally:
        await client.close()


async def test_controllers_are_used_if_they_are_configured(kafka_cluster: KafkaCluster) -> None:
    settings = AdminSettings.of(None, None, {"bootstrap_controllers": kafka_cluster.controllers})
    client = ClusterClient(settings)
    try:
        cluster = await client.refresh()
        found = sorted(f"{node.host}:{node.port}" for node in cluster.nodes.values())
        assert found == sorted(kafka_cluster.controllers.split(","))
        partition = DescribeQuorumRequestPartition(partition_index=0)
        topic = DescribeQuorumRequestTopic(topic_name="__cluster_metadata", partitions=[partition])
        response = await client.ask_controller(DescribeQuorumRequest(topics=[topic]))
        assert response.topics[0].partitions[0].leader_id == cluster.controller_id
    finally:
        await client.close()
