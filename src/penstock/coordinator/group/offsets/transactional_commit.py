"""TxnOffsetCommit: offsets that a producer commits in its transaction, together with its records.

The records are those of plain commits, written as a transactional batch of the producer. They are pending
(`PendingOffsets`) until the transaction marker.

Versions before 3 do not have the member that the producer commits for. There, only the fencing of its producer keeps a
member that lost its partitions from committing (KIP-447).
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern

from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.group import PartitionCheck
from penstock.coordinator.group.offsets.offsets import Offsets
from penstock.coordinator.group.records.offsets import OffsetCommitKey, OffsetCommitValue
from penstock.coordinator.result import CoordinatorRecord, CoordinatorResult, Guard, ProducerIdentity
from penstock.coordinator.serde import CorruptRecord
from penstock.metadata.errors import Refused
from penstock.metadata.image import MetadataImage, TopicImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

LOADING_VERSION = 2
"""Of TxnOffsetCommit: older versions do not have COORDINATOR_LOAD_IN_PROGRESS."""


class TransactionalCommits:
    def __init__(self, context: GroupContext, offsets: Offsets) -> None:
        self._context = context
        self._offsets = offsets

    def commit(
        self, request: TxnOffsetCommitRequest, *, version: int, guard: Guard | None = None
    ) -> CoordinatorResult[TxnOffsetCommitResponse]:
        """`guard` is the verification guard of the log, if the transaction had to be verified."""
        image = self._context.dependencies.image()
        group_id, now_ms = request.group_id, self._context.wall_ms()
        records: list[CoordinatorRecord] = []

        def add(topic: TopicImage, partition: TxnOffsetCommitRequestPartition) -> ErrorCode:
            index, metadata = partition.partition_index, partition.committed_metadata
            if metadata and self._offsets.is_too_long(metadata):
                return ErrorCode.OFFSET_METADATA_TOO_LARGE
            if check is not None:
                check(topic.topic_id, index)
            value = OffsetCommitValue(
                offset=partition.committed_offset,
                leader_epoch=partition.committed_leader_epoch,
                metadata=metadata or "",
                commit_timestamp=now_ms,
                topic_id=topic.topic_id,
            )
            key = OffsetCommitKey(group=group_id, topic=topic.name, partition=index)
            records.append(CoordinatorRecord(key, value))
            return ErrorCode.NONE

        try:
            check = self._check(request, version)
            response = _respond(request, image, add)
        except Refused as refusal:
            return CoordinatorResult(refuse(request, refusal.error, image=image, version=version))
        producer = ProducerIdentity(request.producer_id, request.producer_epoch, guard)
        return CoordinatorResult(response, records, producer=producer)

    def _check(self, request: TxnOffsetCommitRequest, version: int) -> PartitionCheck | None:
        group = self._context.groups.get(request.group_id)
        if group is not None:
            return group.check_offset_commit(
                member_id=request.member_id,
                instance_id=request.group_instance_id,
                generation_or_epoch=request.generation_id,
                is_transactional=True,
                version=version,
            )
        if request.generation_id >= 0:
            raise Refused(ErrorCode.ILLEGAL_GENERATION, f"the group {request.group_id} does not exist")
        return None

    # -- replay

    def replay(self, producer_id: int, key: object, value: object) -> None:
        """Replay a record of an open transaction."""
        if not isinstance(key, OffsetCommitKey) or not isinstance(value, OffsetCommitValue):
            raise CorruptRecord(f"producer {producer_id} has a {type(key).__name__} in its transaction")
        self._offsets.ensure_group(key.group)
        self._offsets.pending.put(producer_id, key.group, intern(key.topic), key.partition, value)

    def ended(self, producer_id: int, *, is_commit: bool) -> None:
        for applied in self._offsets.pending.end(producer_id, is_commit=is_commit):
            self._offsets.table.put(*applied)


def has_known_partitions(request: TxnOffsetCommitRequest, image: MetadataImage) -> bool:
    """Whether any of the partitions exists."""
    return any(
        image.topics.partition(topic.name, partition.partition_index) is not None
        for topic in request.topics
        for partition in topic.partitions
    )


def refuse(
    request: TxnOffsetCommitRequest, error: ErrorCode, *, image: MetadataImage, version: int
) -> TxnOffsetCommitResponse:
    """The same error for all partitions that exist."""
    if error is ErrorCode.STALE_MEMBER_EPOCH:
        error = ErrorCode.ILLEGAL_GENERATION  # producers only know generations
    elif error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_VERSION:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return _respond(request, image, lambda topic, partition: error)


def _respond(
    request: TxnOffsetCommitRequest,
    image: MetadataImage,
    decide: Callable[[TopicImage, TxnOffsetCommitRequestPartition], ErrorCode],
) -> TxnOffsetCommitResponse:
    """With the error that `decide` returns for each existing partition."""
    topics: list[TxnOffsetCommitResponseTopic] = []
    for topic in request.topics:
        found = image.topics.get(topic.name)
        partition_count = 0 if found is None else len(found.partitions)
        topics.append(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=decide(found, partition)
                        if found is not None and 0 <= partition.partition_index < partition_count
                        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    )
                    for partition in topic.partitions
                ],
            )
        )
    return TxnOffsetCommitResponse(topics=topics)
