"""Consumer groups (KIP-848) on the wire: whole responses to valid and invalid requests.

Also run against Apache Kafka (`--broker=kafka`), to verify the rules that the unit tests of
`coordinator.group.consumer` expect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.admin import new_name
from harness.brokers import Broker
from harness.group_requests import await_coordinator
from harness.offset_requests import topic_id_of
from harness.requests import ask, create_topic
from harness.waiting import wait_until
from harness.wire import WireConnection
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    DescribedGroup,
)
from penstock.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from penstock.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.protocol.types import Uuid

REBALANCE_MS = 2_000
HEARTBEAT_MS = 500
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
}
NOT_ASKED = -(2**31)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, make_broker: Any) -> Iterator[Broker]:
    broker: Broker = make_broker(tmp_path_factory.mktemp("consumer-groups"), settings=SETTINGS)
    broker.start()
    yield broker
    broker.close()
    broker.check_output()


@pytest.fixture
def group(cluster: Broker) -> Iterator[Group]:
    with WireConnection(cluster.port) as connection:
        group = Group(connection)
        await_coordinator(connection, group.name)
        yield group


class Group:
    """A group that is not there yet, a topic of four partitions for it, and one connection for all its members."""

    def __init__(self, connection: WireConnection) -> None:
        self.connection = connection
        self.name = new_name("readers")
        self.topic = new_name("water")
        create_topic(connection, self.topic, partitions=4)
        self.topic_id = topic_id_of(connection, self.topic)

    # -- the new protocol

    def heartbeat(
        self,
        member_id: str,
        epoch: int,
        *,
        owned: list[int] | None = None,
        version: int = 1,
        **fields: Any,
    ) -> ConsumerGroupHeartbeatResponse:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.name,
            member_id=member_id,
            member_epoch=epoch,
            topic_partitions=None if owned is None else self.partitions(*owned),
        )
        for name, value in fields.items():
            setattr(request, name, value)
        response: ConsumerGroupHeartbeatResponse = ask(self.connection, request, version)
        return response

    def join(self, member_id: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        fields = {
            "rebalance_timeout_ms": REBALANCE_MS,
            "subscribed_topic_names": [self.topic],
            "topic_partitions": [],
            **fields,
        }
        return self.heartbeat(member_id, 0, **fields)

    def partitions(self, *indexes: int, topic_id: Uuid | None = None) -> list[TopicPartitions]:
        id_ = self.topic_id if topic_id is None else topic_id
        return [TopicPartitions(topic_id=id_, partitions=list(indexes))] if indexes else []

    def assignment(self, *indexes: int) -> Assignment:
        return Assignment(topic_partitions=self.partitions(*indexes))

    def expected(self, member_id: str, epoch: int, *indexes: int) -> ConsumerGroupHeartbeatResponse:
        """The response to a member with this assignment."""
        return ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=HEARTBEAT_MS,
            assignment=self.assignment(*indexes),
        )

    def describe(self) -> DescribedGroup:
        request = ConsumerGroupDescribeRequest(group_ids=[self.name], include_authorized_operations=False)
        (described,) = ask(self.connection, request, 1).groups
        assert isinstance(described, DescribedGroup)
        return described

    def type_and_state(self) -> tuple[str, str]:
        (found,) = [
            listed
            for listed in ask(self.connection, ListGroupsRequest(states_filter=[], types_filter=[]), 5).groups
            if listed.group_id == self.name
        ]
        return found.group_type, found.group_state

    # -- the classic one

    def join_as_classic(self, member_id: str = "", *, owned: list[int] | None = None, **fields: Any) -> Any:
        subscription = ConsumerProtocolSubscription(
            topics=[self.topic],
            owned_partitions=[TopicPartition(topic=self.topic, partitions=owned)] if owned else [],
        )
        request = JoinGroupRequest(
            group_id=self.name,
            session_timeout_ms=6_000,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(
                    name="range",
                    metadata=b"\0\1" + codec(ConsumerProtocolSubscription, 1).encode(subscription),
                )
            ],
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return ask(self.connection, request, 9)

    def sync(self, joined: Any, *leads: int, instance_id: str | None = None) -> Any:
        """With `leads`, the member leads a classic group, and takes these."""
        request = SyncGroupRequest(
            group_id=self.name,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(member_id=joined.member_id, assignment=self.embedded(*leads))
            ]
            if leads
            else [],
        )
        return ask(self.connection, request, 5)

    def embedded(self, *indexes: int) -> bytes:
        topics = [TopicPartition(topic=self.topic, partitions=list(indexes))] if indexes else []
        return b"\0\1" + codec(ConsumerProtocolAssignment, 1).encode(
            ConsumerProtocolAssignment(assigned_partitions=topics)
        )

    def classic_heartbeat(self, joined: Any, **fields: Any) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=self.name, generation_id=joined.generation_id, member_id=joined.member_id
        )
        for name, value in fields.items():
            setattr(request, name, value)
        error: ErrorCode = ask(self.connection, request, 4).error_code
        return error

    def start_classic(self) -> Any:
        """The only member, of a classic group."""
        asked = self.join_as_classic()
        assert asked.error_code is ErrorCode.MEMBER_ID_REQUIRED
        joined = self.join_as_classic(asked.member_id)
        assert self.sync(joined, 0, 1, 2, 3).error_code is ErrorCode.NONE
        return joined


# -- members of the new kind


def test_the_first_member_gets_everything(group: Group) -> None:
    assert group.join("one") == group.expected("one", 2, 0, 1, 2, 3)

    assert group.heartbeat("one", 2) == ConsumerGroupHeartbeatResponse(
        member_id="one", member_epoch=2, heartbeat_interval_ms=HEARTBEAT_MS
    )
    described = group.describe()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 2, 2)
    assert described.assignor_name == "uniform"
    assert group.type_and_state() == ("consumer", "Stable")


def test_partitions_are_revoked_before_they_are_assigned(group: Group) -> None:
    group.join("one")

    assert group.join("two") == group.expected("two", 3)
    assert group.describe().group_state == "Reconciling"
    first = group.heartbeat("one", 2)
    assert first.member_epoch == 2
    assert first.assignment is not None
    kept = first.assignment.topic_partitions[0].partitions
    assert len(kept) == 2
    assert group.heartbeat("two", 3).assignment is None
    assert group.heartbeat("one", 2, owned=kept).member_epoch == 3

    rest = [index for index in range(4) if index not in kept]
    assert group.heartbeat("two", 3) == group.expected("two", 3, *rest)
    assert group.describe().group_state == "Stable"


def test_topics_that_grow_and_go(group: Group) -> None:
    group.join("one")
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=group.topic, count=5, assignments=None)],
        timeout_ms=5_000,
        validate_only=False,
    )
    ask(group.connection, request, 3)

    def has_assignment(epoch: int, *indexes: int) -> bool:
        response = group.heartbeat("one", epoch)
        return response.assignment == group.assignment(*indexes)

    wait_until(lambda: has_assignment(2, 0, 1, 2, 3, 4), "the new partition is assigned")
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=group.topic_id)], timeout_ms=5_000)
    ask(group.connection, deletion, 6)
    wait_until(lambda: has_assignment(3), "the topic that is gone is taken away")
    assert group.heartbeat("one", 3, owned=[]).member_epoch == 4


def test_a_pattern_is_resolved_outside_of_the_request(group: Group) -> None:
    pattern = f"{group.topic}|nothing.*"
    first = group.join("one", subscribed_topic_names=[], subscribed_topic_regex=pattern)
    assert first == group.expected("one", 1)

    def is_assigned() -> bool:
        return group.heartbeat("one", 1) == group.expected("one", 2, 0, 1, 2, 3)

    wait_until(is_assigned, "the pattern's topics are assigned")
    assert group.describe().members[0].subscribed_topic_regex == pattern


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"server_assignor": "best"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_an_invalid_request_creates_no_group(group: Group, fields: dict[str, Any], error: ErrorCode) -> None:
    response = group.join(**{"member_id": "one", **fields})

    assert response.error_code is error
    assert response.error_message
    described = group.describe()
    assert described.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert described.error_message == f"Group {group.name} not found."


def test_epochs_that_are_not_the_members_are_fenced(group: Group) -> None:
    group.join("one")
    group.join("two")
    group.heartbeat("one", 2)
    group.heartbeat("one", 2, owned=[])

    assert group.heartbeat("one", 4).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert group.heartbeat("one", 1).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert group.heartbeat("one", 2).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert group.heartbeat("one", 2, owned=[0, 1, 2, 3]).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert group.heartbeat("one", 2, owned=[]).member_epoch == 3
    assert group.heartbeat("nobody", 3).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_static_members_leave_and_come_back(group: Group) -> None:
    group.join("one", instance_id="shelf")

    assert group.join("two", instance_id="shelf").error_code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert group.heartbeat("two", 2, instance_id="shelf").error_code is ErrorCode.FENCED_INSTANCE_ID
    assert group.heartbeat("two", 2, instance_id="other").error_code is ErrorCode.UNKNOWN_MEMBER_ID
    left = group.heartbeat("one", -2, instance_id="shelf")
    assert left == ConsumerGroupHeartbeatResponse(member_id="one", member_epoch=-2, heartbeat_interval_ms=0)
    assert group.heartbeat("one", 2, instance_id="shelf").error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert group.join("two", instance_id="shelf") == group.expected("two", 2, 0, 1, 2, 3)
    assert group.heartbeat("one", -1, instance_id="shelf").error_code is ErrorCode.FENCED_INSTANCE_ID
    assert [member.member_id for member in group.describe().members] == ["two"]


def test_a_member_that_does_not_revoke_its_partitions_in_time_is_fenced(group: Group) -> None:
    group.join("one")
    group.join("two")
    group.heartbeat("one", 2)

    wait_until(lambda: len(group.describe().members) == 1, "the first member is removed from the group")

    assert group.heartbeat("one", 2).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.heartbeat("two", 3) == group.expected("two", 4, 0, 1, 2, 3)


def test_a_group_is_empty_when_all_have_left(group: Group) -> None:
    group.join("one")

    left = group.heartbeat("one", -1)

    assert left == ConsumerGroupHeartbeatResponse(member_id="one", member_epoch=-1, heartbeat_interval_ms=0)
    assert group.type_and_state() == ("consumer", "Empty")
    assert group.join("one").member_epoch == 4


# -- groups that change their type


def test_a_classic_member_continues_in_a_consumer_group(group: Group) -> None:
    joined = group.start_classic()
    assert group.type_and_state() == ("classic", "Stable")
    assert group.heartbeat("new", 5).error_code is ErrorCode.GROUP_ID_NOT_FOUND

    assert group.join("new") == group.expected("new", 2)
    assert group.type_and_state() == ("consumer", "Reconciling")
    assert sorted(member.member_type for member in group.describe().members) == [0, 1]
    assert group.classic_heartbeat(joined) is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.classic_heartbeat(joined, generation_id=9) is ErrorCode.ILLEGAL_GENERATION
    assert group.classic_heartbeat(joined, member_id="new") is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.sync(joined).error_code is ErrorCode.REBALANCE_IN_PROGRESS

    again = group.join_as_classic(joined.member_id, owned=[0, 1, 2, 3])
    assert (again.error_code, again.generation_id, again.leader, again.members) == (ErrorCode.NONE, 1, "", [])
    (old,) = [member for member in group.describe().members if member.member_type == 0]
    kept = old.target_assignment.topic_partitions[0].partitions
    assert group.sync(again).assignment == group.embedded(*kept)
    assert group.classic_heartbeat(again) is ErrorCode.REBALANCE_IN_PROGRESS
    settled = group.join_as_classic(joined.member_id, owned=kept)
    assert settled.generation_id == 2
    assert group.sync(settled).assignment == group.embedded(*kept)
    assert group.classic_heartbeat(settled) is ErrorCode.NONE
    assert group.heartbeat("new", 2) == group.expected(
        "new", 2, *(index for index in range(4) if index not in kept)
    )

    assert group.heartbeat("new", -1).error_code is ErrorCode.NONE
    assert group.type_and_state() == ("classic", "PreparingRebalance")
    last = group.join_as_classic(joined.member_id, owned=kept)
    assert (last.generation_id, last.leader) == (3, joined.member_id)
    assert group.sync(last, 0, 1, 2, 3).error_code is ErrorCode.NONE


def test_the_last_new_member_comes_back_as_a_classic_one(group: Group) -> None:
    group.join("new", instance_id="shelf")
    group.heartbeat("new", -2, instance_id="shelf")

    joined = group.join_as_classic(group_instance_id="shelf")

    assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 2)
    assert group.type_and_state() == ("classic", "Stable")
    assert group.sync(joined, instance_id="shelf").assignment == group.embedded(0, 1, 2, 3)


def test_classic_members_that_do_not_fit_are_refused(group: Group) -> None:
    group.join("new")

    assert group.join_as_classic(protocol_type="connect").error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    asked = group.join_as_classic()
    assert asked.error_code is ErrorCode.MEMBER_ID_REQUIRED
    assert asked.protocol_name is None
    request = LeaveGroupRequest(group_id=group.name, members=[MemberIdentity(member_id="nobody")])
    (left,) = ask(group.connection, request, 5).members
    assert left.error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(group.describe().members) == 1


def test_an_empty_group_takes_the_type_of_its_first_member(group: Group) -> None:
    group.join("new")
    group.heartbeat("new", -1)
    joined = group.start_classic()
    assert group.type_and_state() == ("classic", "Stable")

    leaving = [MemberIdentity(member_id=joined.member_id)]
    ask(group.connection, LeaveGroupRequest(group_id=group.name, members=leaving), 5)
    assert group.type_and_state() == ("classic", "Empty")

    assert group.join("new").error_code is ErrorCode.NONE
    assert group.type_and_state() == ("consumer", "Stable")


def test_where_the_protocol_is_not_served_it_is_unsupported(tmp_path: Any, make_broker: Any) -> None:
    broker: Broker = make_broker(tmp_path, settings={"group.coordinator.rebalance.protocols": "classic"})
    broker.start()
    try:
        with WireConnection(broker.port) as connection:
            group = Group(connection)
            assert group.join("one").error_code is ErrorCode.UNSUPPORTED_VERSION
            assert group.describe().error_code is ErrorCode.UNSUPPORTED_VERSION
    finally:
        broker.close()
