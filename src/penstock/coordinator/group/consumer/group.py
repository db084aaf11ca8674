"""A consumer group: its members, their subscriptions, their target and current assignments.

In addition to the state of every modern group, the timeline holds the resolved regular expressions. Counts of
subscriptions and owners of partitions are indexes over the newest state.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable

from penstock.coordinator.group.consumer.assignment import NOTHING, Assignment, Owned
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.consumer.records import CONSUMER_RECORDS, regex_tombstone, topics_tombstone
from penstock.coordinator.group.consumer.regex import ResolvedRegex
from penstock.coordinator.group.consumer.subscriptions import Subscriptions
from penstock.coordinator.group.group import GroupType
from penstock.coordinator.group.modern.group import ModernGroup
from penstock.coordinator.group.modern.records import GroupMetadata
from penstock.coordinator.result import CoordinatorRecord
from penstock.coordinator.timeline import Timeline, TimelineMap
from penstock.protocol.types import Uuid

logger = logging.getLogger(__name__)


class ConsumerGroup(ModernGroup[ConsumerMember, Assignment, GroupMetadata]):
    type = GroupType.CONSUMER
    records = CONSUMER_RECORDS

    def __init__(self, group_id: str, timeline: Timeline) -> None:
        super().__init__(group_id, timeline, GroupMetadata())
        self.resolved: TimelineMap[str, ResolvedRegex] = TimelineMap(timeline)
        """The regular expressions that members subscribe to and that have been resolved."""
        self.has_topics_record = False
        """Whether the log holds the record of topics that Kafka 4.0 wrote, which is no longer used."""
        self.subscriptions = Subscriptions()
        self.assignors: Counter[str] = Counter()
        """By the number of members that prefer them."""
        self.classic_protocols: Counter[str] = Counter()
        """By the number of classic members that support them."""
        self.classic_count = 0
        self._static: dict[str, str] = {}
        self._owners: dict[Uuid, dict[int, str]] = {}

    @property
    def is_homogeneous(self) -> bool:
        return self.subscriptions.are_homogeneous(len(self.members))

    def owner_of(self, topic_id: Uuid, partition: int) -> str | None:
        """The member that owns the partition, or has not confirmed its revocation."""
        partitions = self._owners.get(topic_id)
        return None if partitions is None else partitions.get(partition)

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self._static.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: ConsumerMember) -> Assignment:
        """The target assignment of a member; of a static member, also under its previous member id."""
        predecessor = self.static_member(member.instance_id)
        if predecessor is not None:
            return self.targets.get(predecessor.member_id, NOTHING)
        return self.targets.get(member.member_id, NOTHING)

    def preferred_assignor(self, counts: Counter[str] | None = None) -> str | None:
        """The assignor that most members prefer; None: no member has a preference."""
        counts = self.assignors if counts is None else counts
        return max(counts, key=lambda name: counts[name]) if counts else None

    def is_waiting_for_others(self, member: ConsumerMember) -> bool:
        """Whether another member still owns a partition of the member's target assignment."""
        for topic_id, partitions in self.targets.get(member.member_id, NOTHING).items():
            assigned = member.assigned.get(topic_id, ())
            for partition in partitions:
                if partition not in assigned and self.owner_of(topic_id, partition) is not None:
                    return True
        return False

    def assignment_epoch_of(self, member: ConsumerMember, topic_id: Uuid, partition: int) -> int | None:
        epoch = member.assigned.get(topic_id, {}).get(partition)
        return member.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscriptions

    def tombstones(self) -> list[CoordinatorRecord]:
        return self.tombstones_of(self.members)

    def tombstones_of(self, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
        """Those of the group, with these members."""
        regexes = (regex_tombstone(self.group_id, regex) for regex in self.resolved)
        return self.records.group_removal(
            self.group_id, member_ids, others=[*regexes, topics_tombstone(self.group_id)]
        )

    # -- replay

    def resolve(self, regex: str, resolved: ResolvedRegex | None) -> None:
        before = self.resolved.pop(regex, None)
        if resolved is not None:
            self.resolved[regex] = resolved
        self.subscriptions.resolve(before, resolved)

    def update_indexes(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        self.subscriptions.replace(before, after)
        replace_assignor(self.assignors, before, after)
        for member, step in ((before, -1), (after, 1)):
            if member is not None and member.classic is not None:
                self.classic_count += step
                for protocol in member.classic.supported_protocols:
                    self.classic_protocols[protocol.name] += step
        if before is not None:
            self._release(before)
        if after is not None:
            self._claim(after.member_id, after.assigned)
            self._claim(after.member_id, after.revoking)
            if after.instance_id is not None:
                self._static[after.instance_id] = after.member_id
        elif (
            before is not None
            and before.instance_id is not None
            and self._static.get(before.instance_id) == before.member_id
        ):
            del self._static[before.instance_id]

    def _claim(self, member_id: str, owned: Owned) -> None:
        for topic_id, partitions in owned.items():
            owners = self._owners.setdefault(topic_id, {})
            for partition in partitions:
                owner = owners.setdefault(partition, member_id)
                if owner != member_id:
                    logger.error(
                        "group %s: %s and %s both own partition %d of %s",
                        self.group_id, owner, member_id, partition, topic_id.hex(),
                    )  # fmt: skip
                    owners[partition] = member_id

    def _release(self, member: ConsumerMember) -> None:
        for owned in (member.assigned, member.revoking):
            for topic_id, partitions in owned.items():
                owners = self._owners.get(topic_id, {})
                for partition in partitions:
                    if owners.get(partition) == member.member_id:
                        del owners[partition]
                if not owners:
                    self._owners.pop(topic_id, None)


def replace_assignor(
    counts: Counter[str], before: ConsumerMember | None, after: ConsumerMember | None
) -> None:
    for member, step in ((before, -1), (after, 1)):
        if member is not None and member.assignor is not None:
            counts[member.assignor] += step
            if counts[member.assignor] <= 0:
                del counts[member.assignor]
