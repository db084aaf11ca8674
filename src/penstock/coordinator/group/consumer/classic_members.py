"""The classic APIs, sent to a group of the new type by members that have not been upgraded yet (KIP-848).

The coordinator assigns their partitions too. It answers JoinGroup at once, with the member's epoch for a generation and
nobody for a leader; SyncGroup gives what the member has in that epoch; and a heartbeat says REBALANCE_IN_PROGRESS when
there is something to give up or to receive, whereupon the member joins again and says what it has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock.coordinator.group.classic.leave import leave_response, leaving_members
from penstock.coordinator.group.classic.member import (
    join_refusal,
    read_protocols,
    rebalance_timeout_of,
)
from penstock.coordinator.group.client import Client
from penstock.coordinator.group.consumer.change import MemberChange
from penstock.coordinator.group.consumer.embedded import as_reported, read_subscription, write_assignment
from penstock.coordinator.group.consumer.group import CONSUMER_PROTOCOL, ConsumerGroup
from penstock.coordinator.group.consumer.heartbeat import PutOutMembers
from penstock.coordinator.group.consumer.member import ConsumerMember, MemberState
from penstock.coordinator.group.consumer.members import (
    check_instance,
    check_room,
    find_static,
    replace_member,
    unknown_instance,
)
from penstock.coordinator.group.consumer.migration import Migration
from penstock.coordinator.group.consumer.reconciliation import Target
from penstock.coordinator.group.consumer.regex_refresh import RegexChange, RegexRefresh
from penstock.coordinator.group.consumer.surroundings import ConsumerSurroundings, MigrationPolicy
from penstock.coordinator.group.consumer.timeouts import Timeouts
from penstock.coordinator.group.records.consumer import ClassicMemberMetadata, ClassicProtocol
from penstock.coordinator.outcome import CoordinatorRecord, Outcome
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode, MalformedMessage
from penstock.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from penstock.protocol.types import random_uuid, uuid_text

MEMBER_ID_REQUIRED_VERSION = 4  # of JoinGroup (KIP-394)


class ClassicMembers:
    def __init__(
        self,
        around: ConsumerSurroundings,
        timeouts: Timeouts,
        regexes: RegexRefresh,
        migration: Migration,
        put_out: PutOutMembers,
    ) -> None:
        self._around = around
        self._timeouts = timeouts
        self._regexes = regexes
        self._migration = migration
        self._put_out = put_out

    # -- JoinGroup

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, *, client: Client, version: int
    ) -> Outcome[JoinGroupResponse]:
        if self._around.migration_policy is MigrationPolicy.DISABLED:
            raise Refused(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"{group.group_id} takes members of the new kind alone: group.consumer.migration.policy is disabled.",
            )
        is_unknown = not request.member_id
        member_id = request.member_id or uuid_text(random_uuid(self._around.context.around.random))
        check_room(group, member_id, size_max=self._around.size_max)
        _check_protocols(group, request, member_id)
        if is_unknown and request.group_instance_id is None and version >= MEMBER_ID_REQUIRED_VERSION:
            self._timeouts.expect_newcomer(group.group_id, member_id, request.session_timeout_ms)
            return Outcome(join_refusal(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        subscription = _read_subscription(request)
        has_any = any(topic.partitions for topic in subscription.owned_partitions)
        if has_any and not is_unknown and request.group_instance_id is None:
            self._check_owner(group, member_id)
        records: list[CoordinatorRecord] = []
        replaced = group.static_member(request.group_instance_id)
        is_downgrade = replaced is not None and self._migration.can_downgrade_replacing(group, replaced)
        before = _find_member(group, request, member_id, records, is_unknown=is_unknown)
        change = MemberChange(self._around, self._timeouts, group, before, records)
        rebalance_timeout_ms = rebalance_timeout_of(request, version)
        names_changed = change.describe(
            _updated(before, request, subscription, client, rebalance_timeout_ms=rebalance_timeout_ms)
        )
        regex_change = self._regexes.note(group, before, change.member, records)
        has_changed = names_changed or regex_change is not RegexChange.NONE
        if has_changed or group.is_stale:
            change.renew_epoch(is_due=has_changed)
        if is_downgrade:
            self._downgrade(change, subscription, has_changed=has_changed)
        else:
            target = change.update_target()
            self._advance(change, target, subscription, has_changed=has_changed)
        member = change.member
        assert member.classic is not None
        if before.member_id in group.members and not is_downgrade:
            # It is here, however long the log takes. Kafka puts it out if that is longer than its session, or if it was
            # late to sync after an earlier join whose answer it lost.
            self._timeouts.cancel_join(group.group_id, member.member_id)
            self._timeouts.cancel_sync(group.group_id, member.member_id)
            self._timeouts.set_session(group.group_id, member.member_id, request.session_timeout_ms)

        def written(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                return
            self._timeouts.cancel_newcomer(group.group_id, member.member_id)
            self._timeouts.cancel_join(group.group_id, member.member_id)
            if not is_downgrade:
                self._timeouts.set_session(group.group_id, member.member_id, request.session_timeout_ms)
                self._timeouts.expect_sync(group.group_id, member.member_id, rebalance_timeout_ms)

        return Outcome(
            JoinGroupResponse(
                generation_id=member.epoch,
                protocol_type=CONSUMER_PROTOCOL,
                protocol_name=member.classic.supported_protocols[0].name,
                leader="",
                member_id=member.member_id,
                members=[],
            ),
            records,
            written,
        )

    def _check_owner(self, group: ConsumerGroup, member_id: str) -> None:
        """Of one that says what it has: it was put out, and does not know, if it is neither a member nor was just given
        its id. Kafka takes it for a new member, which goes on reading, and may commit, what by now others have."""
        if member_id in group.members or self._timeouts.expects_newcomer(group.group_id, member_id):
            return
        raise Refused(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Group {group.group_id} has no member {member_id}; give up all partitions and rejoin.",
        )

    def _advance(
        self,
        change: MemberChange,
        target: Target,
        subscription: ConsumerProtocolSubscription,
        *,
        has_changed: bool,
    ) -> None:
        reported = as_reported(subscription, self._around.image)
        change.advance(target, reported, has_changed_subscription=has_changed)

    def _downgrade(
        self, change: MemberChange, subscription: ConsumerProtocolSubscription, *, has_changed: bool
    ) -> None:
        """The last member of the new kind comes back as a classic one."""
        group = change.group
        reason = None
        if group.target_epoch.number < change.epoch:
            reason = "it was downgraded with an assignment that is out of date"
        else:
            target = Target(group.target_epoch.number, group.target_of(change.member))
            self._advance(change, target, subscription, has_changed=has_changed)
            # A classic group takes its assignments for granted. Kafka lets it; but a member that has not given up
            # yet what another one is assigned would go on reading it beside that one.
            if not all(member.is_reconciled_to(target.epoch) for member in _others(change)):
                reason = "it was downgraded while members were giving up partitions"
        change.records += self._migration.downgrade(group, [], joining=change.member, rebalance_reason=reason)

    # -- SyncGroup, Heartbeat, LeaveGroup

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> Outcome[SyncGroupResponse]:
        member, classic = _check_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        protocol = classic.supported_protocols[0]
        names = {each.name for each in classic.supported_protocols}
        if request.protocol_type not in (None, CONSUMER_PROTOCOL) or request.protocol_name not in (
            None,
            *names,
        ):
            raise Refused(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Member {member.member_id} uses the protocol {protocol.name} of type {CONSUMER_PROTOCOL}.",
            )
        self._timeouts.cancel_sync(group.group_id, member.member_id)
        # It joined a classic group that agreed on another protocol of its own, and was upgraded before it could sync.
        # Kafka calls that inconsistent, which ends a consumer for good; to join again is all that it takes.
        is_from_before = request.protocol_name not in (None, protocol.name)
        is_outdated = (
            group.target_epoch.number > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS
        )
        if is_from_before or is_outdated:
            self._timeouts.expect_join(group.group_id, member)
            raise Refused(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"Group {group.group_id} has a new assignment since {member.member_id} joined; rejoin to get it.",
            )
        self._timeouts.set_session(group.group_id, member.member_id, classic.session_timeout_ms)

        def written(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self._timeouts.set_session(group.group_id, member.member_id, classic.session_timeout_ms)

        return Outcome(
            SyncGroupResponse(
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignment=write_assignment(member.assigned, self._around.image, like=protocol.metadata),
            ),
            when_committed=written,
        )

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> Outcome[HeartbeatResponse]:
        member, classic = _check_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        self._timeouts.set_session(group.group_id, member.member_id, classic.session_timeout_ms)
        if (
            member.epoch < group.target_epoch.number
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))
        ):
            self._timeouts.expect_join(group.group_id, member)
            return Outcome(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        return Outcome(HeartbeatResponse())

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, *, version: int
    ) -> Outcome[LeaveGroupResponse]:
        results: list[tuple[MemberIdentity, ErrorCode]] = []
        leaving: dict[str, ConsumerMember] = {}
        for identity in leaving_members(request, version=version):
            try:
                member = _find_leaving(group, identity)
            except Refused as refusal:
                results.append((identity, refusal.error))
            else:
                results.append((identity, ErrorCode.NONE))
                leaving[member.member_id] = member
        gone = self._put_out(group, leaving.values())
        return Outcome(leave_response(results, version=version), gone.records, gone.when_committed)


def _others(change: MemberChange) -> Iterable[ConsumerMember]:
    """All but the one that takes its predecessor's place."""
    predecessor = change.group.static_member(change.member.instance_id)
    return (member for member in change.group.members.values() if member is not predecessor)


def _check_protocols(group: ConsumerGroup, request: JoinGroupRequest, member_id: str) -> None:
    """One of them must be supported by all classic members, so that the group can become a classic one again."""
    is_supported = request.protocol_type == CONSUMER_PROTOCOL and any(
        group.classic_protocols[name] == group.classic_count for name in read_protocols(request.protocols)
    )
    if not is_supported:
        raise Refused(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Member {member_id} supports no assignor that all classic members of the group support.",
        )


def _read_subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(request.protocols[0].metadata)
    except MalformedMessage as error:
        raise Refused(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "The subscription in the JoinGroup request is malformed.",
        ) from error


def _find_member(
    group: ConsumerGroup,
    request: JoinGroupRequest,
    member_id: str,
    records: list[CoordinatorRecord],
    *,
    is_unknown: bool,
) -> ConsumerMember:
    instance_id = request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if not is_unknown:
        return find_static(group, instance_id, member_id)
    existing = group.static_member(instance_id)
    return (
        ConsumerMember(member_id) if existing is None else replace_member(group, existing, member_id, records)
    )


def _updated(
    member: ConsumerMember,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
    client: Client,
    *,
    rebalance_timeout_ms: int,
) -> ConsumerMember:
    protocols = read_protocols(request.protocols)
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms
        ),
        topics=frozenset(subscription.topics),
        regex="",
        client_id=client.client_id,
        client_host=client.host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in protocols.items()
            ],
        ),
    )


def _check_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicMemberMetadata]:
    member = group.member(member_id) if instance_id is None else find_static(group, instance_id, member_id)
    if member.classic is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    return member, member.classic


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise Refused(
            ErrorCode.ILLEGAL_GENERATION,
            f"The generation of member {member.member_id} is {member.epoch}, not {generation}.",
        )


def _find_leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    if identity.group_instance_id is None:
        return group.member(identity.member_id)
    member = group.static_member(identity.group_instance_id)
    if member is None:
        raise unknown_instance(identity.group_instance_id)
    if identity.member_id:  # an administrator knows static members by their instance alone
        check_instance(member, identity.member_id)
    return member
