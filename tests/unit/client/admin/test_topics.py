"""Topics: which request goes to which node, and the results of responses."""

from __future__ import annotations

from typing import Any

import pytest

from harness.admins import asked, run_admin
from harness.scripted_cluster import HANG_UP, Led, ScriptedCluster, ScriptedNode
from penstock.client import errors
from penstock.client.admin.aio import Admin
from penstock.client.admin.topics import NewPartitions, NewTopic
from penstock.protocol.apis import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from penstock.protocol.messages.create_topics import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from penstock.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from penstock.protocol.types import Uuid, uuid_text

ID = Uuid(bytes(range(16)))


def creates(world: ScriptedCluster, **refused: ErrorCode) -> None:
    """Every topic is created, except those that are rejected by name."""

    def script(request: CreateTopicsRequest, node: ScriptedNode) -> CreateTopicsResponse:
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(
                    name=topic.name,
                    topic_id=ID,
                    error_code=refused.get(topic.name, ErrorCode.NONE),
                    error_message="message of the broker" if topic.name in refused else None,
                    num_partitions=max(topic.num_partitions, 1),
                    replication_factor=1,
                    configs=[
                        CreatableTopicConfigs(
                            name="retention.ms",
                            value="5",
                            read_only=False,
                            config_source=1,
                            is_sensitive=False,
                        )
                    ],
                )
                for topic in request.topics
            ]
        )

    world.answer(CreateTopicsRequest, script)


def test_a_topic_is_created_by_the_controller() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.controller_id = 2
    creates(world)

    async def test(admin: Admin) -> None:
        created = await admin.create_topic(
            "orders", 3, config={"retention.ms": 5, "x": True, "y": ["a", "b"]}
        )

        assert (created.name, created.topic_id, created.partitions) == ("orders", uuid_text(ID), 3)
        assert created.config["retention.ms"].value == "5"

    run_admin(world, test)
    ((node_id, request),) = asked(world, CreateTopicsRequest)
    assert node_id == 2
    (topic,) = request.topics
    assert (topic.num_partitions, topic.replication_factor) == (3, -1)
    assert [(each.name, each.value) for each in topic.configs] == [
        ("retention.ms", "5"),
        ("x", "true"),
        ("y", "a,b"),
    ]


def test_given_replicas_imply_the_counts() -> None:
    world = ScriptedCluster()
    creates(world)

    run_admin(world, lambda admin: admin.create_topics([NewTopic(name="orders", replicas=[[1, 2], [2, 1]])]))

    (topic,) = asked(world, CreateTopicsRequest)[0][1].topics
    assert (topic.num_partitions, topic.replication_factor) == (-1, -1)
    assert [(each.partition_index, each.broker_ids) for each in topic.assignments] == [
        (0, [1, 2]),
        (1, [2, 1]),
    ]


def test_the_error_of_one_topic_is_raised_unchanged() -> None:
    world = ScriptedCluster()
    creates(world, orders=ErrorCode.TOPIC_ALREADY_EXISTS)

    async def test(admin: Admin) -> None:
        with pytest.raises(errors.TopicAlreadyExists, match="orders: message of the broker"):
            await admin.create_topic("orders")

    run_admin(world, test)


def test_failed_topics_are_named_next_to_created_ones() -> None:
    world = ScriptedCluster()
    creates(world, a=ErrorCode.TOPIC_ALREADY_EXISTS, c=ErrorCode.POLICY_VIOLATION)

    async def test(admin: Admin) -> None:
        with pytest.raises(errors.ItemsFailed) as failed:
            await admin.create_topics(["a", "b", "c"])

        assert {name: type(error) for name, error in failed.value.failures.items()} == {
            "a": errors.TopicAlreadyExists,
            "c": errors.PolicyViolation,
        }
        assert list(failed.value.results) == ["b"]
        assert "could not create topics: 2 of 3 failed" in str(failed.value)

    run_admin(world, test)


def test_only_throttled_topics_are_retried() -> None:
    world = ScriptedCluster()
    creates(world)
    throttled = CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name="a"),
            CreatableTopicResult(name="b", error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED),
        ]
    )
    world.answer_in_turn(CreateTopicsRequest, throttled)

    async def test(admin: Admin) -> None:
        assert list(await admin.create_topics(["a", "b"])) == ["a", "b"]

    run_admin(world, test)
    assert [[topic.name for topic in each.topics] for _, each in asked(world, CreateTopicsRequest)] == [
        ["a", "b"],
        ["b"],
    ]


def test_a_lost_connection_is_reopened_and_the_request_retried() -> None:
    world = ScriptedCluster()
    creates(world)
    world.answer_in_turn(CreateTopicsRequest, HANG_UP)

    async def test(admin: Admin) -> None:
        await admin.create_topic("orders")

    run_admin(world, test)
    assert len(asked(world, CreateTopicsRequest)) == 2


def test_a_topic_that_is_missing_in_the_response_has_failed() -> None:
    world = ScriptedCluster()
    world.answer(CreateTopicsRequest, lambda request, node: CreateTopicsResponse(topics=[]))

    async def test(admin: Admin) -> None:
        with pytest.raises(errors.MalformedAnswer, match="orders"):
            await admin.create_topic("orders")

    run_admin(world, test)


def test_a_topic_that_does_not_exist_is_reported_at_once() -> None:
    world = ScriptedCluster()
    world.versions.pop(ApiKey.DESCRIBE_TOPIC_PARTITIONS)

    async def test(admin: Admin) -> None:
        began = admin._client.now_ms()
        with pytest.raises(errors.UnknownTopicOrPartition, match="orders"):
            await admin.describe_topic("orders")
        assert admin._client.now_ms() - began < 100

    run_admin(world, test)


def test_a_topic_that_was_just_created_is_waited_for() -> None:
    world = ScriptedCluster()
    world.versions.pop(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
    creates(world)

    async def test(admin: Admin) -> None:
        await admin.create_topic("orders")
        world.loop.call_later(1.0, lambda: world.topics.update(orders={0: Led(1)}))

        described = await admin.describe_topic("orders")

        assert [partition.leader for partition in described.partitions] == [1]

    run_admin(world, test)


def page(name: str, *indexes: int, cursor: Cursor | None = None, error: ErrorCode = ErrorCode.NONE) -> Any:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=ID,
                error_code=error,
                partitions=[
                    DescribeTopicPartitionsResponsePartition(
                        partition_index=index,
                        leader_id=1,
                        leader_epoch=4,
                        replica_nodes=[1, 2],
                        isr_nodes=[1],
                        eligible_leader_replicas=[2],
                        last_known_elr=[],
                        offline_replicas=[2],
                    )
                    for index in indexes
                ],
            )
        ],
        next_cursor=cursor,
    )


def test_pages_of_a_description_are_joined() -> None:
    world = ScriptedCluster()
    cursor = Cursor(topic_name="orders", partition_index=2)
    world.answer_in_turn(
        DescribeTopicPartitionsRequest, page("orders", 0, 1, cursor=cursor), page("orders", 2)
    )

    async def test(admin: Admin) -> None:
        described = await admin.describe_topic("orders")

        assert [partition.index for partition in described.partitions] == [0, 1, 2]
        first = described.partitions[0]
        assert (first.leader, first.leader_epoch, first.in_sync) == (1, 4, (1,))
        assert (first.offline, first.eligible_leaders, first.last_known_eligible) == ((2,), (2,), ())
        assert described.replication_factor == 2

    run_admin(world, test)
    assert [each.cursor for _, each in asked(world, DescribeTopicPartitionsRequest)] == [None, cursor]


def test_a_cursor_that_does_not_move_ends_the_description() -> None:
    world = ScriptedCluster()
    cursor = Cursor(topic_name="orders", partition_index=0)
    world.answer(DescribeTopicPartitionsRequest, lambda request, node: page("orders", 0, cursor=cursor))

    async def test(admin: Admin) -> None:
        assert len((await admin.describe_topic("orders")).partitions) == 1

    run_admin(world, test)


def test_topics_are_listed_by_name_and_internal_ones_on_request() -> None:
    world = ScriptedCluster()
    world.topics = {"b": {0: Led(1), 1: Led(1)}, "a": {0: Led(1)}}

    async def test(admin: Admin) -> None:
        assert [(topic.name, topic.partitions) for topic in await admin.list_topics()] == [("a", 1), ("b", 2)]

    run_admin(world, test)


def test_topics_are_deleted_by_name_and_by_id() -> None:
    world = ScriptedCluster()
    text = uuid_text(ID)
    world.answer(
        DeleteTopicsRequest,
        lambda request, node: DeleteTopicsResponse(
            responses=[
                DeletableTopicResult(name=each.name, topic_id=each.topic_id) for each in request.topics
            ]
        ),
    )

    async def test(admin: Admin) -> None:
        assert await admin.delete_topics(["orders"], ids=[text]) == {"orders": None, text: None}

    run_admin(world, test)
    (request,) = [each for _, each in asked(world, DeleteTopicsRequest)]
    assert [(each.name, each.topic_id) for each in request.topics] == [
        ("orders", Uuid(bytes(16))),
        (None, ID),
    ]


def test_deleting_by_id_needs_a_broker_with_topic_ids() -> None:
    world = ScriptedCluster()
    world.versions[ApiKey.DELETE_TOPICS] = (1, 5)

    async def test(admin: Admin) -> None:
        with pytest.raises(errors.ItemsFailed) as failed:
            await admin.delete_topics(ids=[uuid_text(ID)])
        (error,) = failed.value.failures.values()
        assert isinstance(error, errors.UnsupportedVersion)

    run_admin(world, test)


def test_partitions_are_added_by_count_or_with_replicas() -> None:
    world = ScriptedCluster()
    world.answer(
        CreatePartitionsRequest,
        lambda request, node: CreatePartitionsResponse(
            results=[CreatePartitionsTopicResult(name=topic.name) for topic in request.topics]
        ),
    )

    async def test(admin: Admin) -> None:
        await admin.create_partitions(
            {"a": 3, "b": NewPartitions(total=2, replicas=[[1]])}, validate_only=True
        )

    run_admin(world, test)
    (request,) = [each for _, each in asked(world, CreatePartitionsRequest)]
    assert request.validate_only
    assert [(each.name, each.count) for each in request.topics] == [("a", 3), ("b", 2)]
    assert request.topics[0].assignments is None
    assert [each.broker_ids for each in request.topics[1].assignments or ()] == [[1]]


def test_a_timed_out_creation_is_not_retried() -> None:
    """It may have been created after all, and the retry would report that the topic exists."""
    world = ScriptedCluster()
    creates(world, orders=ErrorCode.REQUEST_TIMED_OUT)

    async def test(admin: Admin) -> None:
        with pytest.raises(errors.RequestTimedOut):
            await admin.create_topic("orders")

    run_admin(world, test)
    assert len(asked(world, CreateTopicsRequest)) == 1
