"""Stored offsets as OffsetFetch tells them. `unstable` are partitions with an offset in an open transaction, if the
asker wants to wait for its end: which offset holds is not decided yet."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from penstock.coordinator.group.records.offsets import OffsetCommitValue
from penstock.metadata.image import TopicsImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from penstock.protocol.types import ZERO_UUID

NO_OFFSET = -1


def tell_all(
    stored: Mapping[str, Mapping[int, OffsetCommitValue]],
    unstable: Container[tuple[str, int]],
    topics: TopicsImage,
    *,
    by_id: bool,
) -> list[OffsetFetchResponseTopics]:
    """All that a group has. Where topics go by id, those that are gone cannot be told."""
    answers: list[OffsetFetchResponseTopics] = []
    for name, partitions in stored.items():
        topic = topics.get(name) if by_id else None
        if by_id and topic is None:
            continue
        answers.append(
            OffsetFetchResponseTopics(
                name=name,
                topic_id=ZERO_UUID if topic is None else topic.topic_id,
                partitions=[
                    _refuse(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
                    if (name, index) in unstable
                    else _tell(index, found)
                    for index, found in partitions.items()
                ],
            )
        )
    return answers


def tell_some(
    group_id: str,
    topic: OffsetFetchRequestTopics,
    unstable: Container[tuple[str, int]],
    topics: TopicsImage,
    look_up: Callable[[str, str, int], OffsetCommitValue | None],
) -> OffsetFetchResponseTopics:
    """The partitions of a topic that were asked for, by name or by id."""
    name, topic_id = topic.name, topic.topic_id
    if topic_id != ZERO_UUID:
        name = topics.names_by_id.get(topic_id, "")
    partitions: list[OffsetFetchResponsePartitions] = []
    for index in topic.partition_indexes:
        if not name:
            partitions.append(_refuse(index, ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        if (name, index) in unstable:
            partitions.append(_refuse(index, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            continue
        stored = look_up(group_id, name, index)
        if stored is not None and ZERO_UUID != topic_id != stored.topic_id != ZERO_UUID:
            stored = None  # of an older topic of the same name
        partitions.append(_tell(index, stored))
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic_id, partitions=partitions)


def _tell(index: int, stored: OffsetCommitValue | None) -> OffsetFetchResponsePartitions:
    if stored is None:
        return _refuse(index, ErrorCode.NONE)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=stored.offset,
        committed_leader_epoch=stored.leader_epoch,
        metadata=stored.metadata,
    )


def _refuse(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    """No offset, and why; that there is none is no error."""
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error
    )
