"""When subscriptions by regular expression are resolved: for a new expression, after topics were created, and at an
interval.

A request only starts the resolution. It scans all topics in steps, each of them a timer that is due at once, and then
writes its result. Until then a new expression matches no topics.
"""

from __future__ import annotations

import enum

from penstock.coordinator.group.consumer.context import ConsumerContext
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.consumer.records import regex_record, regex_tombstone
from penstock.coordinator.group.consumer.regex import RegexScan, ResolvedRegex, check_regex
from penstock.coordinator.group.modern.records import GroupMetadata
from penstock.coordinator.result import DONE, CoordinatorRecord, CoordinatorResult

REFRESH_PAUSE_MS = 10_000  # at least, between two resolutions for one group: members often join together


class RegexChange(enum.Enum):
    NONE = enum.auto()
    PENDING = enum.auto()
    """A new expression, not resolved yet."""
    RESOLVED = enum.auto()
    """No expression, or one that is resolved already: a new assignment can be computed."""


class RegexRefresh:
    def __init__(self, context: ConsumerContext) -> None:
        self._context = context
        self.new_topics_offset = -1
        """The metadata offset of the last topic creation."""

    def update(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        records: list[CoordinatorRecord],
    ) -> RegexChange:
        """Start the resolution that a member's change from `before` to `after` requires. `Refused` if the new
        expression is invalid."""
        counts = group.subscriptions.regexes
        if before.regex == after.regex:
            if counts:
                self._refresh_if_needed(group, before, after, is_new=False)
            return RegexChange.NONE
        change = RegexChange.PENDING
        is_new = False
        if before.regex and counts[before.regex] == 1:
            records.append(regex_tombstone(group.group_id, before.regex))
        if not after.regex:
            change = RegexChange.RESOLVED
        elif not counts[after.regex]:
            check_regex(after.regex)
            is_new = True
        elif after.regex in group.resolved:
            change = RegexChange.RESOLVED
        if is_new or counts:
            self._refresh_if_needed(group, before, after, is_new=is_new)
        return change

    def _refresh_if_needed(
        self, group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember, *, is_new: bool
    ) -> None:
        key = ("consumer regex", group.group_id)
        if key in self._context.timers:
            return
        wall_ms = self._context.shard.wall_ms()
        last = next(iter(group.resolved.values()), None)
        # A clock that was set back must not delay the resolution.
        if last is not None and 0 <= wall_ms - last.timestamp_ms <= REFRESH_PAUSE_MS:
            return
        wanted = _wanted(group, before, after)
        if not wanted:
            return
        if (
            is_new
            or last is None
            or len(wanted) != len(group.resolved)
            or last.version < self.new_topics_offset
            or wall_ms > last.timestamp_ms + self._context.setting("group.consumer.regex.refresh.interval.ms")
        ):
            image = self._context.image
            scan = RegexScan(wanted, [*image.topics.by_name], version=image.offset, timestamp_ms=wall_ms)
            self._schedule(group.group_id, scan)

    def _schedule(self, group_id: str, scan: RegexScan) -> None:
        self._context.timers.set(("consumer regex", group_id), 0, lambda: self._step(group_id, scan))

    def _step(self, group_id: str, scan: RegexScan) -> CoordinatorResult[None]:
        if not scan.step():
            self._schedule(group_id, scan)
            return DONE
        group = self._context.find(group_id)
        return DONE if group is None else CoordinatorResult(None, self._apply(group, scan.result()))

    def _apply(self, group: ConsumerGroup, found: dict[str, ResolvedRegex]) -> list[CoordinatorRecord]:
        subscriptions = group.subscriptions.copy()
        records = []
        has_changed = False
        for regex, resolved in found.items():
            if not subscriptions.regexes[regex]:
                continue  # no member subscribes to it any more
            before = group.resolved.get(regex)
            if (before.topics if before is not None else frozenset()) != resolved.topics:
                has_changed = True
                subscriptions.resolve(before, resolved)
            records.append(regex_record(group.group_id, regex, resolved))
        metadata_hash = self._context.topic_hash(subscriptions.topics())
        if has_changed or metadata_hash != group.metadata.metadata_hash:
            metadata = GroupMetadata(group.epoch + 1, metadata_hash)
            records.append(group.records.group(group.group_id, metadata))
            group.refreshed_epoch = metadata.epoch
        return records


def _wanted(group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember) -> list[str]:
    """The expressions of the group after the member's change."""
    wanted = dict(group.subscriptions.regexes)
    if before.regex != after.regex:
        if before.regex in wanted:
            wanted[before.regex] -= 1
        if after.regex:
            wanted[after.regex] = wanted.get(after.regex, 0) + 1
    return [regex for regex, count in wanted.items() if count]
