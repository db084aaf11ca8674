"""Classic groups on the wire: whole responses to valid and invalid requests, in every version.

Also run against Apache Kafka (`--broker=kafka`), to verify the rules that the unit tests of
`coordinator.group.classic` expect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.admin import new_name
from harness.brokers import Broker
from harness.group_requests import await_coordinator
from harness.requests import ask
from harness.waiting import wait_until
from harness.wire import WireConnection
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.declare import declaration_of
from penstock.protocol.errors import ErrorCode
from penstock.protocol.headers import encode_request_header, read_response_header
from penstock.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from penstock.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from penstock.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

JOIN_VERSIONS = range(10)
SYNC_VERSIONS = range(6)
SESSION_MS = 20_000
SHORTEST_SESSION_MS = 300
LONGEST_SESSION_MS = 1_800_000


class Member:
    """A client with its own connection, because a waiting member cannot send other requests."""

    def __init__(self, port: int, group: str) -> None:
        self.connection = WireConnection(port)
        self.group = group
        self.joined: Any = None
        self._key = ApiKey.JOIN_GROUP
        self._version = 0

    def send(self, request: Any, version: int) -> None:
        self._key, self._version = ApiKey(declaration_of(type(request)).key), version
        head = encode_request_header(self._key, version, 1, "wire")
        self.connection.send_payload(head + codec(type(request), version).encode(request))

    def receive(self) -> Any:
        payload = self.connection.receive_payload()
        _, position = read_response_header(memoryview(payload), self._key, self._version)
        response, _ = codec(api(self._key).response_class(), self._version).decode(payload, position)
        return response

    def ask(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return self.receive()

    # -- requests

    def join_request(self, member_id: str = "", version: int = 9, **changes: Any) -> JoinGroupRequest:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS if version >= 1 else -1,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"meta")],
        )
        for name, value in changes.items():
            setattr(request, name, value)
        return request

    def join(self, member_id: str = "", version: int = 9, **changes: Any) -> Any:
        """The response to the first join, or to the second join with the assigned member id."""
        answer = self.ask(self.join_request(member_id, version, **changes), version)
        if answer.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            answer = self.ask(self.join_request(answer.member_id, version, **changes), version)
        return self.take(answer)

    def take(self, joined: Any) -> Any:
        if joined.error_code is ErrorCode.NONE:
            self.joined = joined
        return joined

    def sync_request(self, assignments: dict[str, bytes] | None = None, **changes: Any) -> SyncGroupRequest:
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.joined.generation_id,
            member_id=self.joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        )
        for name, value in changes.items():
            setattr(request, name, value)
        return request

    def sync(self, assignments: dict[str, bytes] | None = None, version: int = 5, **changes: Any) -> Any:
        return self.ask(self.sync_request(assignments, **changes), version)

    def heartbeat(self, version: int = 4, **changes: Any) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=self.group, generation_id=self.joined.generation_id, member_id=self.joined.member_id
        )
        for name, value in changes.items():
            setattr(request, name, value)
        answer = self.ask(request, version)
        error: ErrorCode = answer.error_code
        assert answer == HeartbeatResponse(error_code=error)
        return error

    def leave(self, *identities: MemberIdentity, version: int = 5) -> Any:
        members = list(identities) or [MemberIdentity(member_id=self.joined.member_id)]
        return self.ask(LeaveGroupRequest(group_id=self.group, members=members), version)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, make_broker: Any) -> Iterator[Broker]:
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": str(SHORTEST_SESSION_MS),
        "group.max.session.timeout.ms": str(LONGEST_SESSION_MS),
        "group.max.size": "3",
    }
    broker: Broker = make_broker(tmp_path_factory.mktemp("groups"), settings=settings)
    broker.start()
    yield broker
    broker.close()
    broker.check_output()


@pytest.fixture
def group(cluster: Broker) -> str:
    name = new_name("classic")
    with WireConnection(cluster.port) as connection:
        await_coordinator(connection, name)
    return name


@pytest.fixture
def client(cluster: Broker, group: str) -> Iterator[Callable[[], Member]]:
    made: list[Member] = []

    def make() -> Member:
        made.append(Member(cluster.port, group))
        return made[-1]

    yield make
    for member in made:
        member.connection.socket.close()


NewClient = Callable[[], Member]


@pytest.fixture
def alone(client: NewClient) -> Member:
    """The only member of a stable group."""
    member = client()
    joined = member.join()
    assert joined.error_code is ErrorCode.NONE
    assert member.sync({joined.member_id: b"mine"}).assignment == b"mine"
    return member


@pytest.fixture
def pair(alone: Member, client: NewClient) -> tuple[Member, Member]:
    """The leader and the follower of a stable group."""
    follower = client()
    enter(alone, follower)
    assert (
        alone.sync({alone.joined.member_id: b"one", follower.joined.member_id: b"two"}).assignment == b"one"
    )
    assert follower.sync().assignment == b"two"
    return alone, follower


def enter(leader: Member, new: Member, **changes: Any) -> None:
    """One more member joins, and the rebalance completes."""
    request = new.join_request(**changes)
    if request.group_instance_id is None:
        request = new.join_request(new.ask(request, 9).member_id, **changes)
    new.send(request, 9)
    wait_until(lambda: leader.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "the leader must rejoin")
    leader.take(leader.ask(leader.join_request(leader.joined.member_id), 9))
    new.take(new.receive())


def refused(error: ErrorCode, *, member_id: str = "", version: int = 9) -> JoinGroupResponse:
    name = None if version >= 7 else ""
    return JoinGroupResponse(error_code=error, protocol_name=name, leader="", member_id=member_id, members=[])


def described(member: Member) -> DescribedGroup:
    (found,) = ask(member.connection, DescribeGroupsRequest(groups=[member.group]), 5).groups
    assert isinstance(found, DescribedGroup)
    return found


# -- JoinGroup


@pytest.mark.parametrize("version", JOIN_VERSIONS)
def test_every_version_joins(client: NewClient, version: int) -> None:
    member = client()

    joined = member.join(version=version)

    assert joined == JoinGroupResponse(
        generation_id=1,
        protocol_type="consumer" if version >= 7 else None,
        protocol_name="range",
        leader=joined.member_id,
        member_id=joined.member_id,
        members=[JoinGroupResponseMember(member_id=joined.member_id, metadata=b"meta")],
    )
    assert joined.member_id.startswith("wire-")
    assert len(joined.member_id) == len("wire-") + 36


@pytest.mark.parametrize("version", range(4, 10))
def test_a_new_member_has_to_come_back_with_its_id(client: NewClient, version: int) -> None:
    member = client()

    answer = member.ask(member.join_request(), version)

    assert answer == refused(ErrorCode.MEMBER_ID_REQUIRED, member_id=answer.member_id, version=version)
    assert described(member).group_state == "Empty"


@pytest.mark.parametrize("version", JOIN_VERSIONS)
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": SHORTEST_SESSION_MS - 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": LONGEST_SESSION_MS + 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": []}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_join_with_an_unknown_id_returns_the_id(
    client: NewClient, version: int, changes: dict[str, Any], error: ErrorCode
) -> None:
    member = client()

    answer = member.ask(member.join_request("somebody", version, **changes), version)

    assert answer == refused(error, member_id="somebody", version=version)


@pytest.mark.parametrize("version", JOIN_VERSIONS)
@pytest.mark.parametrize("changes", [{"protocols": []}, {"protocol_type": ""}])
def test_members_without_a_protocol_are_inconsistent(
    client: NewClient, version: int, changes: dict[str, Any]
) -> None:
    member = client()

    answer = member.ask(member.join_request("", version, **changes), version)

    assert answer == refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, version=version)


@pytest.mark.parametrize(
    "changes",
    [
        {"protocols": []},
        {"protocol_type": "connect"},
        {"protocols": [JoinGroupRequestProtocol(name="sticky", metadata=b"")]},
    ],
)
def test_a_member_without_a_common_protocol_is_inconsistent(
    alone: Member, client: NewClient, changes: dict[str, Any]
) -> None:
    new = client()

    assert new.ask(new.join_request(**changes), 9) == refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    own_id = alone.joined.member_id
    assert new.ask(new.join_request(own_id, **changes), 9) == refused(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id=own_id
    )
    assert alone.heartbeat() is ErrorCode.NONE


@pytest.mark.parametrize("version", JOIN_VERSIONS)
def test_a_stranger_in_a_group_with_members_is_unknown(
    alone: Member, client: NewClient, version: int
) -> None:
    new = client()

    answer = new.ask(new.join_request("somebody", version), version)

    assert answer == refused(ErrorCode.UNKNOWN_MEMBER_ID, member_id="somebody", version=version)


def test_a_full_group_rejects_new_members(pair: tuple[Member, Member], client: NewClient) -> None:
    leader, follower = pair
    third, fourth = client(), client()
    third.send(third.join_request(), 3)
    wait_until(lambda: leader.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "the leader must rejoin")
    follower.send(follower.join_request(follower.joined.member_id), 9)
    leader.take(leader.ask(leader.join_request(leader.joined.member_id), 9))
    assert len(leader.joined.members) == 3

    assert fourth.ask(fourth.join_request(), 9) == refused(ErrorCode.GROUP_MAX_SIZE_REACHED)


def test_a_follower_that_repeats_its_request_gets_the_missed_response(pair: tuple[Member, Member]) -> None:
    _, follower = pair

    assert follower.ask(follower.join_request(follower.joined.member_id), 9) == follower.joined


def test_a_leader_that_repeats_its_request_before_the_assignment_gets_the_missed_response(
    client: NewClient,
) -> None:
    member = client()
    joined = member.join()

    assert member.join(joined.member_id) == joined


def test_a_leader_that_joins_a_stable_group_begins_a_new_generation(alone: Member) -> None:
    assert alone.join(alone.joined.member_id).generation_id == 2


def test_the_second_generation_has_both(pair: tuple[Member, Member]) -> None:
    leader, follower = pair

    assert leader.joined.generation_id == follower.joined.generation_id == 2
    assert {member.member_id for member in leader.joined.members} == {
        leader.joined.member_id,
        follower.joined.member_id,
    }
    assert follower.joined == JoinGroupResponse(
        generation_id=2,
        protocol_type="consumer",
        protocol_name="range",
        leader=leader.joined.member_id,
        member_id=follower.joined.member_id,
        members=[],
    )


def test_a_protocol_is_chosen_that_all_support(client: NewClient) -> None:
    leader, follower = client(), client()
    both = [JoinGroupRequestProtocol(name=name, metadata=b"meta") for name in ("sticky", "range")]
    leader.join(protocols=both)
    assert leader.joined.protocol_name == "sticky"
    leader.sync(protocol_name="sticky")
    follower.send(follower.join_request(follower.ask(follower.join_request(), 9).member_id), 9)
    wait_until(lambda: leader.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "the leader must rejoin")

    leader.take(leader.ask(leader.join_request(leader.joined.member_id, protocols=both), 9))

    assert leader.joined.protocol_name == follower.receive().protocol_name == "range"


# -- SyncGroup


@pytest.mark.parametrize("version", SYNC_VERSIONS)
def test_every_version_syncs(client: NewClient, version: int) -> None:
    member = client()
    joined = member.join()

    answer = member.sync({joined.member_id: b"mine"}, version=version)

    assert answer == SyncGroupResponse(
        protocol_type="consumer" if version >= 5 else None,
        protocol_name="range" if version >= 5 else None,
        assignment=b"mine",
    )


@pytest.mark.parametrize("version", SYNC_VERSIONS)
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "not-there"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "somebody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": ""}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": 99}, ErrorCode.ILLEGAL_GENERATION),
    ],
)
def test_a_sync_that_is_refused(
    alone: Member, version: int, changes: dict[str, Any], error: ErrorCode
) -> None:
    assert alone.sync(version=version, **changes) == SyncGroupResponse(error_code=error, assignment=b"")


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol_type": None},
        {"protocol_name": None},
        {"protocol_type": "connect"},
        {"protocol_name": "sticky"},
        {"protocol_name": None, "group_id": ""},
    ],
)
def test_a_sync_about_another_protocol_is_inconsistent(alone: Member, changes: dict[str, Any]) -> None:
    error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert alone.sync(**changes) == SyncGroupResponse(error_code=error, assignment=b"")


def test_an_assignment_that_is_too_large_for_the_log_is_refused_and_the_group_rebalances(
    client: NewClient,
) -> None:
    member = client()
    joined = member.join()

    answer = member.sync({joined.member_id: bytes(1_100_000)})

    assert answer == SyncGroupResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, assignment=b"")
    assert described(member).group_state == "PreparingRebalance"


def test_a_member_that_the_leader_omitted_has_an_empty_assignment(alone: Member, client: NewClient) -> None:
    new = client()
    enter(alone, new)
    new.send(new.sync_request(), 5)

    alone.sync({})

    assert new.receive() == SyncGroupResponse(protocol_type="consumer", protocol_name="range", assignment=b"")


def test_a_member_that_waits_for_its_assignment_must_rejoin_when_another_joins(
    alone: Member, client: NewClient
) -> None:
    second, third = client(), client()
    enter(alone, second)
    second.send(second.sync_request(), 5)
    third.send(third.join_request(), 3)

    answer = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, assignment=b"")
    assert second.receive() == answer
    assert alone.sync() == answer


# -- Heartbeat


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({}, ErrorCode.NONE),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "not-there"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "somebody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": ""}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "somebody", "generation_id": 0}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_heartbeats(alone: Member, version: int, changes: dict[str, Any], error: ErrorCode) -> None:
    assert alone.heartbeat(version, **changes) is error


def test_a_heartbeat_before_the_assignment_is_good(client: NewClient) -> None:
    member = client()
    member.join()

    assert member.heartbeat() is ErrorCode.NONE


def test_silence_ends_a_membership(client: NewClient) -> None:
    member = client()
    joined = member.join(session_timeout_ms=SHORTEST_SESSION_MS)
    member.sync({joined.member_id: b"mine"})

    wait_until(lambda: described(member).group_state == "Empty", "the group is empty")

    assert member.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


# -- LeaveGroup


@pytest.mark.parametrize("version", range(3))
def test_one_leaves(alone: Member, version: int) -> None:
    for member_id, error in [
        ("somebody", ErrorCode.UNKNOWN_MEMBER_ID),
        (alone.joined.member_id, ErrorCode.NONE),
        (alone.joined.member_id, ErrorCode.UNKNOWN_MEMBER_ID),
    ]:
        request = LeaveGroupRequest(group_id=alone.group, member_id=member_id)
        assert alone.ask(request, version) == LeaveGroupResponse(error_code=error)
    assert described(alone).group_state == "Empty"


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("group_id", ["", "not-there"])
def test_leaving_a_group_that_is_not_there(alone: Member, version: int, group_id: str) -> None:
    error = ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID
    if version < 3:
        request = LeaveGroupRequest(group_id=group_id, member_id="somebody")
        assert alone.ask(request, version) == LeaveGroupResponse(error_code=error)
        return
    request = LeaveGroupRequest(group_id=group_id, members=[MemberIdentity(member_id="somebody")])
    expected = LeaveGroupResponse(error_code=error)
    if group_id:
        unknown = MemberResponse(member_id="somebody", group_instance_id=None, error_code=error)
        expected = LeaveGroupResponse(members=[unknown])
    assert alone.ask(request, version) == expected


@pytest.mark.parametrize("version", range(3, 6))
def test_several_members_leave_with_a_result_each(alone: Member, client: NewClient, version: int) -> None:
    static = client()
    enter(alone, static, group_instance_id="shelf-1")
    identities = [
        MemberIdentity(member_id="somebody"),
        MemberIdentity(member_id="", group_instance_id="shelf-9"),
        MemberIdentity(member_id=""),
        MemberIdentity(member_id=alone.joined.member_id, group_instance_id="shelf-1"),
        MemberIdentity(member_id="", group_instance_id="shelf-1"),
        MemberIdentity(member_id=alone.joined.member_id),
    ]
    errors = [ErrorCode.UNKNOWN_MEMBER_ID] * 3 + [ErrorCode.FENCED_INSTANCE_ID] + [ErrorCode.NONE] * 2

    answer = alone.leave(*identities, version=version)

    assert answer == LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
            )
            for identity, error in zip(identities, errors, strict=True)
        ]
    )
    assert described(alone).group_state == "Empty"


def test_leaving_without_members_changes_nothing(alone: Member) -> None:
    request = LeaveGroupRequest(group_id=alone.group, members=[])

    assert alone.ask(request, 5) == LeaveGroupResponse()
    assert alone.heartbeat() is ErrorCode.NONE


def test_a_pending_member_can_leave(alone: Member, client: NewClient) -> None:
    new = client()
    given = new.ask(new.join_request(), 9).member_id

    assert new.leave(MemberIdentity(member_id=given)).members[0].error_code is ErrorCode.NONE
    assert new.join(given).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_is_removed_while_it_joins_gets_an_error(pair: tuple[Member, Member]) -> None:
    leader, follower = pair
    leader.send(leader.join_request(leader.joined.member_id), 9)
    wait_until(lambda: follower.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "the leader has joined")

    follower.leave(MemberIdentity(member_id=leader.joined.member_id))

    assert leader.receive() == refused(ErrorCode.UNKNOWN_MEMBER_ID)


# -- static members


@pytest.mark.parametrize("version", range(5, 10))
def test_a_static_member_rejoins_without_a_rebalance(alone: Member, client: NewClient, version: int) -> None:
    first, second = client(), client()
    enter(alone, first, group_instance_id="shelf-1")
    alone.sync({first.joined.member_id: b"theirs"})
    first.sync()

    back = second.join("", version, group_instance_id="shelf-1")

    assert back == JoinGroupResponse(
        generation_id=2,
        protocol_type="consumer" if version >= 7 else None,
        protocol_name="range",
        leader=alone.joined.member_id,
        member_id=back.member_id,
        members=[],
    )
    assert back.member_id.startswith("shelf-1-")
    assert second.sync().assignment == b"theirs"
    assert alone.heartbeat() is ErrorCode.NONE
    assert first.heartbeat(group_instance_id="shelf-1") is ErrorCode.FENCED_INSTANCE_ID
    assert first.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert first.sync(group_instance_id="shelf-1").error_code is ErrorCode.FENCED_INSTANCE_ID
    own_id = first.joined.member_id
    assert first.join(own_id, version, group_instance_id="shelf-1") == refused(
        ErrorCode.FENCED_INSTANCE_ID, member_id=own_id, version=version
    )


@pytest.mark.parametrize("version", [8, 9])
def test_a_static_leader_that_rejoins_does_not_assign_again(client: NewClient, version: int) -> None:
    first, second = client(), client()
    first.join(group_instance_id="shelf-1")
    first.sync({first.joined.member_id: b"mine"})

    back = second.join("", version, group_instance_id="shelf-1")

    if version < 9:
        assert (back.leader, back.members) == (first.joined.member_id, [])
    else:
        assert (back.leader, back.skip_assignment) == (back.member_id, True)
        assert back.members == [
            JoinGroupResponseMember(member_id=back.member_id, group_instance_id="shelf-1", metadata=b"meta")
        ]
    assert second.sync().assignment == b"mine"


def test_an_unknown_instance_id_is_refused(alone: Member) -> None:
    assert alone.heartbeat(group_instance_id="shelf-1") is ErrorCode.UNKNOWN_MEMBER_ID
    assert alone.sync(group_instance_id="shelf-1").error_code is ErrorCode.UNKNOWN_MEMBER_ID
    own_id = alone.joined.member_id
    assert alone.join(own_id, group_instance_id="shelf-1") == refused(
        ErrorCode.UNKNOWN_MEMBER_ID, member_id=own_id
    )


def test_a_pending_member_id_is_not_for_static_members(client: NewClient) -> None:
    new = client()
    given = new.ask(new.join_request(), 9).member_id

    assert new.join(given, group_instance_id="shelf-1") == refused(ErrorCode.UNKNOWN_SERVER_ERROR)


def test_a_static_member_that_waits_with_its_old_id_is_fenced(alone: Member, client: NewClient) -> None:
    first, second = client(), client()
    first.send(first.join_request(group_instance_id="shelf-1"), 9)
    wait_until(lambda: alone.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "the first has come")
    second.send(second.join_request(group_instance_id="shelf-1"), 9)

    fenced = first.receive()

    assert fenced == refused(ErrorCode.FENCED_INSTANCE_ID, member_id=fenced.member_id)
    assert fenced.member_id.startswith("shelf-1-")


# -- DescribeGroups, as far as it is about the state


def test_the_description_of_members_depends_on_the_state(alone: Member, client: NewClient) -> None:
    description = described(alone)
    (member,) = description.members
    assert (description.group_state, description.protocol_type, description.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    assert (member.client_id, member.client_host) == ("wire", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"meta", b"mine")

    new = client()
    new.send(new.join_request(), 3)
    wait_until(lambda: alone.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS, "another member joins")

    description = described(alone)
    assert (description.group_state, description.protocol_data, len(description.members)) == (
        "PreparingRebalance",
        "",
        2,
    )
    assert {member.member_metadata for member in description.members} == {b""}
