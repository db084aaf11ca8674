"""A consumer group: its members, what they shall have and what they have.

What the log holds lives in the timeline (members, targets, epochs, resolved regular expressions); what can be
told from that and is needed often is kept beside it, for the newest state alone. Only `ConsumerGroups.replays` calls
the methods that change anything; they must take records in any order in which compaction may leave them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from penstock.coordinator.group.assigned import AssignedGroup
from penstock.coordinator.group.consumer import writing
from penstock.coordinator.group.consumer.assignment import NOTHING, Assignment, Owned
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.consumer.regex import ResolvedRegex
from penstock.coordinator.group.consumer.subscriptions import Subscriptions
from penstock.coordinator.group.group import GroupType, PartitionCheck
from penstock.coordinator.group.member_epochs import COMMIT_VERSION_WITH_EPOCHS, NO_EPOCH
from penstock.coordinator.outcome import CoordinatorRecord
from penstock.coordinator.timeline import Timeline, TimelineMap, TimelineValue
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid

logger = logging.getLogger(__name__)

CONSUMER_PROTOCOL = "consumer"
STALE = -1


class GroupEpoch(NamedTuple):
    number: int
    metadata_hash: int


class TargetEpoch(NamedTuple):
    number: int
    computed_at_ms: int
    """Wall clock; 0: never."""


class ConsumerGroup(AssignedGroup):
    type = GroupType.CONSUMER

    def __init__(self, group_id: str, timeline: Timeline) -> None:
        self.group_id = group_id
        self._epoch = TimelineValue(timeline, GroupEpoch(1, 0))
        self._target_epoch = TimelineValue(timeline, TargetEpoch(1, 0))
        self.members: TimelineMap[str, ConsumerMember] = TimelineMap(timeline)
        self.targets: TimelineMap[str, Assignment] = TimelineMap(timeline)
        self.resolved: TimelineMap[str, ResolvedRegex] = TimelineMap(timeline)
        """Regular expressions that members subscribe to, as far as they have been looked up."""
        self.has_topics_record = False
        """Kafka 4.0 left a record behind that nobody needs any more."""
        self.subscriptions = Subscriptions()
        self.assignors: Counter[str] = Counter()
        """By the number of members that would like them."""
        self.classic_protocols: Counter[str] = Counter()
        """By the number of classic members that support them."""
        self.classic_count = 0
        self._static: dict[str, str] = {}
        self._owners: dict[Uuid, dict[int, str]] = {}
        self.refreshed_epoch = STALE
        """The epoch in which the topics were last looked at; not replicated. One that was never reached, because the
        log refused it, counts for nothing."""

    # -- what it is

    @property
    def protocol_type(self) -> str:
        return CONSUMER_PROTOCOL

    @property
    def epoch(self) -> int:
        return self._epoch.value.number

    @property
    def metadata_hash(self) -> int:
        return self._epoch.value.metadata_hash

    @property
    def target_epoch(self) -> TargetEpoch:
        return self._target_epoch.value

    @property
    def committed_epochs(self) -> tuple[int, int]:
        """Of the group, and of its target assignment."""
        return self._epoch.committed.number, self._target_epoch.committed.number

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_stale(self) -> bool:
        """The topics may have changed since the last epoch."""
        return self.refreshed_epoch == STALE or self.refreshed_epoch > self.epoch

    @property
    def is_homogeneous(self) -> bool:
        return self.subscriptions.are_homogeneous(len(self.members))

    def state_name(self, *, committed: bool = False) -> str:
        if committed:
            epoch, target_epoch = self.committed_epochs
            members: Iterable[ConsumerMember] = self.members.committed_items().values()
        else:
            epoch, target_epoch, members = self.epoch, self.target_epoch.number, self.members.values()
        return state_of(members, epoch=epoch, target_epoch=target_epoch)

    def owner_of(self, topic_id: Uuid, partition: int) -> str | None:
        """The member that has the partition, or has not said yet that it gave it up."""
        partitions = self._owners.get(topic_id)
        return None if partitions is None else partitions.get(partition)

    def member(self, member_id: str) -> ConsumerMember:
        found = self.members.get(member_id)
        if found is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {self.group_id} has no member {member_id}.")
        return found

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self._static.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: ConsumerMember) -> Assignment:
        """What a member shall have; of a static member, also under the id that it had before."""
        predecessor = self.static_member(member.instance_id)
        if predecessor is not None:
            return self.targets.get(predecessor.member_id, NOTHING)
        return self.targets.get(member.member_id, NOTHING)

    def preferred_assignor(self, counts: Counter[str] | None = None) -> str | None:
        """What most members would like; None: they do not care."""
        counts = self.assignors if counts is None else counts
        return max(counts, key=lambda name: counts[name]) if counts else None

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether something that the member shall have is still somebody else's."""
        for topic_id, partitions in self.targets.get(member.member_id, NOTHING).items():
            assigned = member.assigned.get(topic_id, ())
            for partition in partitions:
                if partition not in assigned and self.owner_of(topic_id, partition) is not None:
                    return True
        return False

    # -- what offsets and administration ask

    def check_offset_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        is_transactional: bool,
        version: int,
    ) -> PartitionCheck | None:
        if generation_or_epoch < 0 and not self.members:
            return None  # a consumer without a group, or an administrator
        if is_transactional and generation_or_epoch == NO_EPOCH and not member_id and instance_id is None:
            return None  # a producer that knows no members
        member = self.member(member_id)
        if not is_transactional and not member.is_classic and version < COMMIT_VERSION_WITH_EPOCHS:
            raise Refused(
                ErrorCode.UNSUPPORTED_VERSION,
                "Members of a consumer group must commit with OffsetCommit v9 or newer, which has a member epoch.",
            )
        if generation_or_epoch == member.epoch:
            return None
        if generation_or_epoch > member.epoch:
            raise _stale(member, f"{generation_or_epoch} is ahead of its epoch {member.epoch}")
        return lambda topic_id, partition: _check_held(member, generation_or_epoch, topic_id, partition)

    def check_offset_fetch(self, *, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = None if member_id is None else self.members.committed(member_id)
        if member is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {self.group_id} has no member {member_id}.")
        if member_epoch != member.epoch:
            raise _stale(member, f"{member_epoch} is not its epoch, which is {member.epoch}")

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscriptions

    def tombstones(self) -> list[CoordinatorRecord]:
        return self.tombstones_of(self.members)

    def tombstones_of(self, member_ids: Iterable[str]) -> list[CoordinatorRecord]:
        """The group's, with these for its members; each kind together, because Kafka reads them in that order."""
        member_ids = list(member_ids)
        group_id = self.group_id
        return [
            *(writing.place_tombstone(group_id, member_id) for member_id in member_ids),
            *(writing.target_tombstone(group_id, member_id) for member_id in member_ids),
            writing.target_epoch_tombstone(group_id),
            *(writing.member_tombstone(group_id, member_id) for member_id in member_ids),
            *(writing.regex_tombstone(group_id, regex) for regex in self.resolved),
            writing.topics_tombstone(group_id),
            writing.epoch_tombstone(group_id),
        ]

    # -- replay

    def set_epoch(self, epoch: GroupEpoch) -> None:
        self._epoch.value = epoch

    def set_target_epoch(self, epoch: TargetEpoch) -> None:
        self._target_epoch.value = epoch

    def put_member(self, member: ConsumerMember) -> None:
        before = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._count(before, member)
        if before is not None:
            self._release(before)
        self._claim(member.member_id, member.assigned)
        self._claim(member.member_id, member.revoking)
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        before = self.members.pop(member_id, None)
        if before is None:
            return
        self._count(before, None)
        self._release(before)
        if before.instance_id is not None and self._static.get(before.instance_id) == member_id:
            del self._static[before.instance_id]

    def resolve(self, regex: str, resolved: ResolvedRegex | None) -> None:
        before = self.resolved.pop(regex, None)
        if resolved is not None:
            self.resolved[regex] = resolved
        self.subscriptions.resolve(before, resolved)

    def _count(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        self.subscriptions.replace(before, after)
        replace_assignor(self.assignors, before, after)
        for member, step in ((before, -1), (after, 1)):
            if member is not None and member.classic is not None:
                self.classic_count += step
                for protocol in member.classic.supported_protocols:
                    self.classic_protocols[protocol.name] += step

    def _claim(self, member_id: str, owned: Owned) -> None:
        for topic_id, partitions in owned.items():
            owners = self._owners.setdefault(topic_id, {})
            for partition in partitions:
                owner = owners.setdefault(partition, member_id)
                if owner != member_id:
                    logger.error(
                        "group %s: %s and %s both have partition %d of %s",
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


def state_of(members: Iterable[ConsumerMember], *, epoch: int, target_epoch: int) -> str:
    """As the protocol writes it."""
    members = list(members)
    if not members:
        return "Empty"
    if epoch > target_epoch:
        return "Assigning"
    if all(member.is_reconciled_to(target_epoch) for member in members):
        return "Stable"
    return "Reconciling"


def replace_assignor(
    counts: Counter[str], before: ConsumerMember | None, after: ConsumerMember | None
) -> None:
    for member, step in ((before, -1), (after, 1)):
        if member is not None and member.assignor is not None:
            counts[member.assignor] += step
            if counts[member.assignor] <= 0:
                del counts[member.assignor]


def _check_held(member: ConsumerMember, epoch: int, topic_id: Uuid, partition: int) -> None:
    """A member that is behind may commit what it has held since the epoch that it knows (KIP-1251)."""
    given = member.assigned.get(topic_id, {}).get(partition)
    if given is None:
        given = member.revoking.get(topic_id, {}).get(partition)
    if given is None:
        raise _stale(member, f"{epoch} is old, and partition {partition} is not assigned to the member")
    if epoch < given:
        raise _stale(member, f"{epoch} is older than assignment epoch {given} of partition {partition}")


def _stale(member: ConsumerMember, words: str) -> Refused:
    if member.is_classic:
        return Refused(ErrorCode.ILLEGAL_GENERATION, f"The received generation id {words}.")
    return Refused(ErrorCode.STALE_MEMBER_EPOCH, f"The received member epoch {words}.")
