"""ListGroups, DeleteGroups, LeaveGroup, and the four APIs that describe groups, one for each type."""

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
from penstock.client.admin.results import Results
from penstock.client.admin.wire.common import check, value_or_error
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
"""Versions of classic assignments; a newer one only adds fields at the end."""


def list_request(*, types: list[str], states: list[str]) -> ListGroupsRequest:
    return ListGroupsRequest(types_filter=types, states_filter=states)


def read_listed(responses: Iterable[ListGroupsResponse]) -> list[GroupListing]:
    """The groups of all brokers. A group that moves may be listed by two."""
    listed: dict[str, GroupListing] = {}
    for response in responses:
        check(response.error_code)
        for group in response.groups:
            listed[group.group_id] = GroupListing(
                group_id=group.group_id,
                # Before Kafka 3.8 brokers did not send the type, because there was only one.
                type=GroupType(group.group_type or GroupType.CLASSIC),
                protocol=group.protocol_type,
                state=GroupState(group.group_state),
            )
    return [listed[group_id] for group_id in sorted(listed)]


def delete_request(group_ids: list[str]) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(groups_names=group_ids)


def read_deleted(response: DeleteGroupsResponse) -> Results[str, None]:
    return {
        result.group_id: value_or_error(result.error_code, None, result.group_id, None)
        for result in response.results
    }


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


def read_left(response: LeaveGroupResponse) -> Results[str, None]:
    check(response.error_code)
    results: dict[str, PenstockError | None] = {}
    for result in response.members:
        name = result.group_instance_id or result.member_id
        results[name] = value_or_error(result.error_code, None, name, None)
    return results


@dataclass(frozen=True, slots=True)
class DescribeApi:
    """An API that describes groups of one type."""

    type: GroupType
    key: ApiKey
    read: Callable[[Any, Node | None], Results[str, GroupDescription]]

    def request(self, group_ids: list[str], operations: bool) -> Any:
        make = api(self.key).request_class()
        if self.key is ApiKey.DESCRIBE_GROUPS:
            return make(groups=group_ids, include_authorized_operations=operations)
        return make(group_ids=group_ids, include_authorized_operations=operations)


def _read_classic(
    response: DescribeGroupsResponse, coordinator: Node | None
) -> Results[str, GroupDescription]:
    results: dict[str, GroupDescription | PenstockError] = {}
    for result in response.groups:
        is_consumer = result.protocol_type == CONSUMER_PROTOCOL
        if result.error_code is ErrorCode.NONE and result.group_state == GroupState.DEAD:
            # The response of brokers before Kafka 4.0 for an unknown group.
            results[result.group_id] = errors.GroupIdNotFound(about=result.group_id)
            continue
        group = ClassicGroup(
            group_id=result.group_id,
            state=GroupState(result.group_state),
            coordinator=coordinator,
            members=tuple(
                GroupMember(
                    member_id=member.member_id,
                    client_id=member.client_id,
                    host=member.client_host,
                    instance_id=member.group_instance_id,
                    assignment=read_assignment(member.member_assignment) if is_consumer else frozenset(),
                )
                for member in result.members
            ),
            authorized_operations=operations_of(result.authorized_operations),
            protocol_type=result.protocol_type,
            assignor=result.protocol_data,
        )
        results[result.group_id] = value_or_error(
            result.error_code, result.error_message, result.group_id, group
        )
    return results


def read_assignment(data: bytes) -> frozenset[TopicPartition]:
    """The assignment of a member of a classic group; empty if there is none yet, or it has another format."""
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
) -> Results[str, GroupDescription]:
    """Share groups are described by the same fields."""
    return {
        result.group_id: value_or_error(
            result.error_code,
            result.error_message,
            result.group_id,
            kind(
                group_id=result.group_id,
                state=GroupState(result.group_state),
                coordinator=coordinator,
                members=tuple(map(_consumer_member, result.members)),
                authorized_operations=operations_of(result.authorized_operations),
                assignor=result.assignor_name,
                epoch=result.group_epoch,
                assignment_epoch=result.assignment_epoch,
            ),
        )
        for result in response.groups
    }


_MEMBER_TYPES = {0: True, 1: False}


def _consumer_member(member: Any) -> ConsumerMember:
    """A member of a consumer or a share group; the latter has no instance id, target assignment and pattern."""
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


DESCRIBE_APIS = (
    DescribeApi(GroupType.CONSUMER, ApiKey.CONSUMER_GROUP_DESCRIBE, _read_consumer),
    DescribeApi(GroupType.STREAMS, ApiKey.STREAMS_GROUP_DESCRIBE, read_streams_groups),
    DescribeApi(GroupType.SHARE, ApiKey.SHARE_GROUP_DESCRIBE, partial(_read_consumer, kind=ShareGroup)),
    DescribeApi(GroupType.CLASSIC, ApiKey.DESCRIBE_GROUPS, _read_classic),
)
"""The classic API is last: brokers before Kafka 4.0 answer it for every name."""
