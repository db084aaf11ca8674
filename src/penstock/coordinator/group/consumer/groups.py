"""Consumer groups as a shard sees them: what members send, the administrators' question, and replay."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.groups import ClassicGroups
from penstock.coordinator.group.client import Client
from penstock.coordinator.group.consumer import writing
from penstock.coordinator.group.consumer.assignment import read_assignment
from penstock.coordinator.group.consumer.classic_members import ClassicMembers
from penstock.coordinator.group.consumer.describe import describe_group
from penstock.coordinator.group.consumer.group import STALE, ConsumerGroup, GroupEpoch, TargetEpoch
from penstock.coordinator.group.consumer.heartbeat import Heartbeats
from penstock.coordinator.group.consumer.member import ConsumerMember, MemberState
from penstock.coordinator.group.consumer.migration import Migration
from penstock.coordinator.group.consumer.regex import ResolvedRegex
from penstock.coordinator.group.consumer.regex_refresh import RegexRefresh
from penstock.coordinator.group.consumer.surroundings import ConsumerSurroundings
from penstock.coordinator.group.consumer.timeouts import Timeouts
from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.group import Group
from penstock.coordinator.group.member_epochs import JOINING_EPOCH, LEAVING_EPOCH, LEAVING_FOR_A_WHILE_EPOCH
from penstock.coordinator.group.records.consumer import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from penstock.coordinator.outcome import DONE, CoordinatorRecord, Outcome
from penstock.coordinator.timeline import Timeline
from penstock.metadata.delta import MetadataDelta, TopicDelta
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_describe import DescribedGroup
from penstock.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)

NO_TARGET = TargetEpoch(-1, 0)


class ConsumerGroups:
    def __init__(self, context: GroupContext, classic: ClassicGroups) -> None:
        self._context = context
        self._groups = context.groups
        self._classic = classic
        self._around = ConsumerSurroundings(context)
        self._timeouts = Timeouts(context.timers, self._put_out_by_time)
        self._regexes = RegexRefresh(self._around, self._find)
        self._migration = Migration(self._around, classic)
        self._heartbeats = Heartbeats(self._around, self._timeouts, self._regexes, self._put_out)
        self._classic_members = ClassicMembers(
            self._around, self._timeouts, self._regexes, self._migration, self._put_out
        )

    # -- what members of the new kind send

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, *, client: Client, version: int
    ) -> Outcome[ConsumerGroupHeartbeatResponse]:
        group = self._groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            response = self._heartbeats.answer_steady(group, request, client)
            if response is not None:
                return Outcome(response)
        self._heartbeats.check(request, version=version)
        is_new = group is None
        records: list[CoordinatorRecord] = []
        if request.member_epoch == JOINING_EPOCH:
            group = self._open_group(request.group_id, records)
        if not isinstance(group, ConsumerGroup):
            raise _not_a_group(request.group_id, group)
        if request.member_epoch in (LEAVING_EPOCH, LEAVING_FOR_A_WHILE_EPOCH):
            return self._heartbeats.leave(group, request)
        outcome = self._heartbeats.stay(group, request, client, records)
        if is_new:
            line = f"created consumer group {request.group_id}, requested by {client}"
            outcome = outcome.and_log(logger, line)
        return outcome

    # -- what classic members send

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, *, client: Client, version: int
    ) -> Outcome[JoinGroupResponse]:
        if group.is_empty:
            return self._classic.join(request, client=client, version=version)
        return self._classic_members.join(group, request, client=client, version=version)

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, *, version: int
    ) -> Outcome[SyncGroupResponse]:
        return self._classic_members.sync(group, request)

    def classic_heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, *, version: int
    ) -> Outcome[HeartbeatResponse]:
        return self._classic_members.heartbeat(group, request)

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, *, version: int
    ) -> Outcome[LeaveGroupResponse]:
        return self._classic_members.leave(group, request, version=version)

    def can_upgrade(self, group: ClassicGroup) -> bool:
        """Whether a member of the new kind may join this group."""
        try:
            self._migration.check_upgrade(group)
        except Refused:
            return group.is_empty
        return True

    # -- what administrators ask

    def describe(self, group_id: str) -> DescribedGroup:
        """Committed state. `Refused` with GROUP_ID_NOT_FOUND."""
        group = self._groups.committed(group_id)
        if not isinstance(group, ConsumerGroup):
            raise _not_a_group(group_id, group)
        return describe_group(group, self._around.image, default_assignor=next(iter(self._around.assignors)))

    # -- for the shard

    def loaded(self) -> None:
        self._regexes.new_topics_offset = self._around.image.offset
        for group in self._groups.values():
            if isinstance(group, ConsumerGroup):
                self._begin_sessions(group)

    def _begin_sessions(self, group: ConsumerGroup) -> None:
        """Of members as the log has them. Kafka gives classic ones the times of the others too; but those have their
        own session, and learn by a heartbeat that they have to join again: their time counts from then on."""
        timeout_ms = self._around.session_timeout_ms(group.group_id)
        for member in group.members.values():
            if member.classic is not None:
                session_ms = member.classic.session_timeout_ms
                self._timeouts.set_session(group.group_id, member.member_id, session_ms)
                continue
            self._timeouts.set_session(group.group_id, member.member_id, timeout_ms)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self._timeouts.set_rebalance(group.group_id, member)

    def unloaded(self) -> None:
        """Nobody waits here."""

    def metadata_changed(self, delta: MetadataDelta) -> list[CoordinatorRecord]:
        """Groups look at their topics again with their next heartbeat: then somebody is there to be told."""
        changed: set[str] = set()
        for topic in delta.topics.values():
            if topic.is_created:
                self._regexes.new_topics_offset = delta.image.offset
            if _matters(topic):
                changed.update(image.name for image in (topic.before, topic.after) if image is not None)
        if changed:
            for group in self._groups.values():
                if isinstance(group, ConsumerGroup) and any(map(group.is_subscribed_to, changed)):
                    group.refreshed_epoch = STALE
        return []

    # -- groups that begin, and members that go

    def _find(self, group_id: str) -> ConsumerGroup | None:
        group = self._groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def _open_group(self, group_id: str, records: list[CoordinatorRecord]) -> ConsumerGroup:
        """For a member that joins: the group, or what the group will be once `records` are replayed."""
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is None:
            return ConsumerGroup(group_id, Timeline())
        if not isinstance(group, ClassicGroup):
            raise _not_a_group(group_id, group)
        if group.is_empty:
            records += group.tombstones()
            return ConsumerGroup(group_id, Timeline())
        upgraded = self._migration.upgrade(group, records)
        for member in upgraded.members.values():
            assert member.classic is not None
            # Whatever it owed when the group was last of this type is forgotten.
            self._timeouts.cancel_all(group_id, member.member_id)
            self._timeouts.set_session(group_id, member.member_id, member.classic.session_timeout_ms)
        return upgraded

    def _put_out(self, group: ConsumerGroup, members: Iterable[ConsumerMember]) -> Outcome[None]:
        """They leave, or have to. The rest is assigned anew with the next heartbeat."""
        leaving: Collection[ConsumerMember] = list(members)
        if not leaving:
            return DONE
        if self._migration.can_downgrade_without(group, leaving):
            reason = "the last member of the new protocol left"
            return Outcome(None, self._migration.downgrade(group, leaving, rebalance_reason=reason))
        records: list[CoordinatorRecord] = []
        subscriptions = group.subscriptions.copy()
        for member in leaving:
            records += writing.removal(group.group_id, member.member_id)
            subscriptions.replace(member, None)
        for regex in sorted({member.regex for member in leaving if member.regex}):
            if not subscriptions.regexes[regex]:
                records.append(writing.regex_tombstone(group.group_id, regex))
                subscriptions.resolve(group.resolved.get(regex), None)
        metadata_hash = self._around.topic_hash(subscriptions.topics())
        records.append(writing.epoch_record(group.group_id, group.epoch + 1, metadata_hash=metadata_hash))

        def written(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                for member in leaving:
                    if member.member_id not in group.members:
                        self._timeouts.cancel_all(group.group_id, member.member_id)

        return Outcome(None, records, written)

    def _put_out_by_time(
        self, group_id: str, member_id: str, reason: str, epoch: int | None
    ) -> Outcome[None]:
        group = self._find(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None or (epoch is not None and member.epoch != epoch):
            return DONE
        logger.info("group %s: member %s is removed, because %s", group_id, member_id, reason)
        return self._put_out(group, [member])

    # -- replay

    @property
    def replays(self) -> dict[type, Callable[[Any, Any], None]]:
        return {
            ConsumerGroupMetadataKey: self._replay_epoch,
            ConsumerGroupPartitionMetadataKey: self._replay_topics,
            ConsumerGroupMemberMetadataKey: self._replay_member,
            ConsumerGroupTargetAssignmentMetadataKey: self._replay_target_epoch,
            ConsumerGroupTargetAssignmentMemberKey: self._replay_target,
            ConsumerGroupCurrentMemberAssignmentKey: self._replay_place,
            ConsumerGroupRegularExpressionKey: self._replay_regex,
        }

    def _find_or_make(self, group_id: str) -> ConsumerGroup:
        group: Group | None = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            group = self._groups[group_id] = ConsumerGroup(group_id, self._context.timeline)
        return group

    def _replay_epoch(self, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None) -> None:
        if value is not None:
            self._find_or_make(key.group_id).set_epoch(GroupEpoch(value.epoch, value.metadata_hash))
        elif self._find(key.group_id) is not None:
            del self._groups[key.group_id]

    def _replay_topics(
        self, key: ConsumerGroupPartitionMetadataKey, value: ConsumerGroupPartitionMetadataValue | None
    ) -> None:
        group = self._find(key.group_id) if value is None else self._find_or_make(key.group_id)
        if group is not None:
            group.has_topics_record = value is not None

    def _replay_member(
        self, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        if value is not None:
            group = self._find_or_make(key.group_id)
            member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
            group.put_member(member.described_by(value))
        elif (found := self._find(key.group_id)) is not None:
            found.remove_member(key.member_id)

    def _replay_target_epoch(
        self,
        key: ConsumerGroupTargetAssignmentMetadataKey,
        value: ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        if value is not None:
            epoch = TargetEpoch(value.assignment_epoch, value.assignment_timestamp)
            self._find_or_make(key.group_id).set_target_epoch(epoch)
        elif (found := self._find(key.group_id)) is not None:
            found.set_target_epoch(NO_TARGET)

    def _replay_target(
        self,
        key: ConsumerGroupTargetAssignmentMemberKey,
        value: ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is not None:
            group = self._find_or_make(key.group_id)
            group.targets[key.member_id] = read_assignment(value.topic_partitions)
        elif (found := self._find(key.group_id)) is not None:
            found.targets.pop(key.member_id, None)

    def _replay_place(
        self,
        key: ConsumerGroupCurrentMemberAssignmentKey,
        value: ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        if value is not None:
            group = self._find_or_make(key.group_id)
            member = group.members.get(key.member_id) or ConsumerMember(key.member_id)
            group.put_member(member.placed_by(value))
            return
        found = self._find(key.group_id)
        if found is not None and key.member_id in found.members:
            found.put_member(found.members[key.member_id].displaced())

    def _replay_regex(
        self, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
    ) -> None:
        if value is not None:
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            self._find_or_make(key.group_id).resolve(key.regular_expression, resolved)
        elif (found := self._find(key.group_id)) is not None:
            found.resolve(key.regular_expression, None)


def _not_a_group(group_id: str, found: Group | None) -> Refused:
    reason = "not found" if found is None else "is not a consumer group"
    return Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")


def _matters(topic: TopicDelta) -> bool:
    """Whether assignments may depend on the change: not on who leads, or is in sync."""
    if topic.before is None or topic.after is None:
        return True
    before, after = topic.before.partitions, topic.after.partitions
    if len(before) != len(after):
        return True
    return any(before[index].replicas != after[index].replicas for index in topic.changed_partitions)
