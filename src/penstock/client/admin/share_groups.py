"""Start offsets of share groups (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls
from penstock.client.admin.results import Results
from penstock.client.cluster import TopicPartition
from penstock.client.cluster_client import CoordinatorKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupOffset:
    """The start offset of a share group: all records before it are done."""

    start_offset: int | None
    leader_epoch: int | None = None
    lag: int | None = None
    """The number of records still to be delivered; None if the broker does not say (before Kafka 4.2)."""


class ShareGroupsAdmin(AdminCalls):
    async def list_share_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, ShareGroupOffset]:
        """The start offsets of a share group on the given partitions, or on all."""
        call = self._begin(f"list offsets of share group {group_id}", timeout)
        wanted = None if partitions is None else [TopicPartition(*each) for each in partitions]
        request = wire.share_groups.describe_request(group_id, wanted)

        async def ask() -> Results[TopicPartition, ShareGroupOffset]:
            response = await call.ask_coordinator(CoordinatorKind.GROUP, group_id, request)
            return wire.share_groups.read_described(response, group_id)

        return call.split(await call.retry(ask))

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, None]:
        """Set the start offsets of a share group without members."""
        call = self._begin(f"alter offsets of share group {group_id}", timeout)
        wanted = {TopicPartition(*partition): offset for partition, offset in offsets.items()}

        async def attempt(partitions: list[TopicPartition]) -> Results[TopicPartition, None]:
            request = wire.share_groups.alter_request(group_id, {each: wanted[each] for each in partitions})
            response = await call.ask_coordinator(CoordinatorKind.GROUP, group_id, request)
            return wire.share_groups.read_altered(response, group_id)

        return await call.run_each(wanted, attempt)

    async def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, None]:
        """Delete the offsets of topics of a share group without members."""
        call = self._begin(f"delete offsets of share group {group_id}", timeout)

        async def attempt(names: list[str]) -> Results[str, None]:
            request = wire.share_groups.delete_request(group_id, names)
            response = await call.ask_coordinator(CoordinatorKind.GROUP, group_id, request)
            return wire.share_groups.read_deleted(response, group_id)

        return await call.run_each(topics, attempt)
