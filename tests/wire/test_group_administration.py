"""Groups listed, described and deleted on the wire, in every version.

Also run against Apache Kafka (`--broker=kafka`).
"""

from __future__ import annotations

import pytest

from harness.admin import new_name
from harness.group_requests import JoinedMember, join_newer
from harness.offset_requests import NOTHING, commit, delete_groups, delete_offsets, describe, fetch, listed
from harness.requests import ask
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.list_groups import ListGroupsRequest


@pytest.fixture
def connection(group_connection: WireConnection) -> WireConnection:
    return group_connection


@pytest.fixture
def topic(topic_read: str) -> str:
    return topic_read


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_any_version(
    connection: WireConnection, group: str, topic: str, version: int
) -> None:
    commit(connection, group, {topic: {0: 7}})

    answered = ask(connection, ListGroupsRequest(), version)
    (found,) = (each for each in answered.groups if each.group_id == group)

    assert found.protocol_type == ""
    assert found.group_state == ("Empty" if version >= 4 else "")
    assert found.group_type == ("classic" if version >= 5 else "")


def test_groups_are_filtered_by_state_and_type(
    connection: WireConnection, topic: str, member: JoinedMember
) -> None:
    stable, empty = member.group, new_name("readers")
    commit(connection, empty, {topic: {0: 7}})

    def found(**filters: list[str]) -> list[str]:
        return listed(connection, stable, empty, **filters)

    assert found() == [stable, empty]
    assert found(states_filter=["Stable"]) == [stable]
    assert found(states_filter=["eMPTY"]) == [empty]
    assert found(states_filter=[" empty "]) == [empty]
    assert found(states_filter=["Stable", "Empty", "Dancing"]) == [stable, empty]
    assert found(states_filter=["Dancing"]) == []
    assert found(types_filter=["cLASSIC"]) == [stable, empty]
    assert found(types_filter=[" classic "]) == []
    assert found(types_filter=["consumer"]) == []
    assert found(types_filter=["dance"]) == []
    assert found(types_filter=["dance", "classic"], states_filter=["empty"]) == [empty]


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described_in_any_version(
    connection: WireConnection, member: JoinedMember, version: int
) -> None:
    described = describe(connection, member.group, version=version)

    assert (described.error_code, described.error_message) == (ErrorCode.NONE, None)
    assert (described.group_id, described.group_state) == (member.group, "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    (member_description,) = described.members
    assert (member_description.member_id, member_description.client_id, member_description.client_host) == (
        member.member_id,
        "wire",
        "/127.0.0.1",
    )
    assert (member_description.member_metadata[:2], member_description.member_assignment) == (
        b"\0\0",
        b"mine",
    )
    assert described.authorized_operations == -(2**31)


def test_authorized_operations_are_returned_on_request(
    connection: WireConnection, group: str, topic: str
) -> None:
    commit(connection, group, {topic: {0: 7}})

    described = describe(connection, group, version=3, include_authorized_operations=True)

    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Empty", "", "")
    bits = {bit for bit in range(32) if described.authorized_operations >> bit & 1}
    assert bits == {3, 6, 8, 10, 11}, "read, delete, describe, describe and alter configs"


@pytest.mark.parametrize("version", range(7))
def test_a_group_that_is_not_there_is_dead_or_not_found(
    connection: WireConnection, group: str, version: int
) -> None:
    described = describe(connection, group, version=version)

    assert (described.group_state, described.protocol_type, described.members) == ("Dead", "", [])
    if version < 6:
        assert described.error_code is ErrorCode.NONE
    else:
        assert described.error_code is ErrorCode.GROUP_ID_NOT_FOUND
        assert described.error_message == f"Group {group} not found."


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_with_their_offsets(
    connection: WireConnection, topic: str, member: JoinedMember, version: int
) -> None:
    empty = new_name("readers")
    commit(connection, empty, {topic: {0: 7, 1: 8}})

    assert delete_groups(connection, empty, member.group, "nobody", empty, version=version) == {
        empty: ErrorCode.NONE,
        member.group: ErrorCode.NON_EMPTY_GROUP,
        "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert listed(connection, empty, member.group) == [member.group]
    assert fetch(connection, empty, {topic: [0]}) == {(topic, 0): NOTHING}


def test_a_newer_group_is_administered_like_the_others(
    connection: WireConnection, group: str, topic: str
) -> None:
    commit(connection, group, {topic: {0: 7}})
    member = join_newer(connection, group, topic)

    assert listed(connection, group, types_filter=["consumer"]) == [group]
    assert listed(connection, group, types_filter=["classic"]) == []
    assert fetch(connection, group, {topic: [0]}) == {(topic, 0): (7, -1, "", ErrorCode.NONE)}
    described = describe(connection, group)
    assert described.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert describe(connection, group, version=5).group_state == "Dead"
    assert delete_offsets(connection, group, {topic: [0]}) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    assert delete_groups(connection, group) == {group: ErrorCode.NON_EMPTY_GROUP}

    member.leave(connection)
    assert listed(connection, group, states_filter=["empty"]) == [group]
    assert delete_offsets(connection, group, {topic: [0]}) == [ErrorCode.NONE]
    assert delete_groups(connection, group) == {group: ErrorCode.NONE}
    assert listed(connection, group) == []
