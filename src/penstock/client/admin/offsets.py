"""First and last offsets of partitions, offsets by timestamp, and deleting records."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls
from penstock.client.admin.results import Results
from penstock.client.cluster import TopicPartition
from penstock.client.errors import BadArgument
from penstock.protocol.constants import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_OFFSET,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)

# Special timestamps of the protocol.

OFFSET_NAMES: Mapping[str, int] = {
    "latest": LATEST_TIMESTAMP,
    "earliest": EARLIEST_TIMESTAMP,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL_TIMESTAMP,
    "latest-tiered": LATEST_TIERED_TIMESTAMP,
    "earliest-pending-upload": EARLIEST_PENDING_UPLOAD_OFFSET,
}

When = int | str | datetime.datetime
"""`"latest"` and the other names, a datetime, or milliseconds since 1970."""

TO_THE_END = -1
"""For `delete_records`: delete all records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    """An offset in the result of `list_offsets`."""

    offset: int
    """-1 if there is no such record."""
    timestamp_ms: int | None = None
    """The timestamp of the record at the offset, if the lookup was by time."""
    leader_epoch: int | None = None


class OffsetsAdmin(AdminCalls):
    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, When] | Mapping[tuple[str, int], When],
        *,
        read_committed: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """The offset of a timestamp or of an end, for each partition: `{("orders", 0): "latest"}`.

        For a timestamp it is the first record then or later. With `read_committed`, "latest" is the last stable offset.
        """
        call = self._begin("list offsets", timeout)
        moments = {TopicPartition(*partition): _moment(when) for partition, when in wanted.items()}

        async def ask(
            node_id: int | None, partitions: list[TopicPartition]
        ) -> Results[TopicPartition, ListedOffset]:
            request = wire.offsets.list_request(
                {partition: moments[partition] for partition in partitions},
                read_committed=read_committed,
                timeout_ms=call.request_ms(),
            )
            return wire.offsets.read_listed(await call.ask_node(node_id, request))

        return await call.run_each(moments, call.to_leaders(ask))

    async def topic_offsets(
        self,
        topics: Iterable[str],
        when: When = LATEST_TIMESTAMP,
        *,
        read_committed: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """The same for all partitions of topics."""
        call = self._begin("list offsets", timeout)
        partitions = await call.partitions_of(topics)
        return await self.list_offsets(
            dict.fromkeys(partitions, when), read_committed=read_committed, timeout=call.left_s()
        )

    async def delete_records(
        self,
        before: Mapping[TopicPartition, int] | Mapping[tuple[str, int], int],
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset in each partition, or all with `TO_THE_END`; returns the new first
        offsets.

        This cannot be undone.
        """
        call = self._begin("delete records", timeout)
        offsets = {TopicPartition(*partition): offset for partition, offset in before.items()}

        async def ask(node_id: int | None, partitions: list[TopicPartition]) -> Results[TopicPartition, int]:
            request = wire.offsets.delete_request(
                {partition: offsets[partition] for partition in partitions}, timeout_ms=call.request_ms()
            )
            return wire.offsets.read_deleted(await call.ask_node(node_id, request))

        return await call.run_each(offsets, call.to_leaders(ask))


def _moment(when: When) -> int:
    if isinstance(when, datetime.datetime):
        return round(when.timestamp() * 1000)
    if isinstance(when, str):
        if when not in OFFSET_NAMES:
            raise BadArgument(f"{when} is not one of {', '.join(OFFSET_NAMES)}, nor a time")
        return OFFSET_NAMES[when]
    return when
