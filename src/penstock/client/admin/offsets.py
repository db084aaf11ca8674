"""The ends of partitions, offsets by time, and deleting records before an offset."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls
from penstock.client.admin.outcome import Answers
from penstock.client.cluster import TopicPartition
from penstock.client.errors import BadArgument

# Where to look, in place of a time: as on the wire.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

OFFSET_NAMES: Mapping[str, int] = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL,
    "latest-tiered": LATEST_TIERED,
    "earliest-pending-upload": EARLIEST_PENDING_UPLOAD,
}

When = int | str | datetime.datetime
"""`"latest"` and the other names, a moment, or milliseconds since 1970."""

TO_THE_END = -1
"""As the offset before which records are deleted: all there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    offset: int
    """-1 where there is no such record."""
    timestamp_ms: int | None = None
    """Of the record at the offset, where one was looked for by time."""
    leader_epoch: int | None = None


class OffsetsAdmin(AdminCalls):
    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, When] | Mapping[tuple[str, int], When],
        *,
        read_committed: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """The offset that belongs to a time or an end, for each partition: `{("orders", 0): "latest"}`.

        By time it is the first record then or later. With `read_committed` the latest is where a transaction is open.
        """
        call = self._begin("list offsets", timeout)
        moments = {TopicPartition(*partition): _moment(when) for partition, when in wanted.items()}

        async def ask(
            node_id: int | None, partitions: list[TopicPartition]
        ) -> Answers[TopicPartition, ListedOffset]:
            request = wire.offsets.list_request(
                {partition: moments[partition] for partition in partitions},
                read_committed=read_committed,
                timeout_ms=call.request_ms(),
            )
            return wire.offsets.read_listed(await call.ask_node(node_id, request))

        return await call.each(moments, call.to_leaders(ask))

    async def topic_offsets(
        self,
        topics: Iterable[str],
        when: When = LATEST,
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
        """Delete the records before an offset of each partition, or all with `TO_THE_END`; tells where each begins now.

        This cannot be undone.
        """
        call = self._begin("delete records", timeout)
        offsets = {TopicPartition(*partition): offset for partition, offset in before.items()}

        async def ask(node_id: int | None, partitions: list[TopicPartition]) -> Answers[TopicPartition, int]:
            request = wire.offsets.delete_request(
                {partition: offsets[partition] for partition in partitions}, timeout_ms=call.request_ms()
            )
            return wire.offsets.read_deleted(await call.ask_node(node_id, request))

        return await call.each(offsets, call.to_leaders(ask))


def _moment(when: When) -> int:
    if isinstance(when, datetime.datetime):
        return round(when.timestamp() * 1000)
    if isinstance(when, str):
        if when not in OFFSET_NAMES:
            raise BadArgument(f"{when} is not one of {', '.join(OFFSET_NAMES)}, nor a time")
        return OFFSET_NAMES[when]
    return when
