"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete.

The group checks the member (`Group.check_offset_commit`), `commit` checks the partitions. A commit without a
generation to an unknown group creates it: consumers that assign partitions themselves never join. Offsets are removed
by OffsetDelete, with their topic, with their group, or when they expire (`expiration`).

OffsetFetch returns committed state. If the client requires stable offsets, it waits for uncommitted writes, and
returns UNSTABLE_OFFSET_COMMIT for partitions with offsets in open transactions (`transactional_commit`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import intern
from typing import Any

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.group import Group
from penstock.coordinator.group.offsets.commit import OffsetCommit, refuse_commit
from penstock.coordinator.group.offsets.expiration import OffsetExpiry, tombstone
from penstock.coordinator.group.offsets.pending import PendingOffsets
from penstock.coordinator.group.offsets.responses import respond_with_all, respond_with_topic
from penstock.coordinator.group.offsets.table import OffsetTable
from penstock.coordinator.group.records.offsets import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitKeys,
    OffsetCommitValue,
)
from penstock.coordinator.result import CoordinatorRecord, CoordinatorResult
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.errors import Refused
from penstock.metadata.image import MetadataImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
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
"""Of OffsetCommit: older versions return ILLEGAL_GENERATION if the group does not exist."""
FETCH_BY_ID_VERSION = 10


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
        """No response is pending here."""

    # -- OffsetCommit

    def commit(
        self, request: OffsetCommitRequest, *, version: int
    ) -> CoordinatorResult[OffsetCommitResponse]:
        image = self._context.dependencies.image()
        try:
            commit = self._begin_commit(request, image, version)
            response = commit.add(request)
        except Refused as refusal:
            return CoordinatorResult(refuse_commit(request, refusal.error, image=image, version=version))
        return CoordinatorResult(response, commit.records())

    def commit_all(
        self, requests: Sequence[OffsetCommitRequest], *, version: int
    ) -> CoordinatorResult[list[OffsetCommitResponse]]:
        """`commit` for consecutive requests of one member, in one write.

        The result is the same as if each were replayed before the next: commits only change offsets, which no commit
        reads. A commit without a generation to an unknown group creates an empty one, which accepts the next commit.
        """
        image = self._context.dependencies.image()

        def refuse(request: OffsetCommitRequest, refusal: Refused) -> OffsetCommitResponse:
            return refuse_commit(request, refusal.error, image=image, version=version)

        try:
            commit = self._begin_commit(requests[0], image, version)
        except Refused as refusal:
            return CoordinatorResult([refuse(request, refusal) for request in requests])
        responses: list[OffsetCommitResponse] = []
        for request in requests:
            try:
                responses.append(commit.add(request))
            except Refused as refusal:
                responses.append(refuse(request, refusal))
        return CoordinatorResult(responses, commit.records())

    def _begin_commit(self, request: OffsetCommitRequest, image: MetadataImage, version: int) -> OffsetCommit:
        """`Refused` if the member may not commit."""
        group_id, check = request.group_id, None
        group = self._context.groups.get(group_id)
        if group is not None:
            check = group.check_offset_commit(
                member_id=request.member_id,
                instance_id=request.group_instance_id,
                generation_or_epoch=request.generation_id_or_member_epoch,
                is_transactional=False,
                version=version,
            )
        elif request.generation_id_or_member_epoch >= 0:
            raise Refused(
                ErrorCode.GROUP_ID_NOT_FOUND
                if version >= GROUP_NOT_FOUND_VERSION
                else ErrorCode.ILLEGAL_GENERATION,
                f"the group {group_id} does not exist",
            )
        now_ms = self._context.wall_ms()
        return OffsetCommit(group_id, image, check, self.is_too_long, version=version, now_ms=now_ms)

    def is_too_long(self, metadata: str) -> bool:
        length_max: int = self._context.dependencies.settings().get("offset.metadata.max.bytes")
        return _length_in_java(metadata) > length_max

    # -- OffsetFetch

    def fetch(
        self, request: OffsetFetchRequestGroup, *, require_stable: bool, version: int
    ) -> OffsetFetchResponseGroup:
        """Committed offsets; with `require_stable` the newest ones, to be returned when they are committed. `Refused`
        for the whole group."""
        group_id = request.group_id
        groups = self._context.groups
        newest = groups.get(group_id)
        group = newest if require_stable else groups.committed(group_id)
        may_fetch = _may_fetch(group, request)
        if group is not newest and group is not None and not may_fetch:
            # While a change of type or a deletion is not committed, the committed group is dead.
            may_fetch = newest is None or _may_fetch(newest, request)
        table = self.table if may_fetch else OffsetTable(self._context.timeline)
        unstable = self.pending.of_group(group_id) if require_stable else ()
        topics_image = self._context.dependencies.image().topics
        if request.topics is None:
            stored = table.of_group(group_id) if require_stable else table.committed_of_group(group_id)
            topics = respond_with_all(stored, unstable, topics_image, by_id=version >= FETCH_BY_ID_VERSION)
        else:
            look_up = table.get if require_stable else table.committed
            topics = [
                respond_with_topic(group_id, topic, unstable, topics_image, look_up)
                for topic in request.topics
            ]
        return OffsetFetchResponseGroup(group_id=group_id, topics=topics)

    # -- deleting

    def delete(self, request: OffsetDeleteRequest) -> CoordinatorResult[OffsetDeleteResponse]:
        """`Refused` for the whole group."""
        group_id = request.group_id
        group = self._context.groups.get(group_id)
        if group is None:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"the group {group_id} does not exist")
        group.check_offset_delete()
        image = self._context.dependencies.image()
        records: list[CoordinatorRecord] = []
        topics: list[OffsetDeleteResponseTopic] = []
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
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
        return CoordinatorResult(OffsetDeleteResponse(topics=topics), records)

    def _has_any(self, group_id: str, topic: str, partition: int) -> bool:
        return self.table.get(group_id, topic, partition) is not None or self.pending.has(
            group_id, topic, partition
        )

    def delete_all(self, group_id: str) -> list[CoordinatorRecord]:
        """The records that remove all offsets of a group, with those in open transactions."""
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
        """The records that remove the offsets of deleted topics, but not those of a new topic with the same name."""
        orphaned = {
            (group_id, deleted.name, partition): None
            for change in delta.topics.values()
            if change.is_deleted and (deleted := change.before) is not None
            for group_id, partition, stored in (
                *self.table.of_topic(deleted.name),
                *self.pending.of_topic(deleted.name),
            )
            if stored.topic_id in (ZERO_UUID, deleted.topic_id)
        }
        return [tombstone(*where) for where in orphaned]

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
        """Offsets of one topic, by partition."""
        self.ensure_group(group_id)
        # Interned, because every offset has the name of its topic.
        self.table.put_all(group_id, intern(topic), stored)
        if self.pending:
            for partition in stored:
                self.pending.supersede(group_id, topic, partition)

    def ensure_group(self, group_id: str) -> None:
        """A commit to an unknown group creates a group without members."""
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


def _may_fetch(group: Group | None, request: OffsetFetchRequestGroup) -> bool:
    """False if the group does not exist: it has no offsets, which is not an error."""
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
    """In UTF-16 units, as in Kafka, although the setting is in bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
