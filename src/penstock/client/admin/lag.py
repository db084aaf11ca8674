"""How far groups are behind, in records: what they have committed beside where partitions end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.client.admin.group_offsets import GroupOffset, GroupOffsetsAdmin
from penstock.client.admin.groups import GroupDescription, GroupMember, GroupsAdmin, GroupType
from penstock.client.admin.offsets import EARLIEST, LATEST, ListedOffset, OffsetsAdmin
from penstock.client.admin.outcome import only
from penstock.client.admin.share_groups import ShareGroupsAdmin
from penstock.client.cluster import TopicPartition
from penstock.client.errors import ItemsFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """How far a group is behind on one partition."""

    partition: TopicPartition
    committed_offset: int | None
    leader_epoch: int | None
    start_offset: int | None
    end_offset: int | None
    """None where the partition cannot be asked, or is gone."""
    lag: int | None
    """Records from the one to the other; some of them may be gone by retention or compaction."""
    member: GroupMember | None
    """Who reads it now."""


class LagAdmin(GroupsAdmin, GroupOffsetsAdmin, ShareGroupsAdmin, OffsetsAdmin):
    async def group_lag(self, group_id: str, *, timeout_ms: int | None = None) -> list[PartitionLag]:
        """How far a group is behind, partition by partition: those that it has offsets of or reads now."""
        return await only(self.groups_lag([group_id], timeout_ms=timeout_ms))

    async def groups_lag(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, list[PartitionLag]]:
        """The lag of several groups, with one question for each kind of fact rather than one for each group."""
        call = self._begin("tell the lag of groups", timeout_ms)
        groups = await self.describe_groups(group_ids, timeout_ms=call.left_ms())
        committed = await self._committed(groups, timeout_ms=call.left_ms())
        readers = {group_id: _readers(group) for group_id, group in groups.items()}
        partitions = {each for group_id in groups for each in (*committed[group_id], *readers[group_id])}
        ends = await self._listed(dict.fromkeys(partitions, LATEST), timeout_ms=call.left_ms())
        starts = await self._listed(dict.fromkeys(partitions, EARLIEST), timeout_ms=call.left_ms())
        return {
            group_id: [
                _lag(
                    partition,
                    committed[group_id].get(partition),
                    starts.get(partition),
                    ends.get(partition),
                    readers[group_id].get(partition),
                )
                for partition in sorted({*committed[group_id], *readers[group_id]})
            ]
            for group_id in groups
        }

    async def _committed(
        self, groups: Mapping[str, GroupDescription], *, timeout_ms: int
    ) -> dict[str, dict[TopicPartition, GroupOffset | None]]:
        """What groups have read. A share group has no commits, but a place where it begins."""
        call = self._begin("list offsets of groups", timeout_ms)
        sharing = [group_id for group_id, group in groups.items() if group.type is GroupType.SHARE]
        others = [group_id for group_id in groups if group_id not in sharing]
        committed = await self.list_groups_offsets(dict.fromkeys(others), timeout_ms=call.left_ms())
        for group_id in sharing:
            starts = await self.list_share_group_offsets(group_id, timeout_ms=call.left_ms())
            committed[group_id] = {
                partition: None if start.start_offset is None else GroupOffset(offset=start.start_offset)
                for partition, start in starts.items()
            }
        return committed

    async def _listed(
        self, wanted: Mapping[TopicPartition, int], *, timeout_ms: int
    ) -> Mapping[TopicPartition, ListedOffset]:
        """Offsets of partitions as far as they can be had: a topic that is gone does not hide the lag on others."""
        try:
            return await self.list_offsets(wanted, timeout_ms=timeout_ms)
        except ItemsFailed as failed:
            return failed.results


def _readers(group: GroupDescription) -> dict[TopicPartition, GroupMember]:
    return {partition: member for member in group.members for partition in member.assignment}


def _lag(
    partition: TopicPartition,
    committed: GroupOffset | None,
    start: ListedOffset | None,
    end: ListedOffset | None,
    member: GroupMember | None,
) -> PartitionLag:
    return PartitionLag(
        partition=partition,
        committed_offset=None if committed is None else committed.offset,
        leader_epoch=None if committed is None else committed.leader_epoch,
        start_offset=None if start is None else start.offset,
        end_offset=None if end is None else end.offset,
        lag=None if committed is None or end is None else max(0, end.offset - committed.offset),
        member=member,
    )
