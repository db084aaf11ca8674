"""Offsets that a producer commits in a transaction (TxnOffsetCommit), and what becomes of them when it ends.

Whoever consumes, transforms and produces commits what it has read together with what it made of that: both hold, or
neither. The records are those of plain commits, written as a batch of the producer. Until its marker comes they are
pending (`PendingOffsets`).

Producers of versions before 3 do not say which member they commit for, so nothing keeps a member that lost its
partitions from committing but the fencing of its producer (KIP-447).
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern

from penstock.coordinator.framing import CorruptRecord
from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.group import PartitionCheck
from penstock.coordinator.group.offsets import Offsets
from penstock.coordinator.group.records.offsets import OffsetCommitKey, OffsetCommitValue
from penstock.coordinator.outcome import CoordinatorRecord, Guard, Outcome, ProducerIdentity
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
"""Of TxnOffsetCommit: older producers do not know COORDINATOR_LOAD_IN_PROGRESS."""


class TransactionalCommits:
    def __init__(self, context: GroupContext, offsets: Offsets) -> None:
        self._context = context
        self._offsets = offsets

    def commit(
        self, request: TxnOffsetCommitRequest, *, version: int, guard: Guard | None = None
    ) -> Outcome[TxnOffsetCommitResponse]:
        """`guard` is what the log gave out before the transaction's coordinator was asked, if it had to be asked."""
        image = self._context.around.image()
        group_id, now_ms = request.group_id, self._context.wall_ms()
        records: list[CoordinatorRecord] = []

        def take(topic: TopicImage, partition: TxnOffsetCommitRequestPartition) -> ErrorCode:
            index, note = partition.partition_index, partition.committed_metadata
            if note and self._offsets.is_too_long(note):
                return ErrorCode.OFFSET_METADATA_TOO_LARGE
            if check is not None:
                check(topic.topic_id, index)
            value = OffsetCommitValue(
                offset=partition.committed_offset,
                leader_epoch=partition.committed_leader_epoch,
                metadata=note or "",
                commit_timestamp=now_ms,
                topic_id=topic.topic_id,
            )
            key = OffsetCommitKey(group=group_id, topic=topic.name, partition=index)
            records.append(CoordinatorRecord(key, value))
            return ErrorCode.NONE

        try:
            check = self._check(request, version)
            response = _answer(request, image, take)
        except Refused as refusal:
            return Outcome(refuse(request, refusal.error, image=image, version=version))
        producer = ProducerIdentity(request.producer_id, request.producer_epoch, guard)
        return Outcome(response, records, producer=producer)

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
        """A record of an open transaction."""
        if not isinstance(key, OffsetCommitKey) or not isinstance(value, OffsetCommitValue):
            raise CorruptRecord(f"producer {producer_id} has a {type(key).__name__} in its transaction")
        self._offsets.ensure_group(key.group)
        self._offsets.pending.put(producer_id, key.group, intern(key.topic), key.partition, value)

    def ended(self, producer_id: int, *, is_commit: bool) -> None:
        for applied in self._offsets.pending.end(producer_id, is_commit=is_commit):
            self._offsets.table.put(*applied)


def has_known_partitions(request: TxnOffsetCommitRequest, image: MetadataImage) -> bool:
    """Whether there is anything to commit."""
    return any(
        image.topics.partition(topic.name, partition.partition_index) is not None
        for topic in request.topics
        for partition in topic.partitions
    )


def refuse(
    request: TxnOffsetCommitRequest, error: ErrorCode, *, image: MetadataImage, version: int
) -> TxnOffsetCommitResponse:
    """The same error for all partitions, but for those that do not exist."""
    if error is ErrorCode.STALE_MEMBER_EPOCH:
        error = ErrorCode.ILLEGAL_GENERATION  # producers know of generations alone
    elif error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_VERSION:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return _answer(request, image, lambda topic, partition: error)


def _answer(
    request: TxnOffsetCommitRequest,
    image: MetadataImage,
    decide: Callable[[TopicImage, TxnOffsetCommitRequestPartition], ErrorCode],
) -> TxnOffsetCommitResponse:
    """What `decide` says of each partition that exists."""
    answers: list[TxnOffsetCommitResponseTopic] = []
    for topic in request.topics:
        found = image.topics.get(topic.name)
        partition_count = 0 if found is None else len(found.partitions)
        answers.append(
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
    return TxnOffsetCommitResponse(topics=answers)
