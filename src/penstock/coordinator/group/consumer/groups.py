"""Consumer groups in a shard: requests of members, describe, and replay."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.classic.groups import ClassicGroups
from penstock.coordinator.group.client import Client
from penstock.coordinator.group.consumer.classic_members import ClassicMembers
from penstock.coordinator.group.consumer.context import ConsumerContext
from penstock.coordinator.group.consumer.describe import describe_group
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.heartbeat import Heartbeats
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.consumer.migration import Migration
from penstock.coordinator.group.consumer.records import regex_tombstone
from penstock.coordinator.group.consumer.regex import ResolvedRegex
from penstock.coordinator.group.consumer.regex_refresh import RegexRefresh
from penstock.coordinator.group.context import GroupContext
from penstock.coordinator.group.modern.groups import ModernGroups
from penstock.coordinator.group.modern.member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from penstock.coordinator.group.modern.records import GroupMetadata
from penstock.coordinator.group.records.consumer import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from penstock.coordinator.result import DONE, CoordinatorRecord, CoordinatorResult
from penstock.coordinator.timeline import Timeline
from penstock.metadata.delta import MetadataDelta
from penstock.metadata.errors import Refused
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


class ConsumerGroups:
    def __init__(self, context: GroupContext, classic: ClassicGroups) -> None:
        self._all_groups = context.groups
        self._groups = ModernGroups(
            context,
            ConsumerGroup,
            ConsumerMember,
            lambda group_id: ConsumerGroup(group_id, context.timeline),
        )
        self._classic = classic
        self._context = ConsumerContext(context, self._groups.find, self._remove)
        self._timeouts = self._context.timeouts
        self._regexes = RegexRefresh(self._context)
        self._migration = Migration(self._context, classic)
        self._heartbeats = Heartbeats(self._context, self._regexes)
        self._classic_members = ClassicMembers(self._context, self._regexes, self._migration)

    # -- members with the consumer protocol

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, *, client: Client, version: int
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        group = self._all_groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            response = self._heartbeats.answer_unchanged(group, request, client)
            if response is not None:
                return CoordinatorResult(response)
        self._heartbeats.check(request, version=version)
        records: list[CoordinatorRecord] = []
        if request.member_epoch == JOIN_EPOCH:
            opened = self._open_group(request.group_id, records)
        else:
            opened = self._groups.check_type(request.group_id, group)
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return self._heartbeats.leave(opened, request)
        result = self._heartbeats.join_or_stay(opened, request, client, records)
        if group is None:
            return result.and_log(logger, f"created consumer group {request.group_id}, requested by {client}")
        if isinstance(group, ClassicGroup) and not group.is_empty:
            return self._migration.log_upgrade(group, result)
        return result

    # -- members with the classic protocol

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, *, client: Client, version: int
    ) -> CoordinatorResult[JoinGroupResponse]:
        if group.is_empty:
            return self._classic.join(request, client=client, version=version)
        return self._classic_members.join(group, request, client=client, version=version)

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, *, version: int
    ) -> CoordinatorResult[SyncGroupResponse]:
        return self._classic_members.sync(group, request)

    def classic_heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, *, version: int
    ) -> CoordinatorResult[HeartbeatResponse]:
        return self._classic_members.heartbeat(group, request)

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, *, version: int
    ) -> CoordinatorResult[LeaveGroupResponse]:
        return self._classic_members.leave(group, request, version=version)

    def can_upgrade(self, group: ClassicGroup) -> bool:
        """Whether a member with the consumer protocol may join this group."""
        try:
            self._migration.check_upgrade(group)
        except Refused:
            return group.is_empty
        return True

    def describe(self, group_id: str) -> DescribedGroup:
        """Committed state. `Refused` with GROUP_ID_NOT_FOUND."""
        group = self._groups.require_committed(group_id)
        return describe_group(
            group, self._context.image, default_assignor=next(iter(self._context.assignors))
        )

    # -- for the shard

    def loaded(self) -> None:
        """Start the sessions of all members.

        Kafka gives classic members the timeouts of the others. But they have their own session timeout, and their time
        to rejoin counts from the heartbeat that tells them to.
        """
        self._regexes.new_topics_offset = self._context.image.offset
        for group in self._groups:
            timeout_ms = self._context.group_settings(group.group_id).get("consumer.session.timeout.ms")
            for member in group.members.values():
                if member.classic is not None:
                    session_ms = member.classic.session_timeout_ms
                    self._timeouts.set_session(group.group_id, member.member_id, session_ms)
                else:
                    self._timeouts.set_session(group.group_id, member.member_id, timeout_ms)
                    self._timeouts.update_rebalance(group.group_id, member)

    def unloaded(self) -> None:
        """No response is pending here."""

    def metadata_changed(self, delta: MetadataDelta) -> None:
        if any(topic.is_created for topic in delta.topics.values()):
            self._regexes.new_topics_offset = delta.image.offset
        self._groups.mark_stale(delta, lambda group, topics: any(map(group.is_subscribed_to, topics)))

    # -- new groups, and members that are removed

    def _open_group(self, group_id: str, records: list[CoordinatorRecord]) -> ConsumerGroup:
        """The group that a member joins, as it will be when `records` are replayed."""
        group = self._all_groups.get(group_id)
        if group is None:
            return ConsumerGroup(group_id, Timeline())
        if not isinstance(group, ClassicGroup):
            return self._groups.check_type(group_id, group)
        if group.is_empty:
            records += group.tombstones()
            return ConsumerGroup(group_id, Timeline())
        upgraded = self._migration.upgrade(group, records)
        for member in upgraded.members.values():
            assert member.classic is not None
            # Timeouts of an earlier time as a consumer group do not count.
            self._timeouts.cancel_all(group_id, member.member_id)
            self._timeouts.set_session(group_id, member.member_id, member.classic.session_timeout_ms)
        return upgraded

    def _remove(self, group: ConsumerGroup, members: Iterable[ConsumerMember]) -> CoordinatorResult[None]:
        """The members leave, or missed a deadline. The next heartbeat computes a new assignment."""
        leaving: Collection[ConsumerMember] = list(members)
        if not leaving:
            return DONE
        if self._migration.can_downgrade_without(group, leaving):
            reason = "the last member with the consumer protocol left"
            records = self._migration.downgrade(group, leaving, rebalance_reason=reason)
            return self._migration.log_downgrade(group, CoordinatorResult(None, records))
        subscriptions = group.subscriptions.copy()
        for member in leaving:
            subscriptions.replace(member, None)
        tombstones: list[CoordinatorRecord] = []
        for regex in sorted({member.regex for member in leaving if member.regex}):
            if not subscriptions.regexes[regex]:
                tombstones.append(regex_tombstone(group.group_id, regex))
                subscriptions.resolve(group.resolved.get(regex), None)
        metadata = GroupMetadata(group.epoch + 1, self._context.topic_hash(subscriptions.topics()))
        member_ids = [member.member_id for member in leaving]
        records = group.removal_of(member_ids, metadata=metadata, others=tombstones)
        return self._timeouts.removal(group, member_ids, records)

    # -- replay

    @property
    def replays(self) -> dict[type, Callable[[Any, Any], None]]:
        return {
            **self._groups.replays,
            ConsumerGroupPartitionMetadataKey: self._replay_topics,
            ConsumerGroupRegularExpressionKey: self._replay_regex,
        }

    def _replay_topics(
        self, key: ConsumerGroupPartitionMetadataKey, value: ConsumerGroupPartitionMetadataValue | None
    ) -> None:
        group = self._groups.replay_into(key.group_id, value)
        if group is not None:
            group.has_topics_record = value is not None

    def _replay_regex(
        self, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
    ) -> None:
        group = self._groups.replay_into(key.group_id, value)
        if group is not None:
            resolved = None
            if value is not None:
                resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            group.resolve(key.regular_expression, resolved)
