"""Groups: found by type, at any coordinator."""

from __future__ import annotations

from typing import Any

import pytest

from harness.admins import asked, run_admin
from harness.scripted_cluster import NOTHING, Led, ScriptedCluster, ScriptedNode
from penstock.client import errors
from penstock.client.admin.aio import Admin
from penstock.client.admin.groups import ClassicGroup, ConsumerGroup, GroupState, GroupType, StreamsGroup
from penstock.client.admin.wire.groups import read_assignment
from penstock.client.cluster import TopicPartition
from penstock.protocol.apis import ApiKey
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import consumer_group_describe as consumer
from penstock.protocol.messages import consumer_protocol
from penstock.protocol.messages import describe_groups as classic
from penstock.protocol.messages import streams_group_describe as streams
from penstock.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from penstock.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from penstock.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from penstock.protocol.types import ZERO_UUID

ORDERS = TopicPartition("orders", 0)


def assignment_bytes(version: int = 0) -> bytes:
    assignment = consumer_protocol.ConsumerProtocolAssignment(
        assigned_partitions=[consumer_protocol.TopicPartition(topic="orders", partitions=[0, 1])]
    )
    written = codec(consumer_protocol.ConsumerProtocolAssignment, min(version, 3)).encode(assignment)
    return version.to_bytes(2, "big") + written


def not_here(request: Any, node: ScriptedNode, response: type[Any], group: type[Any], **fields: Any) -> Any:
    return response(
        groups=[
            group(
                group_id=each, group_state="", error_code=ErrorCode.GROUP_ID_NOT_FOUND, members=[], **fields
            )
            for each in request.group_ids
        ]
    )


def knows_no_new_groups(world: ScriptedCluster) -> None:
    world.answer(
        consumer.ConsumerGroupDescribeRequest,
        lambda request, node: not_here(
            request,
            node,
            consumer.ConsumerGroupDescribeResponse,
            consumer.DescribedGroup,
            group_epoch=0,
            assignment_epoch=0,
            assignor_name="",
        ),
    )
    world.answer(
        streams.StreamsGroupDescribeRequest,
        lambda request, node: not_here(
            request,
            node,
            streams.StreamsGroupDescribeResponse,
            streams.DescribedGroup,
            group_epoch=0,
            assignment_epoch=0,
        ),
    )
    world.versions.pop(ApiKey.SHARE_GROUP_DESCRIBE)


def knows_classic(world: ScriptedCluster, *ids: str, state: str = "Stable") -> None:
    def script(request: classic.DescribeGroupsRequest, node: ScriptedNode) -> classic.DescribeGroupsResponse:
        return classic.DescribeGroupsResponse(
            groups=[
                classic.DescribedGroup(
                    group_id=each,
                    group_state=state if each in ids else "Dead",
                    protocol_type="consumer" if each in ids else "",
                    protocol_data="range",
                    members=[
                        classic.DescribedGroupMember(
                            member_id="m",
                            group_instance_id="i",
                            client_id="c",
                            client_host="/h",
                            member_metadata=b"",
                            member_assignment=assignment_bytes(),
                        )
                    ],
                )
                for each in request.groups
            ]
        )

    world.answer(classic.DescribeGroupsRequest, script)


def test_a_classic_group_is_found_after_all_other_types() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.coordinators["billing"] = 2
    knows_no_new_groups(world)
    knows_classic(world, "billing")

    async def test(admin: Admin) -> None:
        group = await admin.describe_group("billing")

        assert isinstance(group, ClassicGroup)
        assert (group.type, group.state, group.assignor) == (GroupType.CLASSIC, GroupState.STABLE, "range")
        (member,) = group.members
        assert member.assignment == {ORDERS, TopicPartition("orders", 1)}
        assert member.instance_id == "i"
        assert group.coordinator is not None
        assert group.coordinator.id == 2

    run_admin(world, test)
    assert [node_id for node_id, _ in asked(world, classic.DescribeGroupsRequest)] == [2]


def test_an_unknown_group_is_not_found() -> None:
    world = ScriptedCluster()
    knows_no_new_groups(world)
    knows_classic(world)

    async def test(admin: Admin) -> None:
        with pytest.raises(errors.GroupIdNotFound, match="billing"):
            await admin.describe_group("billing")

    run_admin(world, test)


def test_an_old_broker_is_asked_only_for_classic_groups() -> None:
    world = ScriptedCluster()
    for key in (
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_DESCRIBE,
    ):
        world.versions.pop(key)
    knows_classic(world, "billing", state="PreparingRebalance")

    async def test(admin: Admin) -> None:
        assert (await admin.describe_group("billing")).state is GroupState.PREPARING_REBALANCE

    run_admin(world, test)


def test_a_consumer_group_is_described_with_epochs_and_targets() -> None:
    world = ScriptedCluster()
    where = consumer.Assignment(
        topic_partitions=[consumer.TopicPartitions(topic_id=ZERO_UUID, topic_name="orders", partitions=[0])]
    )
    member = consumer.Member(
        member_id="m",
        member_epoch=4,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["orders"],
        assignment=where,
        target_assignment=where,
        member_type=0,
    )
    world.answer(
        consumer.ConsumerGroupDescribeRequest,
        lambda request, node: consumer.ConsumerGroupDescribeResponse(
            groups=[
                consumer.DescribedGroup(
                    group_id="billing",
                    group_state="Reconciling",
                    group_epoch=5,
                    assignment_epoch=4,
                    assignor_name="uniform",
                    members=[member],
                )
            ]
        ),
    )

    async def test(admin: Admin) -> None:
        group = await admin.describe_group("billing", type=GroupType.CONSUMER)

        assert isinstance(group, ConsumerGroup)
        assert (group.epoch, group.assignment_epoch, group.assignor) == (5, 4, "uniform")
        assert group.state is GroupState.RECONCILING
        assert group.members[0].target == group.members[0].assignment == {ORDERS}
        assert group.members[0].is_classic is True

    run_admin(world, test)


def test_a_member_of_a_streams_group_reads_the_sources_of_its_tasks() -> None:
    world = ScriptedCluster()
    tasks = streams.Assignment(
        active_tasks=[streams.TaskIds(subtopology_id="0", partitions=[0])], standby_tasks=[], warmup_tasks=[]
    )
    member = streams.Member(
        member_id="m",
        member_epoch=1,
        client_id="c",
        client_host="/h",
        topology_epoch=0,
        process_id="p",
        client_tags=[],
        task_offsets=[],
        task_end_offsets=[],
        assignment=tasks,
        target_assignment=tasks,
        is_classic=False,
    )
    topology = streams.Topology(
        epoch=0,
        subtopologies=[
            streams.Subtopology(
                subtopology_id="0",
                source_topics=["orders"],
                repartition_sink_topics=[],
                state_changelog_topics=[],
                repartition_source_topics=[],
            )
        ],
    )
    knows_no_new_groups(world)
    world.answer(
        streams.StreamsGroupDescribeRequest,
        lambda request, node: streams.StreamsGroupDescribeResponse(
            groups=[
                streams.DescribedGroup(
                    group_id="app",
                    group_state="Stable",
                    group_epoch=2,
                    assignment_epoch=2,
                    topology=topology,
                    members=[member],
                )
            ]
        ),
    )

    async def test(admin: Admin) -> None:
        group = await admin.describe_group("app")

        assert isinstance(group, StreamsGroup)
        assert group.members[0].assignment == {ORDERS}
        assert group.members[0].tasks.active == {("0", 0)}

    run_admin(world, test)


@pytest.mark.parametrize("version", [0, 1, 3, 9])
def test_an_assignment_of_any_version_is_decoded(version: int) -> None:
    assert read_assignment(assignment_bytes(version)) == {ORDERS, TopicPartition("orders", 1)}


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00\x7f\xff\xff\xff", b"not an assignment"])
def test_bytes_that_are_not_an_assignment_assign_nothing(data: bytes) -> None:
    assert read_assignment(data) == frozenset()


def test_groups_are_listed_from_all_brokers() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.answer(
        ListGroupsRequest,
        lambda request, node: ListGroupsResponse(
            groups=[
                ListedGroup(
                    group_id=f"of-{node.id}",
                    protocol_type="consumer",
                    group_state="Empty",
                    group_type="consumer",
                )
            ]
        ),
    )

    async def test(admin: Admin) -> None:
        listed = await admin.list_groups(types=["consumer"], states=["preparing-rebalance"])

        assert [(each.group_id, each.type, each.state) for each in listed] == [
            ("of-1", GroupType.CONSUMER, GroupState.EMPTY),
            ("of-2", GroupType.CONSUMER, GroupState.EMPTY),
        ]
        with pytest.raises(errors.BadArgument, match="sleeping is not one of"):
            await admin.list_groups(states=["sleeping"])

    run_admin(world, test)
    (first, _) = [request for _, request in asked(world, ListGroupsRequest)]
    assert (first.types_filter, first.states_filter) == (["Consumer"], ["PreparingRebalance"])


def test_a_broker_that_left_the_cluster_is_left_out() -> None:
    world = ScriptedCluster(node_ids=(1, 2))

    def script(request: ListGroupsRequest, node: ScriptedNode) -> object:
        if node.id == 2:
            world.kill(2)
            return NOTHING
        return ListGroupsResponse(groups=[ListedGroup(group_id="of-1", protocol_type="consumer")])

    world.answer(ListGroupsRequest, script)

    async def test(admin: Admin) -> None:
        began = admin._client.now_ms()
        assert [each.group_id for each in await admin.list_groups()] == ["of-1"]
        assert admin._client.now_ms() - began < 10_000

    run_admin(world, test)


def test_a_moved_coordinator_is_found_again() -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.coordinators["billing"] = 1

    def script(request: DeleteGroupsRequest, node: ScriptedNode) -> DeleteGroupsResponse:
        error = ErrorCode.NONE if node.id == 2 else ErrorCode.NOT_COORDINATOR
        world.coordinators["billing"] = 2
        return DeleteGroupsResponse(results=[DeletableGroupResult(group_id="billing", error_code=error)])

    world.answer(DeleteGroupsRequest, script)

    run_admin(world, lambda admin: admin.delete_group("billing"))

    assert [node_id for node_id, _ in asked(world, DeleteGroupsRequest)] == [1, 2]


def test_all_members_are_removed_static_ones_by_instance_id() -> None:
    world = ScriptedCluster()
    knows_no_new_groups(world)
    knows_classic(world, "billing")
    world.answer(
        LeaveGroupRequest,
        lambda request, node: LeaveGroupResponse(
            members=[
                MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id)
                for each in request.members
            ]
        ),
    )

    async def test(admin: Admin) -> None:
        assert await admin.remove_members("billing") == {"i": None}

    run_admin(world, test)


def fetches(world: ScriptedCluster, **offsets: int) -> None:
    """Groups have committed these offsets for the first partition of `orders`."""

    def script(request: OffsetFetchRequest, node: ScriptedNode) -> OffsetFetchResponse:
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(
                    group_id=group.group_id,
                    topics=[
                        OffsetFetchResponseTopics(
                            name="orders",
                            partitions=[
                                OffsetFetchResponsePartitions(
                                    partition_index=0,
                                    committed_offset=offsets[group.group_id],
                                    committed_leader_epoch=3,
                                    metadata="message",
                                )
                            ],
                        )
                    ],
                )
                for group in request.groups
            ]
        )

    world.answer(OffsetFetchRequest, script)


def test_offsets_are_fetched_by_topic_name_and_missing_ones_are_none() -> None:
    world = ScriptedCluster()
    fetches(world, billing=7, audit=-1)

    async def test(admin: Admin) -> None:
        found = await admin.list_group_offsets("billing")
        offset = found[ORDERS]
        assert offset is not None
        assert (offset.offset, offset.leader_epoch, offset.metadata) == (7, 3, "message")
        assert await admin.list_group_offsets("audit", [("orders", 0)]) == {ORDERS: None}

    run_admin(world, test)


def test_offsets_are_committed_without_membership() -> None:
    world = ScriptedCluster()

    def script(request: OffsetCommitRequest, node: ScriptedNode) -> OffsetCommitResponse:
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name="orders",
                    partitions=[
                        OffsetCommitResponsePartition(partition_index=0),
                        OffsetCommitResponsePartition(
                            partition_index=1, error_code=ErrorCode.UNKNOWN_MEMBER_ID
                        ),
                    ],
                )
            ]
        )

    world.answer(OffsetCommitRequest, script)

    async def test(admin: Admin) -> None:
        with pytest.raises(errors.ItemsFailed) as failed:
            await admin.alter_group_offsets("billing", {ORDERS: 5, TopicPartition("orders", 1): 6})
        assert "billing, orders-1" in str(failed.value)
        assert failed.value.results == {ORDERS: None}

    run_admin(world, test)
    (request,) = [each for _, each in asked(world, OffsetCommitRequest)]
    assert request.generation_id_or_member_epoch == -1
    assert [each.committed_offset for each in request.topics[0].partitions] == [5, 6]


def test_an_error_of_the_group_is_the_error_of_every_deleted_offset() -> None:
    world = ScriptedCluster()
    done = OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name="orders", partitions=[OffsetDeleteResponsePartition(partition_index=0)]
            )
        ]
    )
    world.answer_in_turn(
        OffsetDeleteRequest,
        done,
        OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND, topics=[]),
    )

    async def test(admin: Admin) -> None:
        assert await admin.delete_group_offsets("billing", [ORDERS]) == {ORDERS: None}
        with pytest.raises(errors.ItemsFailed) as failed:
            await admin.delete_group_offsets("billing", [ORDERS])
        assert isinstance(failed.value.failures[ORDERS], errors.GroupIdNotFound)

    run_admin(world, test)


def test_lag_is_measured_up_to_the_end_and_a_deleted_topic_hides_nothing() -> None:
    world = ScriptedCluster()
    world.topics["orders"] = {0: Led(1), 1: Led(1)}
    knows_no_new_groups(world)
    knows_classic(world, "billing")
    fetches(world, billing=7)

    def script(request: ListOffsetsRequest, node: ScriptedNode) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=each.partition_index, offset=10 if each.timestamp == -1 else 2
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    world.answer(ListOffsetsRequest, script)

    async def test(admin: Admin) -> None:
        first, second = await admin.group_lag("billing")

        assert (first.partition, first.committed_offset, first.start_offset) == (ORDERS, 7, 2)
        assert (first.end_offset, first.lag) == (10, 3)
        assert first.member is not None
        assert (second.partition.partition, second.committed_offset, second.lag) == (1, None, None)

        del world.topics["orders"]
        await admin._client.refresh()
        (gone, _) = await admin.group_lag("billing")
        assert (gone.committed_offset, gone.end_offset, gone.lag) == (7, None, None)

    run_admin(world, test)
