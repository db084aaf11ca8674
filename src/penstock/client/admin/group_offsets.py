"""Committed offsets of groups: list, alter and delete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls
from penstock.client.admin.results import Results, only
from penstock.client.cluster import TopicPartition
from penstock.client.cluster_client import CoordinatorKind


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffset:
    """A committed offset: the next record that the group will read."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


class GroupOffsetsAdmin(AdminCalls):
    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition | tuple[str, int]] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, GroupOffset | None]:
        """The committed offsets of a group; None for a requested partition without one.

        With `require_stable` the call waits for open transactions that may still change an offset.
        """
        wanted = None if partitions is None else [TopicPartition(*each) for each in partitions]
        return await only(
            self.list_groups_offsets({group_id: wanted}, require_stable=require_stable, timeout=timeout)
        )

    async def list_groups_offsets(
        self,
        groups: Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[str, dict[TopicPartition, GroupOffset | None]]:
        """The committed offsets of several groups: of the given partitions, or of all if None."""
        call = self._begin("list offsets of groups", timeout)
        wanted = {group: None if result is None else list(result) for group, result in groups.items()}

        async def ask(
            node_id: int | None, group_ids: list[str]
        ) -> Results[str, dict[TopicPartition, GroupOffset | None]]:
            asked = {group: wanted[group] for group in group_ids}
            request = wire.group_offsets.fetch_request(asked, require_stable=require_stable)
            response = await call.ask_node(node_id, request, max_version=wire.group_offsets.FETCH_BY_NAME)
            return wire.group_offsets.read_fetched(response, asked)

        return await call.run_each(wanted, call.to_coordinators(CoordinatorKind.GROUP, ask))

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int | GroupOffset],
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, None]:
        """Set the committed offsets of a group. The group must not have members."""
        call = self._begin(f"alter offsets of group {group_id}", timeout)
        wanted = {
            TopicPartition(*partition): each if isinstance(each, GroupOffset) else GroupOffset(offset=each)
            for partition, each in offsets.items()
        }

        async def attempt(partitions: list[TopicPartition]) -> Results[TopicPartition, None]:
            request = wire.group_offsets.commit_request(
                group_id, {partition: wanted[partition] for partition in partitions}
            )
            response = await call.ask_coordinator(
                CoordinatorKind.GROUP, group_id, request, max_version=wire.group_offsets.COMMIT_BY_NAME
            )
            return wire.group_offsets.read_committed(response, group_id)

        return await call.run_each(wanted, attempt)

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, None]:
        """Delete committed offsets of topics that the group is not subscribed to."""
        call = self._begin(f"delete offsets of group {group_id}", timeout)

        async def attempt(wanted: list[TopicPartition]) -> Results[TopicPartition, None]:
            request = wire.group_offsets.delete_request(group_id, wanted)
            response = await call.ask_coordinator(CoordinatorKind.GROUP, group_id, request)
            return wire.group_offsets.read_deleted(response, group_id)

        return await call.run_each([TopicPartition(*each) for each in partitions], attempt)
