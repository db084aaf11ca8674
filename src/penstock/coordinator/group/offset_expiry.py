"""Offsets that nobody asks for any more: when they go, and when their group goes with them.

Looked for every `offsets.retention.check.interval.ms`. What the retention counts from is the group's to say
(`Group.offsets_expire_from_ms`): a consumer that is away for the weekend must find its offsets on Monday. A
group that has neither members nor offsets left is removed.

Before the first round, right after loading, offsets are removed whose topics are gone: usually they go with their
topic (`Offsets.metadata_changed`), but a node may have been down, or still loading, when that was deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.group import Group
from penstock.coordinator.group.offset_table import OffsetTable
from penstock.coordinator.group.pending_offsets import PendingOffsets
from penstock.coordinator.group.records.offsets import NO_TIMESTAMP, OffsetCommitKey, OffsetCommitValue
from penstock.coordinator.outcome import CoordinatorRecord, Outcome
from penstock.protocol.types import ZERO_UUID

logger = logging.getLogger(__name__)

TIMER = "offset expiry"

GROUPS_AT_ONCE = 500
RECORDS_AT_ONCE = 1_000
"""After so many others get their turn on the event loop: a few milliseconds."""

MINUTE_MS = 60_000


class OffsetExpiry:
    def __init__(self, context: GroupContext, table: OffsetTable, pending: PendingOffsets) -> None:
        self._context = context
        self._table = table
        self._pending = pending
        self._look: Callable[[Group], list[CoordinatorRecord]] = self.expire
        """What this round does with each group."""
        self._to_see: list[str] = []
        """Groups that it has still to look at."""
        self._deleted: list[str] = []
        """Groups that the decision under way deletes."""

    def start(self) -> None:
        """Groups are loaded: see which topics were deleted while nobody was here to remove their offsets."""
        self._context.timers.set(TIMER, 0, lambda: self._begin(self.remove_orphans))

    def _begin(self, look: Callable[[Group], list[CoordinatorRecord]]) -> Outcome[None]:
        self._look = look
        self._to_see = list(self._context.groups)
        return self._go_on()

    def _go_on(self) -> Outcome[None]:
        records: list[CoordinatorRecord] = []
        self._deleted.clear()
        for _ in range(GROUPS_AT_ONCE):
            if not self._to_see or len(records) >= RECORDS_AT_ONCE:
                break
            group = self._context.groups.get(self._to_see.pop())
            if group is not None:
                records += self._look(group)
        if self._to_see:
            self._context.timers.set(TIMER, 0, self._go_on)
        else:
            interval_ms: int = self._context.around.settings().get("offsets.retention.check.interval.ms")
            self._context.timers.set(TIMER, interval_ms, lambda: self._begin(self.expire))
        outcome: Outcome[None] = Outcome(None, records)
        if not self._deleted:
            return outcome
        lines = [
            f"deleted group {each}, which has no members and no offsets any more" for each in self._deleted
        ]
        return outcome.and_log(logger, *lines)

    def remove_orphans(self, group: Group) -> list[CoordinatorRecord]:
        """The records that remove offsets of topics that are no more. Kafka leaves them to expire, and a consumer of
        a new topic of the same name finds them."""
        known_ids = self._context.around.image().topics.names_by_id
        return [
            tombstone(group.group_id, topic, partition)
            for topic, partitions in self._table.of_group(group.group_id).items()
            for partition, stored in partitions.items()
            if stored.topic_id != ZERO_UUID and stored.topic_id not in known_ids
        ]

    def expire(self, group: Group) -> list[CoordinatorRecord]:
        """The records that remove what has had its time: offsets, or the group with all of them. Nothing goes that an
        open transaction is about to replace."""
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
        retention_ms: int = self._context.around.settings().get("offsets.retention.minutes") * MINUTE_MS
        return now_ms - from_ms >= retention_ms


def tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
