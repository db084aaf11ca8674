"""What one member's request leads to, step by step: the member as it will be, and the records that make it so.

The steps are the same for members of both protocols: describe the member, give the group a new epoch if that matters to
others, compute a new target if it is time for one, and take the member one step closer to it. Nothing in the group
changes here: that is for replay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from penstock.coordinator.group.consumer import writing
from penstock.coordinator.group.consumer.assignment import TopicPartitions
from penstock.coordinator.group.consumer.group import ConsumerGroup, replace_assignor
from penstock.coordinator.group.consumer.member import ConsumerMember, MemberState
from penstock.coordinator.group.consumer.reconciliation import Surrounding, Target, reconcile
from penstock.coordinator.group.consumer.subscriptions import subscribed_topics
from penstock.coordinator.group.consumer.surroundings import ConsumerSurroundings
from penstock.coordinator.group.consumer.target import compute_target
from penstock.coordinator.group.consumer.timeouts import Timeouts
from penstock.coordinator.outcome import CoordinatorRecord


class MemberChange:
    def __init__(
        self,
        around: ConsumerSurroundings,
        timeouts: Timeouts,
        group: ConsumerGroup,
        before: ConsumerMember,
        records: list[CoordinatorRecord],
    ) -> None:
        self._around = around
        self._timeouts = timeouts
        self.group = group
        self.before = before
        self.member = before
        self.records = records
        self.epoch = group.epoch
        self._is_homogeneous: bool | None = None

    def describe(self, member: ConsumerMember) -> bool:
        """The member describes itself so; whether it names other topics than before."""
        self.member = member
        if member == self.before:
            return False
        self.records.append(writing.member_record(self.group.group_id, member))
        return member.topics != self.before.topics

    def renew_epoch(self, *, is_due: bool) -> None:
        """Look at the topics, and begin a new epoch if they have changed, or `is_due` anyway."""
        group = self.group
        subscriptions = group.subscriptions.copy()
        subscriptions.replace(self.before, self.member)
        if self.before.regex and not subscriptions.regexes[self.before.regex]:
            subscriptions.resolve(group.resolved.get(self.before.regex), None)
        is_known = self.member.member_id in group.members or group.static_member(self.member.instance_id)
        self._is_homogeneous = subscriptions.are_homogeneous(len(group.members) + (not is_known))
        metadata_hash = self._around.topic_hash(subscriptions.topics())
        if is_due or metadata_hash != group.metadata_hash:
            self.epoch += 1
            self.records.append(writing.epoch_record(group.group_id, self.epoch, metadata_hash=metadata_hash))
        group.refreshed_epoch = self.epoch
        if group.has_topics_record:
            self.records.append(writing.topics_tombstone(group.group_id))

    def update_target(self) -> Target:
        """What the member shall have: computed anew where the epoch is new and the last time is long enough ago."""
        group = self.group
        if group.target_epoch.number >= self.epoch or not self._is_time_to_assign():
            return Target(group.target_epoch.number, group.target_of(self.member))
        assignors = self._around.assignors
        counts: Counter[str] = group.assignors.copy()
        replace_assignor(counts, self.before, self.member)
        preferred = group.preferred_assignor(counts)
        computed = compute_target(
            group,
            self.member,
            assignor=assignors.get(preferred or "") or next(iter(assignors.values())),
            epoch=self.epoch,
            is_homogeneous=group.is_homogeneous if self._is_homogeneous is None else self._is_homogeneous,
            image=self._around.image,
            wall_ms=self._around.context.wall_ms(),
        )
        self.records += computed.records
        return Target(self.epoch, computed.targets[self.member.member_id])

    def _is_time_to_assign(self) -> bool:
        computed_at_ms = self.group.target_epoch.computed_at_ms
        if not computed_at_ms:
            return True
        elapsed_ms = self._around.context.wall_ms() - computed_at_ms
        # A clock that was set back must not keep members waiting for what they shall have.
        return not 0 <= elapsed_ms < self._around.assignment_interval_ms(self.group.group_id)

    def advance(
        self,
        target: Target,
        reported: Sequence[TopicPartitions] | None,
        *,
        has_changed_subscription: bool,
    ) -> None:
        """Take the member a step closer to its target."""
        member = self.member
        if not has_changed_subscription and member.is_reconciled_to(target.epoch):
            return
        topics = self._around.image.topics
        names = subscribed_topics(member, self.group.resolved)
        found = (topics.get(name) for name in names)
        around = Surrounding(
            frozenset(topic.topic_id for topic in found if topic is not None), self.group.owner_of, reported
        )
        advanced = reconcile(member, target, around, has_changed_subscription=has_changed_subscription)
        if advanced == member:
            return
        self.member = advanced
        self.records.append(writing.place_record(self.group.group_id, advanced))
        if not advanced.is_classic:
            if advanced.state is MemberState.UNREVOKED_PARTITIONS:
                self._timeouts.set_rebalance(self.group.group_id, advanced)
            else:
                self._timeouts.cancel_rebalance(self.group.group_id, advanced.member_id)
