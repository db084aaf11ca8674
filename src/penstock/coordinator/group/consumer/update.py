"""The steps that follow from one request of a member, and the records that they produce.

The steps are the same for both protocols: update the member's metadata, begin a new group epoch if the change affects
other members, compute a new target assignment if it is due, and take the member one step closer to its target.
Replicated state does not change here: replay does that. Only timers and `refreshed_epoch` do, which are not replicated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from penstock.coordinator.group.consumer.assignment import TopicPartitions
from penstock.coordinator.group.consumer.context import ConsumerContext
from penstock.coordinator.group.consumer.group import ConsumerGroup, replace_assignor
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.consumer.reconciliation import ReconciliationContext, Target, reconcile
from penstock.coordinator.group.consumer.records import topics_tombstone
from penstock.coordinator.group.consumer.regex_refresh import RegexChange, RegexRefresh
from penstock.coordinator.group.consumer.subscriptions import subscribed_topics
from penstock.coordinator.group.consumer.target import compute_targets
from penstock.coordinator.group.modern.records import GroupMetadata
from penstock.coordinator.result import CoordinatorRecord


class MemberUpdate:
    def __init__(
        self,
        context: ConsumerContext,
        regexes: RegexRefresh,
        group: ConsumerGroup,
        before: ConsumerMember,
        records: list[CoordinatorRecord],
    ) -> None:
        self._context = context
        self._regexes = regexes
        self.group = group
        self.before = before
        self.member = before
        """As it will be when `records` are replayed."""
        self.records = records
        self.epoch = group.epoch
        self._has_changed_subscription = False
        self._is_homogeneous: bool | None = None

    def set_metadata(self, member: ConsumerMember) -> None:
        """Update the member, and begin a new epoch if its subscription or the topics have changed."""
        self.member = member
        if member != self.before:
            self.records.append(self.group.records.member(self.group.group_id, member))
        has_changed_names = member.topics != self.before.topics
        regex_change = self._regexes.update(self.group, self.before, member, self.records)
        self._has_changed_subscription = has_changed_names or regex_change is not RegexChange.NONE
        is_due = has_changed_names or regex_change is RegexChange.RESOLVED
        if is_due or self.group.is_stale:
            self._refresh_epoch(is_due=is_due)

    def _refresh_epoch(self, *, is_due: bool) -> None:
        """Look up the topics, and begin a new epoch if they have changed or if it `is_due` anyway."""
        group = self.group
        subscriptions = group.subscriptions.copy()
        subscriptions.replace(self.before, self.member)
        if self.before.regex and not subscriptions.regexes[self.before.regex]:
            subscriptions.resolve(group.resolved.get(self.before.regex), None)
        is_known = self.member.member_id in group.members or group.static_member(self.member.instance_id)
        self._is_homogeneous = subscriptions.are_homogeneous(len(group.members) + (not is_known))
        metadata_hash = self._context.topic_hash(subscriptions.topics())
        if is_due or metadata_hash != group.metadata.metadata_hash:
            self.epoch += 1
            self.records.append(group.records.group(group.group_id, GroupMetadata(self.epoch, metadata_hash)))
        group.refreshed_epoch = self.epoch
        if group.has_topics_record:
            self.records.append(topics_tombstone(group.group_id))

    def update_target(self) -> Target:
        """The member's target assignment: computed again if the epoch is new and the last assignment is old enough."""
        group, context = self.group, self._context
        wall_ms = context.shard.wall_ms()
        interval_ms = context.group_settings(group.group_id).get("consumer.assignment.interval.ms")
        if group.target_epoch.number >= self.epoch or not group.is_assignment_due(
            wall_ms=wall_ms, interval_ms=interval_ms
        ):
            return Target(group.target_epoch.number, group.target_of(self.member))
        assignors = context.assignors
        counts: Counter[str] = group.assignors.copy()
        replace_assignor(counts, self.before, self.member)
        preferred = group.preferred_assignor(counts)
        targets = compute_targets(
            group,
            self.member,
            assignor=assignors.get(preferred or "") or next(iter(assignors.values())),
            is_homogeneous=group.is_homogeneous if self._is_homogeneous is None else self._is_homogeneous,
            image=context.image,
        )
        self.records += group.target_records(targets, epoch=self.epoch, wall_ms=wall_ms)
        return Target(self.epoch, targets[self.member.member_id])

    def reconcile(self, target: Target, reported: Sequence[TopicPartitions] | None) -> None:
        """Take the member one step closer to its target."""
        member, has_changed_subscription = self.member, self._has_changed_subscription
        if not has_changed_subscription and member.is_reconciled_to(target.epoch):
            return
        topics = self._context.image.topics
        names = subscribed_topics(member, self.group.resolved)
        found = (topics.get(name) for name in names)
        context = ReconciliationContext(
            frozenset(topic.topic_id for topic in found if topic is not None), self.group.owner_of, reported
        )
        reconciled = reconcile(member, target, context, has_changed_subscription=has_changed_subscription)
        if reconciled == member:
            return
        self.member = reconciled
        self.records.append(self.group.records.current(self.group.group_id, reconciled))
        if not reconciled.is_classic:
            self._context.timeouts.update_rebalance(self.group.group_id, reconciled)
