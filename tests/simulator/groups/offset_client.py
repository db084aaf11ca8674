"""A client that fetches committed offsets and checks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from penstock.protocol.types import ZERO_UUID, Uuid
from simulator.clients.client import SimulatedClient
from simulator.groups.group import SimulatedGroup
from simulator.groups.ownership import Partition
from simulator.simulation import BrokenPromise

COORDINATOR_ERRORS = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
"""Temporary errors."""

ONE_GROUP_VERSION = 7
NAMES_VERSION = 9
IDS_VERSION = 10


class OffsetClient(SimulatedClient):
    """Knows the topics of its group by name and by id."""

    topic_ids: dict[str, Uuid]

    async def fetch_offsets(
        self,
        group: SimulatedGroup,
        partitions: Sequence[Partition],
        *,
        version: int,
        member: tuple[str, int] | None = None,
    ) -> Mapping[Partition, int] | ErrorCode:
        """The committed offsets of the partitions that have one, or an error code."""
        await self.connect()
        request = self._make_offset_fetch(group, partitions, version=version, member=member)
        asked_at = self.simulation.loop.time()
        response: OffsetFetchResponse = await self.ask(request, version=version)
        now = self.simulation.loop.time()
        error = response.error_code if version <= ONE_GROUP_VERSION else response.groups[0].error_code
        if error != ErrorCode.NONE:
            return error
        found: dict[Partition, int] = {}
        for partition, offset, note, partition_error in self._entries(response, version):
            if partition_error != ErrorCode.NONE:
                name = group.name_of(partition)
                raise BrokenPromise(f"{self.name} cannot fetch the offset of {name}: {partition_error.name}")
            group.offsets.found(partition, offset, note, asked_at=asked_at, now=now)
            if offset >= 0:
                found[partition] = offset
        return found

    def _make_offset_fetch(
        self,
        group: SimulatedGroup,
        partitions: Sequence[Partition],
        *,
        version: int,
        member: tuple[str, int] | None,
    ) -> OffsetFetchRequest:
        indexes: dict[Uuid, list[int]] = {}
        for topic_id, index in partitions:
            indexes.setdefault(topic_id, []).append(index)
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        if version <= ONE_GROUP_VERSION:
            return OffsetFetchRequest(
                group_id=group.group_id,
                topics=[
                    OffsetFetchRequestTopic(name=names[topic_id], partition_indexes=each)
                    for topic_id, each in indexes.items()
                ],
            )
        by_id = version >= IDS_VERSION
        topics = [
            OffsetFetchRequestTopics(
                name="" if by_id else names[topic_id],
                topic_id=topic_id if by_id else ZERO_UUID,
                partition_indexes=each,
            )
            for topic_id, each in indexes.items()
        ]
        member_id, epoch = member or (None, -1)
        wanted = OffsetFetchRequestGroup(
            group_id=group.group_id, member_id=member_id, member_epoch=epoch, topics=topics
        )
        return OffsetFetchRequest(groups=[wanted])

    def _entries(
        self, response: OffsetFetchResponse, version: int
    ) -> list[tuple[Partition, int, str | None, ErrorCode]]:
        if version <= ONE_GROUP_VERSION:
            return [
                (
                    (self.topic_ids[topic.name], entry.partition_index),
                    entry.committed_offset,
                    entry.metadata,
                    entry.error_code,
                )
                for topic in response.topics
                for entry in topic.partitions
            ]
        return [
            (
                (
                    topic.topic_id if version >= IDS_VERSION else self.topic_ids[topic.name],
                    entry.partition_index,
                ),
                entry.committed_offset,
                entry.metadata,
                entry.error_code,
            )
            for topic in response.groups[0].topics
            for entry in topic.partitions
        ]
