"""OffsetFetch, OffsetCommit and OffsetDelete as the admin client sends them, without being a group member.

Topics are given by name, because a deleted topic has no id any more. So the newest versions are not used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.client.admin.calls import MaxVersion
from penstock.client.admin.group_offsets import GroupOffset
from penstock.client.admin.results import Results
from penstock.client.admin.wire.common import check, known, value_or_error
from penstock.client.cluster import TopicPartition, by_topic
from penstock.client.errors import PenstockError
from penstock.protocol.apis import ApiKey
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from penstock.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

FETCH_BY_NAME = MaxVersion(ApiKey.OFFSET_FETCH, 9)
COMMIT_BY_NAME = MaxVersion(ApiKey.OFFSET_COMMIT, 9)
NOT_A_MEMBER = -1

Offsets = dict[TopicPartition, GroupOffset | None]


def fetch_request(
    groups: Mapping[str, Sequence[TopicPartition] | None], *, require_stable: bool
) -> OffsetFetchRequest:
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id=group_id, topics=None if partitions is None else _topics(partitions)
            )
            for group_id, partitions in groups.items()
        ],
        require_stable=require_stable,
    )


def _topics(partitions: Sequence[TopicPartition]) -> list[OffsetFetchRequestTopics]:
    return [
        OffsetFetchRequestTopics(name=topic, partition_indexes=indexes)
        for topic, indexes in by_topic(partitions).items()
    ]


def read_fetched(
    response: OffsetFetchResponse, asked: Mapping[str, Sequence[TopicPartition] | None]
) -> Results[str, Offsets]:
    results: dict[str, Offsets | PenstockError] = {}
    for group in response.groups:
        offsets: Offsets = dict.fromkeys(asked[group.group_id] or ())
        failure: PenstockError | None = None
        for topic in group.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.name, result.partition_index)
                offset = GroupOffset(
                    offset=result.committed_offset,
                    leader_epoch=known(result.committed_leader_epoch),
                    metadata=result.metadata or "",
                )
                read = value_or_error(result.error_code, None, partition, offset)
                if isinstance(read, PenstockError):
                    failure = failure or read
                elif result.committed_offset >= 0:
                    offsets[partition] = read
        group_result = value_or_error(group.error_code, None, group.group_id, offsets)
        results[group.group_id] = (
            group_result if isinstance(group_result, PenstockError) else failure or offsets
        )
    return results


def commit_request(group_id: str, offsets: Mapping[TopicPartition, GroupOffset]) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=NOT_A_MEMBER,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[_commit(index, offsets[TopicPartition(topic, index)]) for index in indexes],
            )
            for topic, indexes in by_topic(offsets).items()
        ],
    )


def _commit(index: int, offset: GroupOffset) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def read_committed(response: OffsetCommitResponse, group_id: str) -> Results[TopicPartition, None]:
    return {
        (partition := TopicPartition(topic.name, result.partition_index)): value_or_error(
            result.error_code, None, f"{group_id}, {partition}", None
        )
        for topic in response.topics
        for result in topic.partitions
    }


def delete_request(group_id: str, partitions: Sequence[TopicPartition]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
            )
            for topic, indexes in by_topic(partitions).items()
        ],
    )


def read_deleted(response: OffsetDeleteResponse, group_id: str) -> Results[TopicPartition, None]:
    check(response.error_code, None, group_id)
    return {
        (partition := TopicPartition(topic.name, result.partition_index)): value_or_error(
            result.error_code, None, f"{group_id}, {partition}", None
        )
        for topic in response.topics
        for result in topic.partitions
    }
