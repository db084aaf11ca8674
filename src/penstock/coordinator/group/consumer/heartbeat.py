"""ConsumerGroupHeartbeat: a member joins, stays or leaves.

Almost all heartbeats change nothing. They are answered first, without computing or writing anything.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.coordinator.group.client import Client
from penstock.coordinator.group.consumer.assignment import (
    NOTHING,
    owns_all,
    partitions_of,
    with_epoch,
    write_assignment,
)
from penstock.coordinator.group.consumer.context import ConsumerContext
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.consumer.members import (
    check_released,
    check_size,
    find_member,
    join_member,
)
from penstock.coordinator.group.consumer.regex_refresh import RegexRefresh
from penstock.coordinator.group.consumer.update import MemberUpdate
from penstock.coordinator.group.modern.member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from penstock.coordinator.result import CoordinatorRecord, CoordinatorResult
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

NO_TIMEOUT = -1
CLIENT_CHOOSES_ID_VERSION = 1


class Heartbeats:
    def __init__(self, context: ConsumerContext, regexes: RegexRefresh) -> None:
        self._context = context
        self._regexes = regexes

    def check(self, request: ConsumerGroupHeartbeatRequest, *, version: int) -> None:
        """The checks that do not depend on the group."""
        epoch = request.member_epoch
        if (version >= CLIENT_CHOOSES_ID_VERSION or epoch > 0 or epoch == LEAVE_EPOCH) and _is_blank(
            request.member_id
        ):
            raise _invalid("MemberId must not be empty.")
        for name, value in (
            ("GroupId", request.group_id),
            ("InstanceId", request.instance_id),
            ("RackId", request.rack_id),
        ):
            if value is not None and _is_blank(value):
                raise _invalid(f"{name} must not be empty; omit it if it is not used.")
        if epoch == JOIN_EPOCH:
            _check_joining(request)
        elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
            raise _invalid("MemberEpoch -2 needs an InstanceId: only a static member can leave temporarily.")
        elif epoch < STATIC_LEAVE_EPOCH:
            raise _invalid(f"MemberEpoch {epoch} is invalid.")
        if request.server_assignor is not None and request.server_assignor not in self._context.assignors:
            raise Refused(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"Unsupported assignor {request.server_assignor}; supported: {', '.join(self._context.assignors)}.",
            )

    def answer_unchanged(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, client: Client
    ) -> ConsumerGroupHeartbeatResponse | None:
        """The response to a heartbeat that changes nothing and whose member has nothing to learn; otherwise None."""
        member = group.members.get(request.member_id)
        if (
            member is None
            or request.member_epoch != member.epoch
            or group.target_epoch.number < group.epoch
            or not member.is_reconciled_to(group.target_epoch.number)
            or group.is_stale
            or group.subscriptions.regexes
            or member.classic is not None
            or request.instance_id != member.instance_id
            or request.subscribed_topic_names is not None
            or request.subscribed_topic_regex is not None
            or request.rebalance_timeout_ms != NO_TIMEOUT
            or request.server_assignor is not None
            or request.rack_id is not None
            or client.client_id != member.client_id
            or client.host != member.client_host
        ):
            return None
        return self._keep_alive(group, member)

    def join_or_stay(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        records: list[CoordinatorRecord],
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        """`records` are those that create the group, if it is new."""
        is_joining = request.member_epoch == JOIN_EPOCH
        check_size(group, request.member_id, size_max=self._context.setting("group.consumer.max.size"))
        before = self._find_member(group, request, records)
        update = MemberUpdate(self._context, self._regexes, group, before, records)
        update.set_metadata(_updated(before, request, client))
        update.reconcile(update.update_target(), request.topic_partitions)
        member = update.member
        response = self._keep_alive(group, member)
        if is_joining or _is_full(request) or member.assigned != before.assigned:
            response.assignment = Assignment(
                topic_partitions=write_assignment(TopicPartitions, member.assigned)
            )
        return CoordinatorResult(response, records)

    def leave(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        member = find_member(group, request.member_id, request.instance_id)
        response = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=0
        )
        if request.instance_id is not None and request.member_epoch == STATIC_LEAVE_EPOCH:
            return CoordinatorResult(
                response, [group.records.current(group.group_id, _left_temporarily(member))]
            )
        return self._context.remove(group, [member]).with_response(response)

    def _keep_alive(self, group: ConsumerGroup, member: ConsumerMember) -> ConsumerGroupHeartbeatResponse:
        settings = self._context.group_settings(group.group_id)
        self._context.timeouts.set_session(
            group.group_id, member.member_id, settings.get("consumer.session.timeout.ms")
        )
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=settings.get("consumer.heartbeat.interval.ms"),
        )

    def _find_member(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        records: list[CoordinatorRecord],
    ) -> ConsumerMember:
        member_id, epoch = request.member_id, request.member_epoch
        instance_id = request.instance_id
        if epoch != JOIN_EPOCH:
            member = find_member(group, member_id, instance_id)
            reported = request.topic_partitions
            member.check_epoch(
                epoch, owns_only_assigned=reported is not None and owns_all(member.assigned, reported)
            )
            return member
        # In version 0 the coordinator chooses the id (KIP-1082).
        member_id = member_id or self._context.new_member_id()
        existing = group.static_member(instance_id)
        if existing is not None and not existing.is_classic:
            check_released(existing, member_id)
        return join_member(group, member_id, instance_id, records)


def _check_joining(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == NO_TIMEOUT:
        raise _invalid("RebalanceTimeoutMs must be set when joining.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be set and empty when joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("SubscribedTopicNames or SubscribedTopicRegex must be set when joining.")


def _updated(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: Client
) -> ConsumerMember:
    """The member with the fields that the request sets."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms
            if request.rebalance_timeout_ms == NO_TIMEOUT
            else request.rebalance_timeout_ms
        ),
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        topics=member.topics if names is None else frozenset(names),
        regex=member.regex if regex is None else regex,
        client_id=client.client_id,
        client_host=client.host,
        classic=None,
    )


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """A full request, as after a lost connection, gets a full response."""
    return (
        request.rebalance_timeout_ms != NO_TIMEOUT
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def _left_temporarily(member: ConsumerMember) -> ConsumerMember:
    """The member keeps its assignment, without what was pending revocation. Its successor starts with epoch 0."""
    return replace(
        member,
        epoch=STATIC_LEAVE_EPOCH,
        assigned=with_epoch(partitions_of(member.assigned), 0),
        revoking=NOTHING,
    )


def _is_blank(text: str) -> bool:
    return not text.strip()


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)
