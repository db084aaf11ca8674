"""Requests about offsets and groups, in any version, over a plain socket, with results that are easy to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.requests import ask
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.delete_groups import DeleteGroupsRequest
from penstock.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from penstock.protocol.types import Uuid

BY_ID_VERSION = 10
SEVERAL_GROUPS_VERSION = 8

NOTHING = (-1, -1, "", ErrorCode.NONE)
"""The result for a partition without a committed offset."""


def topic_id_of(connection: WireConnection, topic: str) -> Uuid:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    (found,) = ask(connection, request, 10).topics
    topic_id: Uuid = found.topic_id
    return topic_id


def commit(
    connection: WireConnection,
    group: str,
    offsets: Mapping[str | Uuid, Mapping[int, int]],
    *,
    version: int = 9,
    metadata: str | None = "",
    leader_epoch: int = -1,
    **fields: Any,
) -> list[ErrorCode]:
    request = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                **({"name": topic} if isinstance(topic, str) else {"topic_id": topic}),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_metadata=metadata,
                        committed_leader_epoch=leader_epoch,
                    )
                    for index, offset in partitions.items()
                ],
            )
            for topic, partitions in offsets.items()
        ],
        **fields,
    )
    answered = ask(connection, request, version).topics
    errors = {
        (topic.name or topic.topic_id, partition.partition_index): partition.error_code
        for topic in answered
        for partition in topic.partitions
    }
    return [errors[topic, index] for topic, partitions in offsets.items() for index in partitions]


def fetch(
    connection: WireConnection,
    group: str,
    partitions: Mapping[str | Uuid, Sequence[int]] | None,
    *,
    version: int = 9,
    require_stable: bool = False,
    member: tuple[str, int] | None = None,
) -> dict[tuple[str | Uuid, int], tuple[int, int, str, ErrorCode]] | ErrorCode:
    """The result for each partition, or the error of the whole group."""
    if version < SEVERAL_GROUPS_VERSION:
        topics = None
        if partitions is not None:
            topics = [
                OffsetFetchRequestTopic(name=str(topic), partition_indexes=list(indexes))
                for topic, indexes in partitions.items()
            ]
        answered = ask(
            connection,
            OffsetFetchRequest(group_id=group, topics=topics, require_stable=require_stable),
            version,
        )
    else:
        wanted = None
        if partitions is not None:
            wanted = [
                OffsetFetchRequestTopics(
                    **({"name": topic} if isinstance(topic, str) else {"topic_id": topic}),
                    partition_indexes=list(indexes),
                )
                for topic, indexes in partitions.items()
            ]
        asked = OffsetFetchRequestGroup(group_id=group, topics=wanted)
        if member is not None:
            asked.member_id, asked.member_epoch = member
        request = OffsetFetchRequest(groups=[asked], require_stable=require_stable)
        (answered,) = ask(connection, request, version).groups
    if answered.error_code is not ErrorCode.NONE:
        assert not answered.topics
        return ErrorCode(answered.error_code)
    return {
        (
            getattr(topic, "topic_id", None) if version >= BY_ID_VERSION else topic.name,
            each.partition_index,
        ): (
            each.committed_offset,
            each.committed_leader_epoch,
            each.metadata,
            each.error_code,
        )
        for topic in answered.topics
        for each in topic.partitions
    }


def delete_offsets(
    connection: WireConnection, group: str, partitions: Mapping[str, Sequence[int]]
) -> list[ErrorCode] | ErrorCode:
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
            )
            for topic, indexes in partitions.items()
        ],
    )
    answered = ask(connection, request, 0)
    if answered.error_code is not ErrorCode.NONE:
        assert not answered.topics
        return ErrorCode(answered.error_code)
    errors = {
        (topic.name, partition.partition_index): partition.error_code
        for topic in answered.topics
        for partition in topic.partitions
    }
    return [errors[topic, index] for topic, indexes in partitions.items() for index in indexes]


def delete_groups(connection: WireConnection, *groups: str, version: int = 2) -> dict[str, ErrorCode]:
    results = ask(connection, DeleteGroupsRequest(groups_names=list(groups)), version).results
    assert len(results) == len({result.group_id for result in results})
    return {result.group_id: result.error_code for result in results}


def describe(connection: WireConnection, group: str, *, version: int = 6, **fields: Any) -> DescribedGroup:
    (described,) = ask(connection, DescribeGroupsRequest(groups=[group], **fields), version).groups
    assert isinstance(described, DescribedGroup)
    return described


def listed(connection: WireConnection, *groups: str, version: int = 5, **filters: list[str]) -> list[str]:
    """The groups of `groups` that are listed."""
    answered = ask(connection, ListGroupsRequest(**filters), version)
    assert answered.error_code is ErrorCode.NONE
    return [group for group in groups if group in {each.group_id for each in answered.groups}]
