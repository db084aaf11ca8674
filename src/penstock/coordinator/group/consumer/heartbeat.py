"""ConsumerGroupHeartbeat: a member joins, stays, and leaves.

Almost all heartbeats have nothing to say, and get nothing to hear: those are answered before anything is
computed, and write nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from penstock.coordinator.group.client import Client
from penstock.coordinator.group.consumer import writing
from penstock.coordinator.group.consumer.assignment import NOTHING, Owned, given_at, in_order, partitions_of
from penstock.coordinator.group.consumer.change import MemberChange
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.consumer.members import (
    check_epoch,
    check_released,
    check_room,
    find_static,
    replace_member,
)
from penstock.coordinator.group.consumer.regex_refresh import RegexChange, RegexRefresh
from penstock.coordinator.group.consumer.surroundings import ConsumerSurroundings
from penstock.coordinator.group.consumer.timeouts import Timeouts
from penstock.coordinator.group.member_epochs import JOINING_EPOCH, LEAVING_EPOCH, LEAVING_FOR_A_WHILE_EPOCH
from penstock.coordinator.outcome import CoordinatorRecord, Outcome
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from penstock.protocol.types import random_uuid, uuid_text

NO_TIMEOUT = -1
CLIENT_MAKES_ID_VERSION = 1

PutOutMembers = Callable[[ConsumerGroup, Iterable[ConsumerMember]], Outcome[None]]


class Heartbeats:
    def __init__(
        self,
        around: ConsumerSurroundings,
        timeouts: Timeouts,
        regexes: RegexRefresh,
        put_out: PutOutMembers,
    ) -> None:
        self._around = around
        self._timeouts = timeouts
        self._regexes = regexes
        self._put_out = put_out

    def check(self, request: ConsumerGroupHeartbeatRequest, *, version: int) -> None:
        """What can be told without looking at the group."""
        epoch = request.member_epoch
        if (version >= CLIENT_MAKES_ID_VERSION or epoch > 0 or epoch == LEAVING_EPOCH) and _is_blank(
            request.member_id
        ):
            raise _invalid("MemberId must not be empty.")
        for name, value in (
            ("GroupId", request.group_id),
            ("InstanceId", request.instance_id),
            ("RackId", request.rack_id),
        ):
            if value is not None and _is_blank(value):
                raise _invalid(f"{name} must not be empty; leave it out if it is not used.")
        if epoch == JOINING_EPOCH:
            _check_joining(request)
        elif epoch == LEAVING_FOR_A_WHILE_EPOCH and request.instance_id is None:
            raise _invalid("MemberEpoch -2 needs an InstanceId: only a static member can leave temporarily.")
        elif epoch < LEAVING_FOR_A_WHILE_EPOCH:
            raise _invalid(f"MemberEpoch {epoch} is invalid.")
        if request.server_assignor is not None and request.server_assignor not in self._around.assignors:
            raise Refused(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"Unsupported assignor {request.server_assignor}; supported: {', '.join(self._around.assignors)}.",
            )

    def answer_steady(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, client: Client
    ) -> ConsumerGroupHeartbeatResponse | None:
        """The answer to a heartbeat that says nothing new, where nothing new is to be told; None: look closer."""
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

    def stay(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        records: list[CoordinatorRecord],
    ) -> Outcome[ConsumerGroupHeartbeatResponse]:
        """A member joins, or goes on. `records` are those that make the group, where it is to be made."""
        is_joining = request.member_epoch == JOINING_EPOCH
        check_room(group, request.member_id, size_max=self._around.size_max)
        before = self._find_member(group, request, records)
        change = MemberChange(self._around, self._timeouts, group, before, records)
        names_changed = change.describe(_updated(before, request, client))
        regex_change = self._regexes.note(group, before, change.member, records)
        is_due = names_changed or regex_change is RegexChange.RESOLVED
        if is_due or group.is_stale:
            change.renew_epoch(is_due=is_due)
        target = change.update_target()
        change.advance(
            target,
            request.topic_partitions,
            has_changed_subscription=names_changed or regex_change is not RegexChange.NONE,
        )
        member = change.member
        response = self._keep_alive(group, member)
        if is_joining or _is_full(request) or member.assigned != before.assigned:
            response.assignment = _write_assignment(member.assigned)
        return Outcome(response, records)

    def leave(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest
    ) -> Outcome[ConsumerGroupHeartbeatResponse]:
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = find_static(group, request.instance_id, request.member_id)
            if request.member_epoch == LEAVING_FOR_A_WHILE_EPOCH:
                return Outcome(
                    _left(request), [writing.place_record(group.group_id, _away_for_a_while(member))]
                )
        gone = self._put_out(group, [member])
        return Outcome(_left(request), gone.records, gone.when_committed)

    def _keep_alive(self, group: ConsumerGroup, member: ConsumerMember) -> ConsumerGroupHeartbeatResponse:
        settings = self._around.group_settings(group.group_id)
        self._timeouts.set_session(
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
        if epoch != JOINING_EPOCH:
            if instance_id is None:
                member = group.member(member_id)
            else:
                member = find_static(group, instance_id, member_id)
            check_epoch(member, epoch, request.topic_partitions)
            return member
        # Version 0 lets the coordinator choose (KIP-1082).
        member_id = member_id or uuid_text(random_uuid(self._around.context.around.random))
        existing = group.static_member(instance_id)
        if existing is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if not existing.is_classic:
            check_released(existing, member_id)
        return replace_member(group, existing, member_id, records)


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
    """With what the request says; what it does not say stays."""
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
    """A member that tells everything, as after a lost connection, wants to hear everything."""
    return (
        request.rebalance_timeout_ms != NO_TIMEOUT
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def _away_for_a_while(member: ConsumerMember) -> ConsumerMember:
    """What it has is kept for it; what it was to give up is free. Epochs of a time before it leaves mean nothing to
    whoever comes back."""
    return replace(
        member,
        epoch=LEAVING_FOR_A_WHILE_EPOCH,
        assigned=given_at(partitions_of(member.assigned), 0),
        revoking=NOTHING,
    )


def _left(request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        member_id=request.member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=0
    )


def _write_assignment(owned: Owned) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in in_order(owned)
        ]
    )


def _is_blank(text: str) -> bool:
    return not text.strip()


def _invalid(words: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, words)
