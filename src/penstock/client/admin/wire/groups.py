"""ListGroups, DeleteGroups, LeaveGroup, and the four ways to describe a group: one for each type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from penstock.client import errors
from penstock.client.admin.groups import (
    ClassicGroup,
    ConsumerGroup,
    ConsumerMember,
    GroupDescription,
    GroupListing,
    GroupMember,
    GroupState,
    GroupType,
    ShareGroup,
)
from penstock.client.admin.operations import operations_of
from penstock.client.admin.outcome import Answers
from penstock.client.admin.wire.reading import answer, check
from penstock.client.admin.wire.streams_groups import read_streams_groups
from penstock.client.cluster import Node, TopicPartition
from penstock.client.errors import PenstockError
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode, MalformedMessage
from penstock.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from penstock.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from penstock.protocol.messages.describe_groups import DescribeGroupsResponse
from penstock.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from penstock.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

CONSUMER_PROTOCOL = "consumer"
ASSIGNMENT_VERSIONS = range(4)
"""Of the classic protocol's assignments; a newer one only adds at the end."""


def list_request(*, types: list[str], states: list[str]) -> ListGroupsRequest:
    return ListGroupsRequest(types_filter=types, states_filter=states)


def read_listed(responses: Iterable[ListGroupsResponse]) -> list[GroupListing]:
    """What all brokers told. A group that moves may be told of by two."""
    listed: dict[str, GroupListing] = {}
    for response in responses:
        check(response.error_code)
        for group in response.groups:
            listed[group.group_id] = GroupListing(
                group_id=group.group_id,
                # Before Kafka 3.8 brokers did not tell the type, because there was one.
                type=GroupType(group.group_type or GroupType.CLASSIC),
                protocol=group.protocol_type,
                state=GroupState(group.group_state),
            )
    return [listed[group_id] for group_id in sorted(listed)]


def delete_request(group_ids: list[str]) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(groups_names=group_ids)


def read_deleted(response: DeleteGroupsResponse) -> Answers[str, None]:
    return {told.group_id: answer(told.error_code, None, told.group_id, None) for told in response.results}


def leave_request(
    group_id: str, *, member_ids: Sequence[str], instance_ids: Sequence[str], reason: str
) -> LeaveGroupRequest:
    return LeaveGroupRequest(
        group_id=group_id,
        members=[
            *(MemberIdentity(member_id=each, reason=reason) for each in member_ids),
            *(MemberIdentity(member_id="", group_instance_id=each, reason=reason) for each in instance_ids),
        ],
    )


def read_left(response: LeaveGroupResponse) -> Answers[str, None]:
    check(response.error_code)
    answers: dict[str, PenstockError | None] = {}
    for told in response.members:
        name = told.group_instance_id or told.member_id
        answers[name] = answer(told.error_code, None, name, None)
    return answers


@dataclass(frozen=True, slots=True)
class GroupForm:
    """One of the APIs that describe groups: each knows groups of its own type only."""

    type: GroupType
    key: ApiKey
    read: Callable[[Any, Node | None], Answers[str, GroupDescription]]

    def request(self, group_ids: list[str], operations: bool) -> Any:
        make = api(self.key).request_class()
        if self.key is ApiKey.DESCRIBE_GROUPS:
            return make(groups=group_ids, include_authorized_operations=operations)
        return make(group_ids=group_ids, include_authorized_operations=operations)


def _read_classic(
    response: DescribeGroupsResponse, coordinator: Node | None
) -> Answers[str, GroupDescription]:
    answers: dict[str, GroupDescription | PenstockError] = {}
    for told in response.groups:
        is_consumer = told.protocol_type == CONSUMER_PROTOCOL
        if told.error_code is ErrorCode.NONE and told.group_state == GroupState.DEAD:
            # What brokers before Kafka 4.0 say of a group that they never heard of.
            answers[told.group_id] = errors.GroupIdNotFound(about=told.group_id)
            continue
        group = ClassicGroup(
            group_id=told.group_id,
            state=GroupState(told.group_state),
            coordinator=coordinator,
            members=tuple(
                GroupMember(
                    member_id=member.member_id,
                    client_id=member.client_id,
                    host=member.client_host,
                    instance_id=member.group_instance_id,
                    assignment=read_assignment(member.member_assignment) if is_consumer else frozenset(),
                )
                for member in told.members
            ),
            authorized_operations=operations_of(told.authorized_operations),
            protocol_type=told.protocol_type,
            assignor=told.protocol_data,
        )
        answers[told.group_id] = answer(told.error_code, told.error_message, told.group_id, group)
    return answers


def read_assignment(data: bytes) -> frozenset[TopicPartition]:
    """What a classic group's leader gave to a member; nothing where it has not yet, or speaks another language."""
    if len(data) < 2:
        return frozenset()
    version = min(max(int.from_bytes(data[:2], "big", signed=True), 0), ASSIGNMENT_VERSIONS[-1])
    try:
        assignment, _ = codec(ConsumerProtocolAssignment, version).decode(memoryview(data), 2)
    except MalformedMessage:
        return frozenset()
    return frozenset(
        TopicPartition(topic.topic, index)
        for topic in assignment.assigned_partitions
        for index in topic.partitions
    )


def _read_consumer(
    response: Any, coordinator: Node | None, *, kind: type[ConsumerGroup | ShareGroup] = ConsumerGroup
) -> Answers[str, GroupDescription]:
    """Share groups are described in the same words."""
    return {
        told.group_id: answer(
            told.error_code,
            told.error_message,
            told.group_id,
            kind(
                group_id=told.group_id,
                state=GroupState(told.group_state),
                coordinator=coordinator,
                members=tuple(map(_consumer_member, told.members)),
                authorized_operations=operations_of(told.authorized_operations),
                assignor=told.assignor_name,
                epoch=told.group_epoch,
                assignment_epoch=told.assignment_epoch,
            ),
        )
        for told in response.groups
    }


_MEMBER_TYPES = {0: True, 1: False}


def _consumer_member(member: Any) -> ConsumerMember:
    """Of a consumer or a share group; the latter has neither instances nor targets nor patterns."""
    target = getattr(member, "target_assignment", None)
    return ConsumerMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        instance_id=getattr(member, "instance_id", None),
        assignment=_partitions(member.assignment),
        rack=member.rack_id,
        epoch=member.member_epoch,
        subscribed_topics=tuple(member.subscribed_topic_names),
        subscribed_pattern=getattr(member, "subscribed_topic_regex", None) or None,
        target=frozenset() if target is None else _partitions(target),
        is_classic=_MEMBER_TYPES.get(getattr(member, "member_type", -1)),
    )


def _partitions(assignment: Any) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.topic_name, index)
        for topic in assignment.topic_partitions
        for index in topic.partitions
    )


FORMS = (
    GroupForm(GroupType.CONSUMER, ApiKey.CONSUMER_GROUP_DESCRIBE, _read_consumer),
    GroupForm(GroupType.STREAMS, ApiKey.STREAMS_GROUP_DESCRIBE, read_streams_groups),
    GroupForm(GroupType.SHARE, ApiKey.SHARE_GROUP_DESCRIBE, partial(_read_consumer, kind=ShareGroup)),
    GroupForm(GroupType.CLASSIC, ApiKey.DESCRIBE_GROUPS, _read_classic),
)
"""The classic form is last: brokers before Kafka 4.0 answer it for every name."""
