"""Offsets without a broker, with classic groups, and a group that accepts or refuses as the test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.datapath import Cluster, topic_id_of
from harness.groups import GroupHarness
from penstock.coordinator.group.administration import Administration
from penstock.coordinator.group.classic.groups import ClassicGroups
from penstock.coordinator.group.group import Group, GroupType, PartitionCheck
from penstock.coordinator.group.offsets.offsets import Offsets
from penstock.coordinator.group.records import BLOCKS, TYPES
from penstock.coordinator.result import CoordinatorRecord
from penstock.coordinator.serde import RecordSerde
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
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
)
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)

GROUP = "readers"
COMMIT_VERSION = 9
FETCH_VERSION = 9

FetchedOffset = tuple[int, int, str, ErrorCode]
"""Of a partition: offset, leader epoch, metadata, error."""


class OffsetHarness(GroupHarness):
    """Topics "orders" with 3 partitions and "payments" with 1. Every record is encoded and decoded."""

    def __init__(self, properties: dict[str, str] | None = None) -> None:
        self._properties = properties
        self.cluster = Cluster()
        self.cluster.add_topic("orders", partitions=3)
        self.cluster.add_topic("payments")
        framing = RecordSerde(TYPES, blocks=BLOCKS)
        super().__init__(properties, image=self.cluster.metadata.image, framing=framing)
        self.offsets = Offsets(self.context)
        self.classic = ClassicGroups(self.context)
        self.administration = Administration(self.context, self.offsets, self.classic)
        self.parts = [self.offsets, self.classic]
        self.cluster.metadata.subscribe(self._metadata_changed)

    def _metadata_changed(self, delta: object) -> None:
        self.image = self.cluster.metadata.image

    def reloaded(self) -> OffsetHarness:
        """Another node that has loaded the log after compaction."""
        other = OffsetHarness(self._properties)
        other.cluster, other.image, other.clock_ms = self.cluster, self.image, self.clock_ms
        other.load(self.compacted())
        return other


def commit_request(
    offsets: Mapping[str, Mapping[int, int]],
    *,
    group: str = GROUP,
    member: str = "",
    generation: int = -1,
    by_id: bool = False,
    metadata: str | None = "",
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        member_id=member,
        generation_id_or_member_epoch=generation,
        topics=[
            OffsetCommitRequestTopic(
                **({"topic_id": topic_id_of(topic)} if by_id else {"name": topic}),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offset, committed_metadata=metadata
                    )
                    for index, offset in partitions.items()
                ],
            )
            for topic, partitions in offsets.items()
        ],
    )


def commit(harness: OffsetHarness, offsets: Mapping[str, Mapping[int, int]], *, group: str = GROUP) -> None:
    """A commit that must succeed."""
    request = commit_request(offsets, group=group)
    response = harness.answer(harness.offsets.commit(request, version=COMMIT_VERSION))
    assert set(errors_of(response)) <= {ErrorCode.NONE}


def errors_of(response: OffsetCommitResponse) -> list[ErrorCode]:
    return [partition.error_code for topic in response.topics for partition in topic.partitions]


def delete_request(partitions: Mapping[str, Sequence[int]], *, group: str = GROUP) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
            )
            for topic, indexes in partitions.items()
        ],
    )


def fetch_request(
    partitions: Mapping[str, Sequence[int]] | None = None, *, group: str = GROUP, by_id: bool = False
) -> OffsetFetchRequestGroup:
    """Without names, all offsets of the group."""
    if partitions is None:
        return OffsetFetchRequestGroup(group_id=group, topics=None)
    return OffsetFetchRequestGroup(
        group_id=group,
        topics=[
            OffsetFetchRequestTopics(
                **({"topic_id": topic_id_of(topic)} if by_id else {"name": topic}),
                partition_indexes=list(indexes),
            )
            for topic, indexes in partitions.items()
        ],
    )


def fetched_offsets(response: OffsetFetchResponseGroup) -> dict[tuple[str, int], FetchedOffset]:
    return {
        (topic.name, partition.partition_index): (
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.metadata or "",
            partition.error_code,
        )
        for topic in response.topics
        for partition in topic.partitions
    }


def stored(harness: OffsetHarness, *, group: str = GROUP, newest: bool = False) -> dict[tuple[str, int], int]:
    """The offsets of a group, as a client sees them."""
    response = harness.offsets.fetch(fetch_request(group=group), require_stable=newest, version=FETCH_VERSION)
    return {place: answer[0] for place, answer in fetched_offsets(response).items()}


class ScriptedGroup(Group):
    """Refuses what the test says, and records what it was asked."""

    type = GroupType.CONSUMER

    def __init__(
        self,
        group_id: str = GROUP,
        *,
        refuses: ErrorCode | None = None,
        subscribed: Sequence[str] = (),
        expires_from_ms: int | None = None,
        is_kept: bool = True,
    ) -> None:
        self.group_id = group_id
        self.refuses = refuses
        self.subscribed = subscribed
        self.expires_from_ms = expires_from_ms
        self.is_kept = is_kept
        self.state = "Stable"
        self.asked: list[dict[str, object]] = []
        self.partition_check: PartitionCheck | None = None

    @property
    def protocol_type(self) -> str:
        return "consumer"

    def state_name(self, *, committed: bool = False) -> str:
        return self.state

    def check_offset_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        is_transactional: bool,
        version: int,
    ) -> PartitionCheck | None:
        self.asked.append(
            {
                "member_id": member_id,
                "instance_id": instance_id,
                "generation_or_epoch": generation_or_epoch,
                "is_transactional": is_transactional,
                "version": version,
            }
        )
        self._refuse()
        return self.partition_check

    def check_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        self.asked.append({"member_id": member_id, "member_epoch": member_epoch})
        self._refuse()

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed

    def check_offset_delete(self) -> None:
        self._refuse()

    def check_delete(self) -> None:
        self._refuse()

    def tombstones(self) -> list[CoordinatorRecord]:
        return [CoordinatorRecord(("group", self.group_id), None)]

    def offsets_expire_from_ms(self, commit_timestamp_ms: int, *, topic: str) -> int | None:
        return self.expires_from_ms

    @property
    def is_kept_without_offsets(self) -> bool:
        return self.is_kept

    def _refuse(self) -> None:
        if self.refuses is not None:
            raise Refused(self.refuses, "as configured")
