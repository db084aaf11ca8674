"""How far groups are behind, in records and in time: for metrics, the console and whoever else shows it.

Only what this node knows by itself: groups that it coordinates, and of their partitions those that it leads. Nothing
is counted while records come and go; lag is reckoned when somebody asks, from the committed offset and the high
watermark. The time needs one header of a batch, 61 bytes, which is read once for each offset that a group stays at.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from penstock.metadata.errors import Refused
from penstock.protocol.types import Uuid
from penstock.records import kernel
from penstock.records.batch import HEADER_BYTES, TimestampType
from penstock.replication.partition import Partition
from penstock.replication.table import PartitionTable
from penstock.runtime.clock import Clock

if TYPE_CHECKING:
    from penstock.coordinator.group.service import GroupCoordinator
    from penstock.coordinator.group.shard import GroupShard

AT_ONCE = 200
"""Partitions before others get their turn on the event loop: a few milliseconds, if all headers have to be read."""

TIMES_KEPT_MAX = 1 << 16  # then all are forgotten, and read again by and by


class PartitionLag(NamedTuple):
    group_id: str
    topic: str
    partition: int
    committed_offset: int
    end_offset: int
    """The high watermark: no consumer gets further."""
    records: int
    """From the one to the other. Some may be gone, by retention or compaction."""
    seconds: float
    """The age of the first record that the group has not read, 0 where it has read all. As the batch tells it: at most
    by the time that its producer took to fill the batch too much."""


class Lags:
    def __init__(self, groups: GroupCoordinator, partitions: PartitionTable, clock: Clock) -> None:
        self._groups = groups
        self._partitions = partitions
        self._clock = clock
        self._times: dict[tuple[Uuid, int, int], int] = {}
        """Of the record at an offset of a partition. What a group has committed does not change any more."""

    def of_group(self, group_id: str) -> list[PartitionLag]:
        """`Refused` where this node does not coordinate the group."""
        return self._groups.read(group_id, lambda shard: self._of_group(shard, group_id))

    async def of_all(self) -> list[PartitionLag]:
        """Of all groups that this node coordinates."""
        lags: list[PartitionLag] = []
        rested_at = 0
        for shard in list(self._groups.shards()):
            for group_id in shard.offsets.table.committed_groups():
                lags += self._of_group(shard, group_id)
                if len(lags) - rested_at >= AT_ONCE:
                    rested_at = len(lags)
                    await asyncio.sleep(0)
        return lags

    def _of_group(self, shard: GroupShard, group_id: str) -> list[PartitionLag]:
        lags: list[PartitionLag] = []
        for topic, offsets in shard.offsets.table.committed_of_group(group_id).items():
            for index, stored in offsets.items():
                partition = self._partitions.get(topic, index)
                if partition is None or not partition.is_leader or partition.is_offline:
                    continue
                end_offset = partition.high_watermark
                behind = max(0, end_offset - stored.offset)
                seconds = self._age_seconds(partition, stored.offset) if behind else 0.0
                lags.append(PartitionLag(group_id, topic, index, stored.offset, end_offset, behind, seconds))
        return lags

    def _age_seconds(self, partition: Partition, offset: int) -> float:
        first_offset = max(offset, partition.log.start_offset)
        key = (partition.topic_id, partition.index, first_offset)
        time_ms = self._times.get(key)
        if time_ms is None:
            time_ms = _time_at(partition, first_offset)
            if time_ms is None:
                return 0.0
            if len(self._times) >= TIMES_KEPT_MAX:
                self._times.clear()
            self._times[key] = time_ms
        return max(0, self._clock.wall_ms() - time_ms) / 1000


def _time_at(partition: Partition, offset: int) -> int | None:
    """When the batch at `offset`, or the first one after it, was begun; None where there is none, or no time in it."""
    try:
        batch = partition.read(offset, max_bytes=1, at_least_one=True)
        if batch is None:
            return None
        header = kernel.read_header(memoryview(batch.file.read(position=batch.position, size=HEADER_BYTES)))
    except (Refused, OSError):
        return None  # its disk fails, which is not to be told here
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    time_ms = header.max_timestamp if is_append_time else header.base_timestamp
    return None if time_ms < 0 else time_ms
