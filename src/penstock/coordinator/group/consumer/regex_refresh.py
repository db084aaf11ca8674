"""When the topics that regular expressions stand for are looked up: for a new expression, when there are new topics,
and every now and then.

A lookup is not part of the request that calls for it: it goes over all topics in steps, each of them a timer that
is due at once, and what it finds becomes a write of its own. Until then an expression stands for nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from penstock.coordinator.group.consumer import writing
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.consumer.regex import RegexScan, ResolvedRegex, check_regex
from penstock.coordinator.group.consumer.surroundings import ConsumerSurroundings
from penstock.coordinator.outcome import DONE, CoordinatorRecord, Outcome

REFRESH_PAUSE_MS = 10_000  # between two lookups for one group, whatever happens: members that join gather


class RegexChange(enum.Enum):
    NONE = enum.auto()
    PENDING = enum.auto()
    """Another expression, whose topics are still to be looked up."""
    RESOLVED = enum.auto()
    """Another expression or none, and what it stands for is known: the group can be assigned anew."""


class RegexRefresh:
    def __init__(self, around: ConsumerSurroundings, find: Callable[[str], ConsumerGroup | None]) -> None:
        self._around = around
        self._find = find
        self.new_topics_offset = -1
        """Where the metadata last had a topic that it had not had before."""

    def note(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        records: list[CoordinatorRecord],
    ) -> RegexChange:
        """A member is about to change from `before` to `after`; look up what that calls for. `Refused` where the new
        expression is none."""
        counts = group.subscriptions.regexes
        if before.regex == after.regex:
            if counts:
                self._refresh_if_needed(group, before, after, is_new=False)
            return RegexChange.NONE
        change = RegexChange.PENDING
        is_new = False
        if before.regex and counts[before.regex] == 1:
            records.append(writing.regex_tombstone(group.group_id, before.regex))
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
        if key in self._around.timers:
            return
        wall_ms = self._around.context.wall_ms()
        last = next(iter(group.resolved.values()), None)
        # A clock that was set back must not keep an expression waiting until it has caught up.
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
            or wall_ms > last.timestamp_ms + self._around.regex_refresh_interval_ms
        ):
            image = self._around.image
            scan = RegexScan(wanted, [*image.topics.by_name], version=image.offset, timestamp_ms=wall_ms)
            self._go_on(group.group_id, scan)

    def _go_on(self, group_id: str, scan: RegexScan) -> None:
        self._around.timers.set(("consumer regex", group_id), 0, lambda: self._step(group_id, scan))

    def _step(self, group_id: str, scan: RegexScan) -> Outcome[None]:
        if not scan.step():
            self._go_on(group_id, scan)
            return DONE
        group = self._find(group_id)
        return DONE if group is None else Outcome(None, self._apply(group, scan.result()))

    def _apply(self, group: ConsumerGroup, found: dict[str, ResolvedRegex]) -> list[CoordinatorRecord]:
        subscriptions = group.subscriptions.copy()
        records = []
        has_changed = False
        for regex, resolved in found.items():
            if not subscriptions.regexes[regex]:
                continue  # nobody wants to know any more
            before = group.resolved.get(regex)
            if (before.topics if before is not None else frozenset()) != resolved.topics:
                has_changed = True
                subscriptions.resolve(before, resolved)
            records.append(writing.regex_record(group.group_id, regex, resolved))
        metadata_hash = self._around.topic_hash(subscriptions.topics())
        if has_changed or metadata_hash != group.metadata_hash:
            epoch = group.epoch + 1
            records.append(writing.epoch_record(group.group_id, epoch, metadata_hash=metadata_hash))
            group.refreshed_epoch = epoch
        return records


def _wanted(group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember) -> list[str]:
    """The expressions of the group once the member has changed."""
    wanted = dict(group.subscriptions.regexes)
    if before.regex != after.regex:
        if before.regex in wanted:
            wanted[before.regex] -= 1
        if after.regex:
            wanted[after.regex] = wanted.get(after.regex, 0) + 1
    return [regex for regex, count in wanted.items() if count]
