"""How far groups have read: commits, and questions about them.

A commit is decided by the group that it names (`Group.check_offset_commit`) and by the metadata; it becomes one
record for each partition. A group that is not there is made by the first commit that comes without a generation:
consumers that assign their partitions themselves have no other sign of life. Offsets go when somebody deletes
them, with their topic, with their group, or when their time has come (`offset_expiry`).

Questions are answered from committed state, unless they ask for stable offsets: those wait for what is being
written, and are told of offsets in open transactions, which `transactional_commit` takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from sys import intern
from typing import Any

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.group import Group, PartitionCheck
from penstock.coordinator.group.offset_answers import tell_all, tell_some
from penstock.coordinator.group.offset_expiry import OffsetExpiry, tombstone
from penstock.coordinator.group.offset_table import OffsetTable
from penstock.coordinator.group.pending_offsets import PendingOffsets
from penstock.coordinator.group.records.offsets import (
    LAST_TIMESTAMP,
    NO_TIMESTAMP,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitKeys,
    OffsetCommitValue,
    merge_blocks,
)
from penstock.coordinator.outcome import NEWEST, CoordinatorRecord, Outcome
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.errors import Refused
from penstock.metadata.image import MetadataImage, TopicImage, TopicsImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
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
from penstock.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from penstock.protocol.types import ZERO_UUID

GROUP_NOT_FOUND_VERSION = 9
"""From here on a commit to a group that is not there is told so; older clients know ILLEGAL_GENERATION alone."""
ONE_TIME_VERSION = 5
"""From here on all partitions of a commit have one timestamp, and expire by the broker's setting."""
COMMIT_BY_ID_VERSION = FETCH_BY_ID_VERSION = 10

EXPIRING_VALUE_VERSION = 1
"""The only version of the record that can say when an offset expires."""

DEFAULT_RETENTION = -1

_new = object.__new__


class Offsets:
    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self.table = OffsetTable(context.timeline)
        self.pending = PendingOffsets()
        self.expiry = OffsetExpiry(context, self.table, self.pending)
        self.replays: dict[type, Callable[[Any, Any], None]] = {
            OffsetCommitKey: self._replay,
            OffsetCommitKeys: self._replay_all,
            LegacyOffsetCommitKey: self._replay_legacy,
        }

    def loaded(self) -> None:
        self.expiry.start()

    def unloaded(self) -> None:
        """Nobody waits here."""

    # -- OffsetCommit

    def commit(self, request: OffsetCommitRequest, *, version: int) -> Outcome[OffsetCommitResponse]:
        """What does not exist is refused for itself; all else is committed, or nothing."""
        image, now_ms = self._context.around.image(), self._context.wall_ms()
        try:
            check = self._check_commit(request, version)
            response, records = self._commit(request, image, version, check, now_ms)
        except Refused as refusal:
            return Outcome(refuse_commit(request, refusal.error, image=image, version=version))
        return Outcome(response, records)

    def commit_all(
        self, requests: Sequence[OffsetCommitRequest], *, version: int
    ) -> Outcome[list[OffsetCommitResponse]]:
        """`commit` for requests of one member that came one after the other, in one write.

        Each is decided as if those before it were replayed, because what the member may do is the same after them: they
        change offsets, which no commit looks at. Those that come without a generation to a group that is not there
        yet would find one that is empty, and may commit there, too.
        """
        image, now_ms = self._context.around.image(), self._context.wall_ms()

        def refuse(request: OffsetCommitRequest, refusal: Refused) -> OffsetCommitResponse:
            return refuse_commit(request, refusal.error, image=image, version=version)

        try:
            check = self._check_commit(requests[0], version)
        except Refused as refusal:
            return Outcome([refuse(request, refusal) for request in requests])
        responses: list[OffsetCommitResponse] = []
        records: list[CoordinatorRecord] = []
        for request in requests:
            try:
                response, written = self._commit(request, image, version, check, now_ms)
            except Refused as refusal:
                response, written = refuse(request, refusal), []
            responses.append(response)
            records += written
        return Outcome(responses, merge_blocks(records) if version >= ONE_TIME_VERSION else records)

    def _check_commit(self, request: OffsetCommitRequest, version: int) -> PartitionCheck | None:
        group = self._context.groups.get(request.group_id)
        if group is not None:
            return group.check_offset_commit(
                member_id=request.member_id,
                instance_id=request.group_instance_id,
                generation_or_epoch=request.generation_id_or_member_epoch,
                is_transactional=False,
                version=version,
            )
        if request.generation_id_or_member_epoch < 0:
            return None
        raise Refused(
            ErrorCode.GROUP_ID_NOT_FOUND
            if version >= GROUP_NOT_FOUND_VERSION
            else ErrorCode.ILLEGAL_GENERATION,
            f"there is no group {request.group_id}",
        )

    def _commit(
        self,
        request: OffsetCommitRequest,
        image: MetadataImage,
        version: int,
        check: PartitionCheck | None,
        now_ms: int,
    ) -> tuple[OffsetCommitResponse, list[CoordinatorRecord]]:
        group_id = request.group_id
        expire_ms, value_version = NO_TIMESTAMP, NEWEST
        if request.retention_time_ms != DEFAULT_RETENTION:
            expire_ms = min(now_ms + request.retention_time_ms, LAST_TIMESTAMP)
            value_version = EXPIRING_VALUE_VERSION
        records: list[CoordinatorRecord] = []
        answers: list[OffsetCommitResponseTopic] = []
        for topic in request.topics:
            found, unknown = _find_topic(image.topics, topic, version)
            partition_count = 0 if found is None else len(found.partitions)
            answered: list[OffsetCommitResponsePartition] = []
            indexes: list[int] = []
            values: list[OffsetCommitValue] = []
            for partition in topic.partitions:
                index, note = partition.partition_index, partition.committed_metadata
                if found is None or not 0 <= index < partition_count:
                    answered.append(OffsetCommitResponsePartition(partition_index=index, error_code=unknown))
                    continue
                if note and self.is_too_long(note):
                    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                    answered.append(OffsetCommitResponsePartition(partition_index=index, error_code=error))
                    continue
                if check is not None:
                    check(found.topic_id, index)
                committed_ms = partition.commit_timestamp
                # Stores into slots take a third of the time of the constructor: bench `commits50`.
                value = _new(OffsetCommitValue)
                value.offset = partition.committed_offset
                value.leader_epoch = partition.committed_leader_epoch
                value.metadata = note or ""
                value.commit_timestamp = now_ms if committed_ms == NO_TIMESTAMP else committed_ms
                value.expire_timestamp = expire_ms
                value.topic_id = found.topic_id
                indexes.append(index)
                values.append(value)
                answered.append(_accepted(index))
            if found is not None and values:
                keys = OffsetCommitKeys(group_id, found.name, indexes)
                if version >= ONE_TIME_VERSION:
                    records.append(CoordinatorRecord(keys, values))
                else:
                    records += [
                        CoordinatorRecord(key, value, value_version)
                        for key, value in zip(keys.single(), values, strict=True)
                    ]
            answers.append(
                OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answered)
            )
        return OffsetCommitResponse(topics=answers), records

    def is_too_long(self, note: str) -> bool:
        length_max: int = self._context.around.settings().get("offset.metadata.max.bytes")
        return _length_in_java(note) > length_max

    # -- OffsetFetch

    def fetch(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool, version: int
    ) -> OffsetFetchResponseGroup:
        """What is committed, or with `require_stable` the newest, to be told when that is committed too. `Refused` for
        the group as a whole."""
        group_id = request.group_id
        groups = self._context.groups
        newest = groups.get(group_id)
        group = newest if require_stable else groups.committed(group_id)
        may_fetch = _may_fetch(group, request)
        if group is not newest and group is not None and not may_fetch:
            # A group that takes another type is dead as what it was before it is committed as what it will be.
            may_fetch = _may_fetch(newest, request)
        table = self.table if may_fetch else OffsetTable(self._context.timeline)
        unstable = self.pending.of_group(group_id) if require_stable else ()
        topics_image = self._context.around.image().topics
        if request.topics is None:
            stored = table.of_group(group_id) if require_stable else table.committed_of_group(group_id)
            answers = tell_all(stored, unstable, topics_image, by_id=version >= FETCH_BY_ID_VERSION)
        else:
            look_up = table.get if require_stable else table.committed
            answers = [
                tell_some(group_id, topic, unstable, topics_image, look_up) for topic in request.topics
            ]
        return OffsetFetchResponseGroup(group_id=group_id, topics=answers)

    # -- deleting

    def delete(self, request: OffsetDeleteRequest) -> Outcome[OffsetDeleteResponse]:
        """`Refused` for the group as a whole."""
        group_id = request.group_id
        group = self._context.groups.get(group_id)
        if group is None:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        group.check_offset_delete()
        image = self._context.around.image()
        records: list[CoordinatorRecord] = []
        answers: list[OffsetDeleteResponseTopic] = []
        for topic in request.topics:
            is_subscribed = group.is_subscribed_to(topic.name)
            partitions: list[OffsetDeleteResponsePartition] = []
            for partition in topic.partitions:
                index, error = partition.partition_index, ErrorCode.NONE
                if image.topics.partition(topic.name, index) is None:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif is_subscribed:
                    error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                elif self._has_any(group_id, topic.name, index):
                    records.append(tombstone(group_id, topic.name, index))
                partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
            answers.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
        return Outcome(OffsetDeleteResponse(topics=answers), records)

    def _has_any(self, group_id: str, topic: str, partition: int) -> bool:
        return self.table.get(group_id, topic, partition) is not None or self.pending.has(
            group_id, topic, partition
        )

    def delete_all(self, group_id: str) -> list[CoordinatorRecord]:
        """The records that remove all offsets of a group, those of open transactions with them."""
        stored = (
            (topic, partition)
            for topic, partitions in self.table.of_group(group_id).items()
            for partition in partitions
        )
        return [
            tombstone(group_id, *where)
            for where in dict.fromkeys((*stored, *self.pending.of_group(group_id)))
        ]

    def metadata_changed(self, delta: MetadataDelta) -> list[CoordinatorRecord]:
        """The records that remove the offsets of deleted topics. A newer topic of the same name keeps its own."""
        gone = {
            (group_id, deleted.name, partition): None
            for change in delta.topics.values()
            if change.is_deleted and (deleted := change.before) is not None
            for group_id, partition, stored in (
                *self.table.of_topic(deleted.name),
                *self.pending.of_topic(deleted.name),
            )
            if stored.topic_id in (ZERO_UUID, deleted.topic_id)
        }
        return [tombstone(*where) for where in gone]

    # -- replay

    def _replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        group_id, topic, partition = key.group, key.topic, key.partition
        if value is not None:
            self._put(group_id, topic, {partition: value})
            return
        self.table.remove(group_id, topic, partition)
        if self.pending:
            self.pending.remove(group_id, topic, partition)

    def _replay_all(self, keys: OffsetCommitKeys, values: list[OffsetCommitValue]) -> None:
        self._put(keys.group, keys.topic, dict(zip(keys.partitions, values, strict=True)))

    def _put(self, group_id: str, topic: str, stored: dict[int, OffsetCommitValue]) -> None:
        """Of one topic, by partition."""
        self.ensure_group(group_id)
        # A topic's name comes with every offset, and should not be kept as often.
        self.table.put_all(group_id, intern(topic), stored)
        if self.pending:
            for partition in stored:
                self.pending.overtake(group_id, topic, partition)

    def ensure_group(self, group_id: str) -> None:
        """Whoever commits for a group that nobody has joined makes one without members."""
        groups = self._context.groups
        if group_id not in groups:
            groups[group_id] = ClassicGroup(self._context, group_id)

    def _replay_legacy(self, key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None) -> None:
        self._replay(
            OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition),
            None
            if value is None
            else OffsetCommitValue(
                offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
            ),
        )


def refuse_commit(
    request: OffsetCommitRequest, error: ErrorCode, *, image: MetadataImage, version: int
) -> OffsetCommitResponse:
    """The same error for all partitions, but for those that do not exist."""
    answers: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        found, unknown = _find_topic(image.topics, topic, version)
        partition_count = 0 if found is None else len(found.partitions)
        answers.append(
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
    return OffsetCommitResponse(topics=answers)


@lru_cache(maxsize=1 << 12)
def _accepted(index: int) -> OffsetCommitResponsePartition:
    """For all answers to share, because nobody changes one: bench `commits50`."""
    return OffsetCommitResponsePartition(partition_index=index, error_code=ErrorCode.NONE)


def _find_topic(
    topics: TopicsImage, topic: OffsetCommitRequestTopic, version: int
) -> tuple[TopicImage | None, ErrorCode]:
    """The topic, and what to answer for partitions that it does not have."""
    if version < COMMIT_BY_ID_VERSION:
        return topics.get(topic.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = topics.with_id(topic.topic_id)
    return found, ErrorCode.UNKNOWN_TOPIC_ID if found is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _may_fetch(group: Group | None, request: OffsetFetchRequestGroup) -> bool:
    """False where there is no such group, which then has no offsets either; that is no error."""
    if group is None:
        return False
    try:
        group.check_offset_fetch(member_id=request.member_id, member_epoch=request.member_epoch)
    except Refused as refusal:
        if refusal.error is ErrorCode.GROUP_ID_NOT_FOUND:
            return False
        raise
    return True


def _length_in_java(text: str) -> int:
    """In UTF-16 units, by which Kafka measures in spite of the setting's name."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
