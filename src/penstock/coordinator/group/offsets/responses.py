"""Responses of OffsetFetch. `unstable` are the partitions with pending transactional offsets, if the client requires
stable offsets."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from penstock.coordinator.group.records.offsets import OffsetCommitValue
from penstock.metadata.image import TopicsImage
from penstock.protocol.constants import UNKNOWN_OFFSET
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from penstock.protocol.types import ZERO_UUID


def respond_with_all(
    stored: Mapping[str, Mapping[int, OffsetCommitValue]],
    unstable: Container[tuple[str, int]],
    topics: TopicsImage,
    *,
    by_id: bool,
) -> list[OffsetFetchResponseTopics]:
    """All offsets of a group; without deleted topics if the response has topic ids."""
    responses: list[OffsetFetchResponseTopics] = []
    for name, partitions in stored.items():
        topic = topics.get(name) if by_id else None
        if by_id and topic is None:
            continue
        responses.append(
            OffsetFetchResponseTopics(
                name=name,
                topic_id=ZERO_UUID if topic is None else topic.topic_id,
                partitions=[
                    _without_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
                    if (name, index) in unstable
                    else _with_offset(index, found)
                    for index, found in partitions.items()
                ],
            )
        )
    return responses


def respond_with_topic(
    group_id: str,
    topic: OffsetFetchRequestTopics,
    unstable: Container[tuple[str, int]],
    topics: TopicsImage,
    look_up: Callable[[str, str, int], OffsetCommitValue | None],
) -> OffsetFetchResponseTopics:
    """The requested partitions of a topic, by name or by id."""
    name, topic_id = topic.name, topic.topic_id
    if topic_id != ZERO_UUID:
        name = topics.names_by_id.get(topic_id, "")
    partitions: list[OffsetFetchResponsePartitions] = []
    for index in topic.partition_indexes:
        if not name:
            partitions.append(_without_offset(index, ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        if (name, index) in unstable:
            partitions.append(_without_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            continue
        stored = look_up(group_id, name, index)
        if stored is not None and ZERO_UUID != topic_id != stored.topic_id != ZERO_UUID:
            stored = None  # of an older topic of the same name
        partitions.append(_with_offset(index, stored))
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic_id, partitions=partitions)


def _with_offset(index: int, stored: OffsetCommitValue | None) -> OffsetFetchResponsePartitions:
    if stored is None:
        return _without_offset(index, ErrorCode.NONE)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=stored.offset,
        committed_leader_epoch=stored.leader_epoch,
        metadata=stored.metadata,
    )


def _without_offset(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    """With `NONE` if no offset is committed."""
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=UNKNOWN_OFFSET, metadata="", error_code=error
    )
