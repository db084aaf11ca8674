"""Expiration of offsets and of groups without members and offsets.

It runs every `offsets.retention.check.interval.ms`. The group decides when the retention starts
(`Group.offsets_expire_from_ms`).

The first round, right after loading, removes offsets of deleted topics. Usually they are removed with their topic
(`Offsets.metadata_changed`), but the topic may have been deleted while the shard was not loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.group import Group
from penstock.coordinator.group.offsets.pending import PendingOffsets
from penstock.coordinator.group.offsets.table import OffsetTable
from penstock.coordinator.group.records.offsets import OffsetCommitKey, OffsetCommitValue
from penstock.coordinator.result import CoordinatorRecord, CoordinatorResult
from penstock.protocol.types import ZERO_UUID
from penstock.records.batch import NO_TIMESTAMP

logger = logging.getLogger(__name__)

TIMER = "offset expiry"

GROUPS_AT_ONCE = 500
RECORDS_AT_ONCE = 1_000
"""Handled before the event loop runs other tasks: a few milliseconds."""

MINUTE_MS = 60_000


class OffsetExpiry:
    def __init__(self, context: GroupContext, table: OffsetTable, pending: PendingOffsets) -> None:
        self._context = context
        self._table = table
        self._pending = pending
        self._check: Callable[[Group], list[CoordinatorRecord]] = self.expire
        """The check of the current round."""
        self._unchecked: list[str] = []
        """The groups that this round still has to check."""
        self._deleted: list[str] = []
        """Groups that the current step deletes."""

    def start(self) -> None:
        """The groups are loaded: start with the topics that were deleted before."""
        self._context.timers.set(TIMER, 0, lambda: self._begin(self.remove_orphans))

    def _begin(self, check: Callable[[Group], list[CoordinatorRecord]]) -> CoordinatorResult[None]:
        self._check = check
        self._unchecked = list(self._context.groups)
        return self._step()

    def _step(self) -> CoordinatorResult[None]:
        records: list[CoordinatorRecord] = []
        self._deleted.clear()
        for _ in range(GROUPS_AT_ONCE):
            if not self._unchecked or len(records) >= RECORDS_AT_ONCE:
                break
            group = self._context.groups.get(self._unchecked.pop())
            if group is not None:
                records += self._check(group)
        if self._unchecked:
            self._context.timers.set(TIMER, 0, self._step)
        else:
            interval_ms: int = self._context.dependencies.settings().get(
                "offsets.retention.check.interval.ms"
            )
            self._context.timers.set(TIMER, interval_ms, lambda: self._begin(self.expire))
        result: CoordinatorResult[None] = CoordinatorResult(None, records)
        if not self._deleted:
            return result
        lines = [f"deleted group {each}, which has no members and no offsets" for each in self._deleted]
        return result.and_log(logger, *lines)

    def remove_orphans(self, group: Group) -> list[CoordinatorRecord]:
        """Remove offsets of deleted topics. In Kafka they stay until they expire, so a consumer of a new topic with the
        same name finds them."""
        known_ids = self._context.dependencies.image().topics.names_by_id
        return [
            tombstone(group.group_id, topic, partition)
            for topic, partitions in self._table.of_group(group.group_id).items()
            for partition, stored in partitions.items()
            if stored.topic_id != ZERO_UUID and stored.topic_id not in known_ids
        ]

    def expire(self, group: Group) -> list[CoordinatorRecord]:
        """Remove expired offsets, and the group if none is left. Partitions with pending transactional offsets stay."""
        records: list[CoordinatorRecord] = []
        pending = self._pending.of_group(group.group_id)
        has_offsets = bool(pending)
        for topic, partitions in self._table.of_group(group.group_id).items():
            is_kept = group.is_subscribed_to(topic)
            for partition, stored in partitions.items():
                is_kept_here = is_kept or (topic, partition) in pending
                if is_kept_here or not self._is_expired(group, topic, stored):
                    has_offsets = True
                else:
                    records.append(tombstone(group.group_id, topic, partition))
        if not has_offsets and not group.is_kept_without_offsets:
            self._deleted.append(group.group_id)
            records += group.tombstones()
        return records

    def _is_expired(self, group: Group, topic: str, stored: OffsetCommitValue) -> bool:
        from_ms = group.offsets_expire_from_ms(stored.commit_timestamp, topic=topic)
        if from_ms is None:
            return False
        now_ms = self._context.wall_ms()
        if stored.expire_timestamp != NO_TIMESTAMP:
            return now_ms >= stored.expire_timestamp
        retention_ms: int = self._context.dependencies.settings().get("offsets.retention.minutes") * MINUTE_MS
        return now_ms - from_ms >= retention_ms


def tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
