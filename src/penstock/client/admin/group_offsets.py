"""How far groups have read: look it up, set it, forget it, and tell how far they are behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.client.admin import wire
from penstock.client.admin.groups import GroupDescription, GroupMember, GroupsAdmin
from penstock.client.admin.offsets import EARLIEST, LATEST, ListedOffset, OffsetsAdmin
from penstock.client.admin.outcome import Answers, only
from penstock.client.cluster import TopicPartition
from penstock.client.cluster_client import CoordinatorKind
from penstock.client.errors import ItemsFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """A committed offset: the next record that the group will read."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


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


class GroupOffsetsAdmin(GroupsAdmin, OffsetsAdmin):
    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition | tuple[str, int]] | None = None,
        *,
        require_stable: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, GroupOffset | None]:
        """What a group has committed; None for a partition that was asked for and has no offset.

        With `require_stable` the call waits for transactions that may still change an offset.
        """
        wanted = None if partitions is None else [TopicPartition(*each) for each in partitions]
        return await only(
            self.list_groups_offsets({group_id: wanted}, require_stable=require_stable, timeout_ms=timeout_ms)
        )

    async def list_groups_offsets(
        self,
        groups: Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout_ms: int | None = None,
    ) -> dict[str, dict[TopicPartition, GroupOffset | None]]:
        """The offsets of several groups: of some partitions, or where None is given of all."""
        call = self._begin("list offsets of groups", timeout_ms)
        wanted = {group: None if told is None else list(told) for group, told in groups.items()}

        async def ask(
            node_id: int | None, group_ids: list[str]
        ) -> Answers[str, dict[TopicPartition, GroupOffset | None]]:
            asked = {group: wanted[group] for group in group_ids}
            request = wire.group_offsets.fetch_request(asked, require_stable=require_stable)
            response = await call.ask_node(node_id, request, newest=wire.group_offsets.FETCH_BY_NAME)
            return wire.group_offsets.read_fetched(response, asked)

        return await call.each(wanted, call.to_coordinators(CoordinatorKind.GROUP, ask))

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int | GroupOffset],
        *,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, None]:
        """Set what a group has committed. Only a group without members may be altered."""
        call = self._begin(f"alter offsets of group {group_id}", timeout_ms)
        wanted = {
            TopicPartition(*partition): each if isinstance(each, GroupOffset) else GroupOffset(offset=each)
            for partition, each in offsets.items()
        }

        async def attempt(partitions: list[TopicPartition]) -> Answers[TopicPartition, None]:
            request = wire.group_offsets.commit_request(
                group_id, {partition: wanted[partition] for partition in partitions}
            )
            response = await call.ask_coordinator(
                CoordinatorKind.GROUP, group_id, request, newest=wire.group_offsets.COMMIT_BY_NAME
            )
            return wire.group_offsets.read_committed(response, group_id)

        return await call.each(wanted, attempt)

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, None]:
        """Forget what a group has committed on partitions of topics that it is not reading."""
        call = self._begin(f"delete offsets of group {group_id}", timeout_ms)

        async def attempt(wanted: list[TopicPartition]) -> Answers[TopicPartition, None]:
            request = wire.group_offsets.delete_request(group_id, wanted)
            response = await call.ask_coordinator(CoordinatorKind.GROUP, group_id, request)
            return wire.group_offsets.read_deleted(response, group_id)

        return await call.each([TopicPartition(*each) for each in partitions], attempt)

    async def group_lag(self, group_id: str, *, timeout_ms: int | None = None) -> list[PartitionLag]:
        """How far a group is behind, partition by partition: those that it has offsets of or reads now."""
        return await only(self.groups_lag([group_id], timeout_ms=timeout_ms))

    async def groups_lag(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> dict[str, list[PartitionLag]]:
        """The lag of several groups, with one question for each kind of fact rather than one for each group."""
        call = self._begin("tell the lag of groups", timeout_ms)
        groups = await self.describe_groups(group_ids, timeout_ms=call.left_ms())
        committed = await self.list_groups_offsets(dict.fromkeys(groups), timeout_ms=call.left_ms())
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
