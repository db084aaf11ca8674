"""Static members (KIP-345) of a classic group: they rejoin with a new id, without a rebalance."""

from __future__ import annotations

import pytest

from harness.classic_groups import REBALANCE_MS, SESSION_MS, ClassicHarness, subscription
from penstock.coordinator.group.classic.state import State
from penstock.coordinator.group.client import Client
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupResponse

A_MINUTE_MS = 60_000
SHELF = {"instance_id": "shelf-1"}


@pytest.fixture
def harness() -> ClassicHarness:
    return ClassicHarness()


def with_static_follower(harness: ClassicHarness) -> tuple[JoinGroupResponse, JoinGroupResponse]:
    leader, static = harness.stabilize({"session_timeout_ms": 30 * A_MINUTE_MS}, SHELF)
    return leader, static


# -- joining


def test_a_static_member_does_not_have_to_join_twice(harness: ClassicHarness) -> None:
    assert harness.join(**SHELF).is_waiting


def test_a_static_member_with_its_member_id_rejoins_like_any_member(harness: ClassicHarness) -> None:
    _, static = with_static_follower(harness)

    assert harness.join(static.member_id, **SHELF).value.generation_id == 1
    assert harness.group().state is State.STABLE


def test_another_id_for_the_same_instance_is_fenced(harness: ClassicHarness) -> None:
    leader, _ = with_static_follower(harness)

    reply = harness.join(leader.member_id, **SHELF)

    assert reply.error is ErrorCode.FENCED_INSTANCE_ID
    assert reply.value.member_id == leader.member_id
    assert reply.value.protocol_name is None


def test_a_member_id_with_an_unknown_instance_id_is_unknown(harness: ClassicHarness) -> None:
    leader, _ = with_static_follower(harness)

    assert harness.join(leader.member_id, instance_id="shelf-9").error is ErrorCode.UNKNOWN_MEMBER_ID


# -- rejoining a stable group


def test_a_static_member_rejoins_with_a_new_id_without_a_rebalance(harness: ClassicHarness) -> None:
    leader, static = with_static_follower(harness)

    back = harness.join(**SHELF)

    assert back.error is ErrorCode.NONE
    assert back.value.member_id != static.member_id
    assert back.value.generation_id == 1
    assert back.value.leader == leader.member_id
    assert back.value.members == []
    assert not back.value.skip_assignment
    assert harness.heartbeat(leader.member_id, 1) is ErrorCode.NONE


def test_a_static_member_that_rejoins_keeps_its_assignment(harness: ClassicHarness) -> None:
    _, static = with_static_follower(harness)

    back = harness.join(**SHELF).value

    assert harness.sync(back).value.assignment == static.member_id.encode()


def test_the_old_id_is_fenced(harness: ClassicHarness) -> None:
    _, static = with_static_follower(harness)
    harness.join(**SHELF)

    assert harness.heartbeat(static.member_id, 1, instance_id="shelf-1") is ErrorCode.FENCED_INSTANCE_ID
    assert harness.heartbeat(static.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.sync(static, group_instance_id="shelf-1").error is ErrorCode.FENCED_INSTANCE_ID
    assert harness.join(static.member_id, **SHELF).error is ErrorCode.FENCED_INSTANCE_ID


def test_the_new_id_of_a_static_member_is_written(harness: ClassicHarness) -> None:
    leader, static = with_static_follower(harness)
    elsewhere = Client("client", "/10.0.0.9")

    back = harness.join(**SHELF, client=elsewhere).value

    value = harness.log[-1].value
    assert [(member.member_id, member.assignment) for member in value.members] == [
        (leader.member_id, leader.member_id.encode()),
        (back.member_id, static.member_id.encode()),
    ]
    assert value.members[1].client_host == "/10.0.0.9"


def test_a_static_member_gets_its_response_when_the_new_id_is_committed(harness: ClassicHarness) -> None:
    with_static_follower(harness)
    harness.is_committing = False

    back = harness.join(**SHELF)
    assert back.is_waiting
    harness.commit()

    assert back.error is ErrorCode.NONE
    assert harness.group().joined_count == 0


def test_if_the_new_id_of_a_static_member_cannot_be_written_the_old_id_stays(harness: ClassicHarness) -> None:
    leader, static = with_static_follower(harness)
    harness.refuse = ErrorCode.COORDINATOR_NOT_AVAILABLE

    back = harness.join(**SHELF)

    assert back.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert back.value.member_id == ""
    assert harness.heartbeat(static.member_id, 1, instance_id="shelf-1") is ErrorCode.NONE
    assert harness.sync(static).value.assignment == static.member_id.encode()
    assert set(harness.group().members) == {leader.member_id, static.member_id}
    assert harness.group().joined_count == 0
    harness.advance(SESSION_MS)
    assert static.member_id not in harness.group().members


def test_a_rebalance_before_the_commit_completes_the_waiting_join(harness: ClassicHarness) -> None:
    leader, _ = with_static_follower(harness)
    harness.is_committing = False
    back = harness.join(**SHELF)
    again = harness.join(leader.member_id)

    assert back.value.generation_id == again.value.generation_id == 2
    harness.commit()
    assert harness.group().state is State.COMPLETING_REBALANCE


def test_a_leader_that_rejoins_has_to_skip_the_assignment(harness: ClassicHarness) -> None:
    harness.stabilize(SHELF, {})

    back = harness.join(**SHELF).value

    assert back.skip_assignment
    assert back.leader == back.member_id
    assert len(back.members) == 2


def test_an_older_leader_that_rejoins_does_not_see_itself_as_the_leader(harness: ClassicHarness) -> None:
    leader, _ = harness.stabilize(SHELF, {})

    back = harness.join(**SHELF, version=8).value

    assert back.leader == leader.member_id
    assert back.members == []
    assert harness.group().leader_id == back.member_id


def test_the_session_of_a_static_member_that_rejoins_restarts(harness: ClassicHarness) -> None:
    with_static_follower(harness)
    harness.advance(SESSION_MS - 1)
    back = harness.join(**SHELF).value

    harness.advance(SESSION_MS - 1)
    assert harness.heartbeat(back.member_id, 1) is ErrorCode.NONE
    harness.advance(SESSION_MS)
    assert harness.heartbeat(back.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_with_other_metadata_for_the_same_protocol_starts_no_rebalance(
    harness: ClassicHarness,
) -> None:
    """As in Kafka, only the selected protocol counts."""
    with_static_follower(harness)

    back = harness.join(**SHELF, protocols={"range": subscription("another")})

    assert back.value.generation_id == 1
    assert harness.group().state is State.STABLE


def test_a_static_member_that_changes_the_selected_protocol_starts_a_rebalance(
    harness: ClassicHarness,
) -> None:
    leader, _ = harness.stabilize(
        {"protocols": {"roundrobin": b"", "range": b""}},
        {**SHELF, "protocols": {"roundrobin": b"", "range": b""}},
    )
    assert leader.protocol_name == "roundrobin"

    back = harness.join(**SHELF, protocols={"range": b""})

    assert back.is_waiting
    again = harness.join(leader.member_id, protocols={"roundrobin": b"", "range": b""})
    assert back.value.protocol_name == again.value.protocol_name == "range"


def test_a_static_member_that_has_not_synced_is_waited_for_with_its_new_id(harness: ClassicHarness) -> None:
    leader, _ = harness.assemble({}, SHELF)
    harness.sync(leader)
    back = harness.join(**SHELF).value
    assert list(harness.group().pending_syncs) == [back.member_id]

    assert harness.sync(back).error is ErrorCode.NONE
    assert not harness.group().pending_syncs


# -- rejoining during a rebalance


def test_a_request_that_waits_with_the_old_member_id_is_fenced(harness: ClassicHarness) -> None:
    leader, static = with_static_follower(harness)
    changed = {"range": subscription("another")}
    waiting = harness.join(static.member_id, **SHELF, protocols=changed)
    assert waiting.is_waiting

    back = harness.join(**SHELF, protocols=changed)

    assert waiting.error is ErrorCode.FENCED_INSTANCE_ID
    assert waiting.value.member_id == static.member_id
    assert harness.join(leader.member_id).value.generation_id == back.value.generation_id == 2


def test_a_leave_before_the_assignment_makes_all_members_rejoin(harness: ClassicHarness) -> None:
    leader, static = harness.assemble({}, SHELF)
    waiting = harness.sync(static, group_instance_id="shelf-1")

    back = harness.join(**SHELF)

    assert waiting.error is ErrorCode.FENCED_INSTANCE_ID
    assert harness.sync(leader).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.join(leader.member_id).value.generation_id == back.value.generation_id == 2


def test_in_an_initial_rebalance_the_new_member_id_replaces_the_old_one(harness: ClassicHarness) -> None:
    first = harness.join(**SHELF)
    second = harness.join(**SHELF)

    assert first.error is ErrorCode.FENCED_INSTANCE_ID
    harness.advance(2 * A_MINUTE_MS)
    assert second.value.generation_id == 1
    assert second.value.leader == second.value.member_id


# -- session timeouts


def test_a_static_member_that_does_not_rejoin_stays_until_its_session_expires(
    harness: ClassicHarness,
) -> None:
    leader, static = harness.stabilize({}, {**SHELF, "session_timeout_ms": 5 * A_MINUTE_MS})
    again = harness.join(leader.member_id)

    harness.advance(REBALANCE_MS)

    assert {member.member_id for member in again.value.members} == {leader.member_id, static.member_id}


def test_if_only_silent_static_members_are_left_the_rebalance_waits_for_them(harness: ClassicHarness) -> None:
    leader, _ = harness.stabilize({}, {**SHELF, "session_timeout_ms": 5 * A_MINUTE_MS})
    harness.leave(leader.member_id)

    harness.advance(REBALANCE_MS)
    assert harness.group().state is State.PREPARING_REBALANCE
    harness.advance(5 * A_MINUTE_MS)

    assert harness.group().state is State.EMPTY
    assert not len(harness.context.timers)


def test_a_silent_static_leader_is_replaced_by_a_member_that_joined(harness: ClassicHarness) -> None:
    static, other = harness.stabilize({**SHELF, "session_timeout_ms": 5 * A_MINUTE_MS}, {})
    again = harness.join(other.member_id, protocols={"range": subscription("another")})

    harness.advance(REBALANCE_MS)

    assert again.value.leader == other.member_id
    assert static.member_id in harness.group().members
