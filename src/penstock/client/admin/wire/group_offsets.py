"""OffsetFetch, OffsetCommit and OffsetDelete, as an administrator uses them: from outside of the group.

Topics are named rather than given by id, because an administrator may ask about topics that are gone: hence not the
newest versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.client.admin.calls import Newest
from penstock.client.admin.group_offsets import GroupOffset
from penstock.client.admin.outcome import Answers
from penstock.client.admin.wire.reading import answer, by_topic, check, known
from penstock.client.cluster import TopicPartition
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

FETCH_BY_NAME = Newest(ApiKey.OFFSET_FETCH, 9)
COMMIT_BY_NAME = Newest(ApiKey.OFFSET_COMMIT, 9)
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
) -> Answers[str, Offsets]:
    answers: dict[str, Offsets | PenstockError] = {}
    for group in response.groups:
        offsets: Offsets = dict.fromkeys(asked[group.group_id] or ())
        failure: PenstockError | None = None
        for topic in group.topics:
            for told in topic.partitions:
                partition = TopicPartition(topic.name, told.partition_index)
                offset = GroupOffset(
                    offset=told.committed_offset,
                    leader_epoch=known(told.committed_leader_epoch),
                    metadata=told.metadata or "",
                )
                read = answer(told.error_code, None, partition, offset)
                if isinstance(read, PenstockError):
                    failure = failure or read
                elif told.committed_offset >= 0:
                    offsets[partition] = read
        told_of_group = answer(group.error_code, None, group.group_id, offsets)
        answers[group.group_id] = (
            told_of_group if isinstance(told_of_group, PenstockError) else failure or offsets
        )
    return answers


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


def read_committed(response: OffsetCommitResponse, group_id: str) -> Answers[TopicPartition, None]:
    answers: dict[TopicPartition, PenstockError | None] = {}
    for topic in response.topics:
        for told in topic.partitions:
            partition = TopicPartition(topic.name, told.partition_index)
            answers[partition] = answer(told.error_code, None, f"{group_id}, {partition}", None)
    return answers


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


def read_deleted(response: OffsetDeleteResponse, group_id: str) -> Answers[TopicPartition, None]:
    check(response.error_code, None, group_id)
    answers: dict[TopicPartition, PenstockError | None] = {}
    for topic in response.topics:
        for told in topic.partitions:
            partition = TopicPartition(topic.name, told.partition_index)
            answers[partition] = answer(told.error_code, None, f"{group_id}, {partition}", None)
    return answers
