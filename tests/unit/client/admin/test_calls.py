"""Which node an admin asks, how often, and for how long."""

from __future__ import annotations

import asyncio

import pytest

from harness.admins import asked, run_admin
from harness.scripted_cluster import NOTHING, Led, ScriptedCluster, ScriptedNode
from penstock.client import errors
from penstock.client.admin.aio import Admin
from penstock.client.admin.configs import ConfigResource
from penstock.client.cluster import TopicPartition
from penstock.protocol.apis import ApiKey
from penstock.protocol.constants import LATEST_TIMESTAMP
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from penstock.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from penstock.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


def lists_offsets(world: ScriptedCluster) -> None:
    """The offset is the id of the node that responds; a node responds for the partitions that it leads."""

    def script(request: ListOffsetsRequest, node: ScriptedNode) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=each.partition_index,
                            offset=node.id,
                            timestamp=-1,
                            error_code=(
                                ErrorCode.NONE
                                if world.topics[topic.name][each.partition_index].leader == node.id
                                else ErrorCode.NOT_LEADER_OR_FOLLOWER
                            ),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    world.answer(ListOffsetsRequest, script)


def test_a_leader_that_does_not_know_a_new_topic_yet_is_retried() -> None:
    """Although another node knows the topic already."""
    world = ScriptedCluster()
    world.topics["orders"] = {0: Led(1)}

    def offsets(error: ErrorCode) -> ListOffsetsResponse:
        reported = ListOffsetsPartitionResponse(partition_index=0, offset=7, timestamp=-1, error_code=error)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[reported])])

    unknown = offsets(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    world.answer_in_turn(ListOffsetsRequest, unknown, offsets(ErrorCode.NONE), unknown)
    world.versions.pop(ApiKey.DESCRIBE_TOPIC_PARTITIONS)

    async def test(admin: Admin) -> None:
        admin._recent_topics.add(["orders"])
        await admin.describe_topic("orders")
        assert (await admin.list_offsets({A: LATEST_TIMESTAMP}))[A].offset == 7

        await asyncio.sleep(60)
        with pytest.raises(errors.ItemsFailed) as failed:
            await admin.list_offsets({A: LATEST_TIMESTAMP})
        assert isinstance(failed.value.failures[A], errors.UnknownTopicOrPartition)

    run_admin(world, test)


def test_each_leader_is_asked_about_its_own_partitions() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.topics["orders"] = {0: Led(1), 1: Led(2)}
    lists_offsets(world)

    async def test(admin: Admin) -> None:
        found = await admin.list_offsets({A: "latest", B: LATEST_TIMESTAMP})
        assert {partition: listed.offset for partition, listed in found.items()} == {A: 1, B: 2}

    run_admin(world, test)


def test_a_moved_leader_is_found_again() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.topics["orders"] = {0: Led(1, epoch=1)}
    lists_offsets(world)

    async def test(admin: Admin) -> None:
        await admin.list_offsets({A: LATEST_TIMESTAMP})
        world.topics["orders"] = {0: Led(2, epoch=2)}

        assert (await admin.list_offsets({A: LATEST_TIMESTAMP}))[A].offset == 2

    run_admin(world, test)


def test_an_added_partition_is_found() -> None:
    world = ScriptedCluster()
    world.topics["orders"] = {0: Led(1)}
    lists_offsets(world)

    async def test(admin: Admin) -> None:
        await admin.list_offsets({A: LATEST_TIMESTAMP})
        world.topics["orders"][1] = Led(1)

        assert list(await admin.topic_offsets(["orders"])) == [A, B]
        with pytest.raises(errors.ItemsFailed) as failed:
            await admin.list_offsets({A: LATEST_TIMESTAMP, TopicPartition("orders", 9): LATEST_TIMESTAMP})
        assert isinstance(failed.value.failures["orders", 9], errors.UnknownTopicOrPartition)
        assert list(failed.value.results) == [A]

    run_admin(world, test)


def test_a_partition_without_a_leader_is_waited_for_until_the_deadline() -> None:
    world = ScriptedCluster()
    world.topics["orders"] = {0: Led(-1, replicas=(1,))}

    async def test(admin: Admin) -> None:
        began = admin._client.now_ms()
        with pytest.raises(errors.ItemsFailed) as failed:
            await admin.list_offsets({A: LATEST_TIMESTAMP}, timeout=5)
        assert isinstance(failed.value.failures[A], errors.TimedOut)
        assert "could not list offsets in time: orders-0" in str(failed.value)
        assert 3_000 <= admin._client.now_ms() - began <= 5_500

    run_admin(world, test)


def test_a_broker_that_never_responds_causes_a_timeout() -> None:
    world = ScriptedCluster()
    world.topics["orders"] = {0: Led(1)}
    world.answer(DeleteRecordsRequest, lambda request, node: NOTHING)

    async def test(admin: Admin) -> None:
        with pytest.raises(errors.ItemsFailed) as failed:
            await admin.delete_records({A: 5}, timeout=2)
        assert isinstance(failed.value.failures[A], TimeoutError)

    run_admin(world, test)


def test_an_unreachable_cluster_is_reported_with_its_address() -> None:
    world = ScriptedCluster()

    async def test(admin: Admin) -> None:
        world.kill(1)
        with pytest.raises(errors.NoBrokersAvailable, match="node1:9092"):
            await admin.connect(timeout=1)

    run_admin(world, test)


def test_an_unsupported_api_is_reported_clearly() -> None:
    world = ScriptedCluster()
    world.versions.pop(ApiKey.DESCRIBE_ACLS)

    async def test(admin: Admin) -> None:
        with pytest.raises(errors.UnsupportedVersion, match="does not serve DescribeAcls"):
            await admin.describe_acls()

    run_admin(world, test)


def test_records_are_deleted_before_an_offset() -> None:
    world = ScriptedCluster()
    world.topics["orders"] = {0: Led(1)}
    world.answer(
        DeleteRecordsRequest,
        lambda request, node: DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name="orders",
                    partitions=[
                        DeleteRecordsPartitionResult(
                            partition_index=0, low_watermark=request.topics[0].partitions[0].offset
                        )
                    ],
                )
            ]
        ),
    )

    async def test(admin: Admin) -> None:
        assert await admin.delete_records({("orders", 0): 12}) == {A: 12}

    run_admin(world, test)


def test_an_invalid_time_is_rejected() -> None:
    async def test(admin: Admin) -> None:
        with pytest.raises(errors.BadArgument, match="yesterday is not one of latest, earliest"):
            await admin.list_offsets({A: "yesterday"})

    run_admin(ScriptedCluster(), test)


def describes_configs(world: ScriptedCluster) -> None:
    def script(request: DescribeConfigsRequest, node: ScriptedNode) -> DescribeConfigsResponse:
        entry = DescribeConfigsResourceResult(
            name="node",
            value=str(node.id),
            read_only=True,
            config_source=99,
            is_sensitive=False,
            synonyms=[DescribeConfigsSynonym(name="other", value=None, source=4)],
            config_type=3,
        )
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    resource_type=each.resource_type, resource_name=each.resource_name, configs=[entry]
                )
                for each in request.resources
            ]
        )

    world.answer(DescribeConfigsRequest, script)


def test_a_broker_is_asked_about_itself_and_any_broker_about_the_rest() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    describes_configs(world)
    mine, topic = ConfigResource.broker(2), ConfigResource.topic("orders")

    async def test(admin: Admin) -> None:
        found = await admin.describe_configs([mine, topic, ConfigResource.all_brokers()])

        entry = found[mine]["node"]
        assert (entry.value, entry.source.name, entry.type.name) == ("2", "UNKNOWN", "INT")
        assert (entry.is_read_only, entry.synonyms[0].source.name) == (True, "FILE")
        assert set(found) == {mine, topic, ConfigResource.all_brokers()}
        with pytest.raises(errors.BrokerNotAvailable, match="node 9 is not in the cluster"):
            await admin.describe_config(ConfigResource.broker(9))

    run_admin(world, test)


def test_configs_are_set_unset_appended_and_subtracted_in_one_request() -> None:
    world = ScriptedCluster()

    def script(
        request: IncrementalAlterConfigsRequest, node: ScriptedNode
    ) -> IncrementalAlterConfigsResponse:
        return IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    resource_type=each.resource_type, resource_name=each.resource_name
                )
                for each in request.resources
            ]
        )

    world.answer(IncrementalAlterConfigsRequest, script)

    async def test(admin: Admin) -> None:
        await admin.alter_config(
            ConfigResource.topic("orders"),
            {"a": 1},
            unset=["b"],
            append={"c": ["x", "y"]},
            subtract={"d": "z"},
        )

    run_admin(world, test)
    (request,) = [each for _, each in asked(world, IncrementalAlterConfigsRequest)]
    assert [(each.name, each.config_operation, each.value) for each in request.resources[0].configs] == [
        ("a", 0, "1"),
        ("c", 2, "x,y"),
        ("d", 3, "z"),
        ("b", 1, None),
    ]


def test_log_dirs_are_described_by_all_or_some_brokers() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.answer(
        DescribeLogDirsRequest,
        lambda request, node: DescribeLogDirsResponse(
            results=[
                DescribeLogDirsResult(
                    log_dir=f"/data/{node.id}",
                    topics=[
                        DescribeLogDirsTopic(
                            name="orders",
                            partitions=[
                                DescribeLogDirsPartition(
                                    partition_index=0, partition_size=7, offset_lag=1, is_future_key=True
                                )
                            ],
                        )
                    ],
                    total_bytes=100,
                ),
                DescribeLogDirsResult(log_dir="/broken", topics=[], error_code=ErrorCode.KAFKA_STORAGE_ERROR),
            ]
        ),
    )

    async def test(admin: Admin) -> None:
        found = await admin.describe_log_dirs()
        broken, sound = found[2]
        assert isinstance(broken.error, errors.BrokerError)
        assert (sound.path, sound.total_bytes, sound.usable_bytes) == ("/data/2", 100, None)
        assert (sound.replicas[0].size_bytes, sound.replicas[0].is_future) == (7, True)
        assert list(await admin.describe_log_dirs([1])) == [1]

    run_admin(world, test)
