"""One write of committed offsets, from one or more OffsetCommit requests of a member.

The group has checked already that the member may commit. Here, unknown partitions get an error each; if the group
refuses a partition, the whole request is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from penstock.coordinator.group.group import PartitionCheck
from penstock.coordinator.group.records.offsets import (
    LAST_TIMESTAMP,
    OffsetCommitKey,
    OffsetCommitKeys,
    OffsetCommitValue,
)
from penstock.coordinator.result import NEWEST, CoordinatorRecord
from penstock.metadata.image import MetadataImage, TopicImage, TopicsImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from penstock.records.batch import NO_TIMESTAMP

ONE_TIME_VERSION = 5
"""From this version on, all partitions of a commit have one timestamp, and the broker sets the retention."""
COMMIT_BY_ID_VERSION = 10

EXPIRING_VALUE_VERSION = 1
"""The only version of the record that has an expiration timestamp."""

DEFAULT_RETENTION = -1

_new = object.__new__


class OffsetCommit:
    """One write for `group_id`, from requests of one `version`. `check` comes from the group."""

    __slots__ = ("_by_topic", "_check", "_group_id", "_image", "_is_too_long", "_now_ms", "_version")

    def __init__(
        self,
        group_id: str,
        image: MetadataImage,
        check: PartitionCheck | None,
        is_too_long: Callable[[str], bool],
        *,
        version: int,
        now_ms: int,
    ) -> None:
        self._group_id = group_id
        self._image = image
        self._check = check
        self._is_too_long = is_too_long
        self._version = version
        self._now_ms = now_ms
        self._by_topic: dict[str, tuple[list[int], list[OffsetCommitValue]]] = {}
        """Partitions and their offsets, in the order of the requests."""

    def add(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        """The response, to be sent when the records are committed. `Refused` for the whole request."""
        version, check, now_ms = self._version, self._check, self._now_ms
        expire_ms = NO_TIMESTAMP
        if request.retention_time_ms != DEFAULT_RETENTION:
            expire_ms = min(now_ms + request.retention_time_ms, LAST_TIMESTAMP)
        accepted: list[tuple[str, list[int], list[OffsetCommitValue]]] = []
        topics: list[OffsetCommitResponseTopic] = []
        for topic in request.topics:
            found, unknown = _find_topic(self._image.topics, topic, version)
            partition_count = 0 if found is None else len(found.partitions)
            partitions: list[OffsetCommitResponsePartition] = []
            indexes: list[int] = []
            values: list[OffsetCommitValue] = []
            for partition in topic.partitions:
                index, metadata = partition.partition_index, partition.committed_metadata
                if found is None or not 0 <= index < partition_count:
                    partitions.append(
                        OffsetCommitResponsePartition(partition_index=index, error_code=unknown)
                    )
                    continue
                if metadata and self._is_too_long(metadata):
                    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                    partitions.append(OffsetCommitResponsePartition(partition_index=index, error_code=error))
                    continue
                if check is not None:
                    check(found.topic_id, index)
                committed_ms = partition.commit_timestamp
                # Stores into slots take a third of the time of the constructor: bench `commits50`.
                value = _new(OffsetCommitValue)
                value.offset = partition.committed_offset
                value.leader_epoch = partition.committed_leader_epoch
                value.metadata = metadata or ""
                value.commit_timestamp = now_ms if committed_ms == NO_TIMESTAMP else committed_ms
                value.expire_timestamp = expire_ms
                value.topic_id = found.topic_id
                indexes.append(index)
                values.append(value)
                partitions.append(_accepted(index))
            if found is not None and values:
                accepted.append((found.name, indexes, values))
            topics.append(
                OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
            )
        for name, indexes, values in accepted:
            earlier_indexes, earlier_values = self._by_topic.setdefault(name, (indexes, values))
            if earlier_indexes is not indexes:
                earlier_indexes += indexes
                earlier_values += values
        return OffsetCommitResponse(topics=topics)

    def records(self) -> list[CoordinatorRecord]:
        records: list[CoordinatorRecord] = []
        for topic, (indexes, values) in self._by_topic.items():
            if self._version >= ONE_TIME_VERSION and len(indexes) > 1:
                records.append(CoordinatorRecord(OffsetCommitKeys(self._group_id, topic, indexes), values))
                continue
            for index, value in zip(indexes, values, strict=True):
                key = OffsetCommitKey(group=self._group_id, topic=topic, partition=index)
                version = NEWEST if value.expire_timestamp == NO_TIMESTAMP else EXPIRING_VALUE_VERSION
                records.append(CoordinatorRecord(key, value, version))
        return records


def refuse_commit(
    request: OffsetCommitRequest, error: ErrorCode, *, image: MetadataImage, version: int
) -> OffsetCommitResponse:
    """The same error for all partitions that exist."""
    topics: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        found, unknown = _find_topic(image.topics, topic, version)
        partition_count = 0 if found is None else len(found.partitions)
        topics.append(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=error if 0 <= partition.partition_index < partition_count else unknown,
                    )
                    for partition in topic.partitions
                ],
            )
        )
    return OffsetCommitResponse(topics=topics)


@lru_cache(maxsize=1 << 12)
def _accepted(index: int) -> OffsetCommitResponsePartition:
    """Shared by all responses, because it is never changed: bench `commits50`."""
    return OffsetCommitResponsePartition(partition_index=index, error_code=ErrorCode.NONE)


def _find_topic(
    topics: TopicsImage, topic: OffsetCommitRequestTopic, version: int
) -> tuple[TopicImage | None, ErrorCode]:
    """The topic, and the error for partitions that it does not have."""
    if version < COMMIT_BY_ID_VERSION:
        return topics.get(topic.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = topics.with_id(topic.topic_id)
    return found, ErrorCode.UNKNOWN_TOPIC_ID if found is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
