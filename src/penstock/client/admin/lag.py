"""The lag of groups, in records and in time: committed offsets compared with log ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from penstock.client.admin import wire
from penstock.client.admin.calls import Call
from penstock.client.admin.group_offsets import GroupOffset, GroupOffsetsAdmin
from penstock.client.admin.groups import GroupDescription, GroupMember, GroupsAdmin, GroupType
from penstock.client.admin.offsets import ListedOffset, OffsetsAdmin
from penstock.client.admin.results import AskNode, Find, Results, only
from penstock.client.admin.share_groups import ShareGroupsAdmin
from penstock.client.cluster import TopicPartition
from penstock.client.errors import ItemsFailed
from penstock.protocol.constants import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """The lag of a group on one partition."""

    partition: TopicPartition
    committed_offset: int | None
    leader_epoch: int | None
    start_offset: int | None
    end_offset: int | None
    """None if the partition cannot be reached or was deleted."""
    lag: int | None
    """The number of offsets in between; retention or compaction may have removed some of them."""
    member: GroupMember | None
    """The member that owns it now."""
    lag_ms: int | None = None
    """The age of the first unread record, 0 if all are read; None if it was not asked for or is unknown. It is the age
    of the record's batch, so it may be too high by the time that its producer took to fill the batch."""


class LagAdmin(GroupsAdmin, GroupOffsetsAdmin, ShareGroupsAdmin, OffsetsAdmin):
    async def group_lag(
        self, group_id: str, *, with_time: bool = False, timeout: float | None = None
    ) -> list[PartitionLag]:
        """The lag of a group by partition: those with committed offsets and those that it reads now.

        With `with_time` also in milliseconds, for which one batch is fetched from each partition with lag.
        """
        return await only(self.groups_lag([group_id], with_time=with_time, timeout=timeout))

    async def groups_lag(
        self, group_ids: Iterable[str], *, with_time: bool = False, timeout: float | None = None
    ) -> dict[str, list[PartitionLag]]:
        """The lag of several groups, with shared requests."""
        call = self._begin("compute the lag of groups", timeout)
        groups = await self.describe_groups(group_ids, timeout=call.left_s())
        committed = await self._committed(groups, timeout=call.left_s())
        readers = {group_id: _readers(group) for group_id, group in groups.items()}
        partitions = {each for group_id in groups for each in (*committed[group_id], *readers[group_id])}
        ends = await self._listed(dict.fromkeys(partitions, LATEST_TIMESTAMP), timeout=call.left_s())
        starts = await self._listed(dict.fromkeys(partitions, EARLIEST_TIMESTAMP), timeout=call.left_s())
        lags = {
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
        return await self._timed(call, lags) if with_time else lags

    async def _timed(self, call: Call, lags: dict[str, list[PartitionLag]]) -> dict[str, list[PartitionLag]]:
        """The same, with the age of unread records."""
        places = {_place(lag): None for parts in lags.values() for lag in parts if lag.lag}
        written, _ = await call.retry_each(places, call.by_node(self._leaders_of(call), self._written(call)))
        now_ms = self._client.clock.wall_ms()
        return {
            group_id: [replace(lag, lag_ms=_age(lag, written.get(_place(lag)), now_ms)) for lag in parts]
            for group_id, parts in lags.items()
        }

    @staticmethod
    def _leaders_of(call: Call) -> Find[Place]:
        async def find(places: list[Place]) -> Results[Place, int | None]:
            leaders = await call.find_leaders([partition for partition, _ in places])
            return {place: leaders[place[0]] for place in places}

        return find

    @staticmethod
    def _written(call: Call) -> AskNode[Place, int | None]:
        async def ask(node_id: int | None, places: list[Place]) -> Results[Place, int | None]:
            found: dict[Place, int | None] = {}
            for place in places:
                request = wire.times.time_request(*place)
                found[place] = wire.times.read_time(
                    await call.ask_node(node_id, request, max_version=wire.times.BY_NAME)
                )
            return found

        return ask

    async def _committed(
        self, groups: Mapping[str, GroupDescription], *, timeout: float
    ) -> dict[str, dict[TopicPartition, GroupOffset | None]]:
        """The offsets of groups. A share group has no committed offsets, but a start offset."""
        call = self._begin("list offsets of groups", timeout)
        sharing = [group_id for group_id, group in groups.items() if group.type is GroupType.SHARE]
        others = [group_id for group_id in groups if group_id not in sharing]
        committed = await self.list_groups_offsets(dict.fromkeys(others), timeout=call.left_s())
        for group_id in sharing:
            starts = await self.list_share_group_offsets(group_id, timeout=call.left_s())
            committed[group_id] = {
                partition: None if start.start_offset is None else GroupOffset(offset=start.start_offset)
                for partition, start in starts.items()
            }
        return committed

    async def _listed(
        self, wanted: Mapping[TopicPartition, int], *, timeout: float
    ) -> Mapping[TopicPartition, ListedOffset]:
        """Offsets of partitions, if available: a deleted topic does not hide the lag on others."""
        try:
            return await self.list_offsets(wanted, timeout=timeout)
        except ItemsFailed as failed:
            return failed.results


Place = tuple[TopicPartition, int]
"""A partition and an offset in it."""


def _place(lag: PartitionLag) -> Place:
    return lag.partition, lag.committed_offset or 0


def _age(lag: PartitionLag, written_ms: int | None, now_ms: int) -> int | None:
    if lag.lag == 0:
        return 0
    return None if written_ms is None else max(0, now_ms - written_ms)


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
