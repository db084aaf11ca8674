"""Members of a consumer group that still use the classic protocol (KIP-848).

The coordinator assigns their partitions too. It answers JoinGroup at once, with the member epoch as the generation and
without a leader. SyncGroup returns the assignment of that epoch. A heartbeat returns REBALANCE_IN_PROGRESS when the
member has to revoke or can receive partitions; the member then rejoins and reports what it owns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock.coordinator.group.classic.group import CONSUMER_PROTOCOL
from penstock.coordinator.group.classic.join import MEMBER_ID_REQUIRED_VERSION
from penstock.coordinator.group.classic.leave import leave_response, leaving_members
from penstock.coordinator.group.classic.member import (
    join_error,
    read_protocols,
    rebalance_timeout_of,
)
from penstock.coordinator.group.client import Client
from penstock.coordinator.group.consumer.assignment import TopicPartitions
from penstock.coordinator.group.consumer.context import (
    JOIN,
    SYNC,
    ConsumerContext,
    MigrationPolicy,
)
from penstock.coordinator.group.consumer.embedded import as_reported, read_subscription, write_assignment
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.consumer.members import (
    check_instance,
    check_size,
    find_member,
    join_member,
    unknown_instance,
)
from penstock.coordinator.group.consumer.migration import Migration
from penstock.coordinator.group.consumer.reconciliation import Target
from penstock.coordinator.group.consumer.regex_refresh import RegexRefresh
from penstock.coordinator.group.consumer.update import MemberUpdate
from penstock.coordinator.group.modern.member import MemberState
from penstock.coordinator.group.records.consumer import ClassicMemberMetadata, ClassicProtocol
from penstock.coordinator.result import DONE, CoordinatorRecord, CoordinatorResult
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode, MalformedMessage
from penstock.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicMembers:
    def __init__(self, context: ConsumerContext, regexes: RegexRefresh, migration: Migration) -> None:
        self._context = context
        self._timeouts = context.timeouts
        self._regexes = regexes
        self._migration = migration

    # -- JoinGroup

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, *, client: Client, version: int
    ) -> CoordinatorResult[JoinGroupResponse]:
        if self._context.migration_policy is MigrationPolicy.DISABLED:
            raise Refused(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Group {group.group_id} does not accept classic members: group.consumer.migration.policy is disabled.",
            )
        is_unknown = not request.member_id
        member_id = request.member_id or self._context.new_member_id()
        check_size(group, member_id, size_max=self._context.setting("group.consumer.max.size"))
        _check_protocols(group, request, member_id)
        if is_unknown and request.group_instance_id is None and version >= MEMBER_ID_REQUIRED_VERSION:
            key = _pending_key(group, member_id)
            self._context.timers.set(key, request.session_timeout_ms, lambda: DONE)
            return CoordinatorResult(join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        subscription = _read_subscription(request)
        owns_any = any(topic.partitions for topic in subscription.owned_partitions)
        if owns_any and not is_unknown and request.group_instance_id is None:
            self._check_owner(group, member_id)
        records: list[CoordinatorRecord] = []
        replaced = group.static_member(request.group_instance_id)
        is_downgrade = replaced is not None and self._migration.can_downgrade_replacing(group, replaced)
        if request.group_instance_id is not None and not is_unknown:
            before = find_member(group, member_id, request.group_instance_id)
        else:
            before = join_member(group, member_id, request.group_instance_id, records)
        update = MemberUpdate(self._context, self._regexes, group, before, records)
        rebalance_timeout_ms = rebalance_timeout_of(request, version)
        update.set_metadata(
            _updated(before, request, subscription, client, rebalance_timeout_ms=rebalance_timeout_ms)
        )
        reported = as_reported(subscription, self._context.image)
        if is_downgrade:
            self._downgrade(update, reported)
        else:
            update.reconcile(update.update_target(), reported)
        member = update.member
        assert member.classic is not None
        if before.member_id in group.members and not is_downgrade:
            # The member is alive, however long the log takes. Kafka removes it if that is longer than its session, or
            # if it does not sync after an earlier join whose response was lost.
            self._timeouts.cancel(JOIN, group.group_id, member.member_id)
            self._timeouts.cancel(SYNC, group.group_id, member.member_id)
            self._timeouts.set_session(group.group_id, member.member_id, request.session_timeout_ms)

        def written(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                return
            self._context.timers.cancel(_pending_key(group, member.member_id))
            self._timeouts.cancel(JOIN, group.group_id, member.member_id)
            if not is_downgrade:
                self._timeouts.set_session(group.group_id, member.member_id, request.session_timeout_ms)
                self._timeouts.set(SYNC, group.group_id, member.member_id, rebalance_timeout_ms)

        result = CoordinatorResult(
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
        return self._migration.log_downgrade(group, result) if is_downgrade else result

    def _check_owner(self, group: ConsumerGroup, member_id: str) -> None:
        """A sender that owns partitions, but is neither a member nor has just received its id, was removed from the
        group. Kafka adds it as a new member, which goes on reading and committing partitions of other members."""
        if member_id in group.members or _pending_key(group, member_id) in self._context.timers:
            return
        raise Refused(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Group {group.group_id} has no member {member_id}; give up all partitions and rejoin.",
        )

    def _downgrade(self, update: MemberUpdate, reported: Sequence[TopicPartitions]) -> None:
        """The last member with the consumer protocol rejoins as a classic one."""
        group = update.group
        reason = None
        if group.target_epoch.number < update.epoch:
            reason = "it was downgraded with an outdated assignment"
        else:
            target = Target(group.target_epoch.number, group.target_of(update.member))
            update.reconcile(target, reported)
            # A classic group trusts its assignments. Kafka does not rebalance here; but a member that has not revoked
            # a partition of another member yet would go on reading it.
            if not all(member.is_reconciled_to(target.epoch) for member in _others(update)):
                reason = "it was downgraded while members were revoking partitions"
        update.records += self._migration.downgrade(group, [], joining=update.member, rebalance_reason=reason)

    # -- SyncGroup, Heartbeat, LeaveGroup

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest) -> CoordinatorResult[SyncGroupResponse]:
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
        self._timeouts.cancel(SYNC, group.group_id, member.member_id)
        # The member joined a classic group with another protocol, which was upgraded before the member synced. Kafka
        # answers INCONSISTENT_GROUP_PROTOCOL, which is fatal for a consumer; to rejoin is enough.
        is_from_classic_group = request.protocol_name not in (None, protocol.name)
        is_outdated = group.target_epoch.number > member.epoch and member.state is not MemberState.UNREVOKED
        if is_from_classic_group or is_outdated:
            self._expect_join(group, member)
            raise Refused(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"Group {group.group_id} has a new assignment since {member.member_id} joined; rejoin to get it.",
            )
        self._timeouts.set_session(group.group_id, member.member_id, classic.session_timeout_ms)

        def written(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self._timeouts.set_session(group.group_id, member.member_id, classic.session_timeout_ms)

        return CoordinatorResult(
            SyncGroupResponse(
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignment=write_assignment(member.assigned, self._context.image, like=protocol.metadata),
            ),
            when_committed=written,
        )

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest
    ) -> CoordinatorResult[HeartbeatResponse]:
        member, classic = _check_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        self._timeouts.set_session(group.group_id, member.member_id, classic.session_timeout_ms)
        if (
            member.epoch < group.target_epoch.number
            or member.state is MemberState.UNREVOKED
            or (member.state is MemberState.UNRELEASED and not group.is_waiting_for_others(member))
        ):
            self._expect_join(group, member)
            return CoordinatorResult(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        return CoordinatorResult(HeartbeatResponse())

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, *, version: int
    ) -> CoordinatorResult[LeaveGroupResponse]:
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
        response = leave_response(results, version=version)
        return self._context.remove(group, leaving.values()).with_response(response)

    def _expect_join(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """The member has to rejoin. Its time counts from the first response that said so."""
        if not self._timeouts.is_set(JOIN, group.group_id, member.member_id):
            self._timeouts.set(JOIN, group.group_id, member.member_id, member.rebalance_timeout_ms)


def _pending_key(group: ConsumerGroup, member_id: str) -> tuple[str, str, str]:
    """The timer of a member id that was given to a client, which should join with it (KIP-394)."""
    return ("pending member", group.group_id, member_id)


def _others(update: MemberUpdate) -> Iterable[ConsumerMember]:
    """All members but the predecessor of the updated one."""
    predecessor = update.group.static_member(update.member.instance_id)
    return (member for member in update.group.members.values() if member is not predecessor)


def _check_protocols(group: ConsumerGroup, request: JoinGroupRequest, member_id: str) -> None:
    """All classic members must share a protocol, so that the group can be downgraded."""
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
    member = find_member(group, member_id, instance_id)
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
    if identity.member_id:  # an administrator only knows the instance id
        check_instance(member, identity.member_id)
    return member
