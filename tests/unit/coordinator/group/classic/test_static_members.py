"""Static members (KIP-345): they come back under a new id, and nobody else notices."""

from __future__ import annotations

import pytest

from harness.classic_groups import REBALANCE_MS, SESSION_MS, ClassicStage, subscription
from penstock.coordinator.group.classic.state import State
from penstock.coordinator.group.client import Client
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.join_group import JoinGroupResponse

A_MINUTE_MS = 60_000
SHELF = {"instance_id": "shelf-1"}


@pytest.fixture
def stage() -> ClassicStage:
    return ClassicStage()


def with_static_follower(stage: ClassicStage) -> tuple[JoinGroupResponse, JoinGroupResponse]:
    leader, static = stage.stabilize({"session_timeout_ms": 30 * A_MINUTE_MS}, SHELF)
    return leader, static


# -- coming in


def test_a_static_member_need_not_join_twice(stage: ClassicStage) -> None:
    assert stage.join(**SHELF).is_waiting


def test_a_static_member_with_its_id_is_a_member_like_any_other(stage: ClassicStage) -> None:
    _, static = with_static_follower(stage)

    assert stage.join(static.member_id, **SHELF).value.generation_id == 1
    assert stage.group().state is State.STABLE


def test_another_id_for_the_same_instance_is_fenced(stage: ClassicStage) -> None:
    leader, _ = with_static_follower(stage)

    reply = stage.join(leader.member_id, **SHELF)

    assert reply.error is ErrorCode.FENCED_INSTANCE_ID
    assert reply.value.member_id == leader.member_id
    assert reply.value.protocol_name is None


def test_an_id_with_an_instance_that_nobody_knows_is_unknown(stage: ClassicStage) -> None:
    leader, _ = with_static_follower(stage)

    assert stage.join(leader.member_id, instance_id="shelf-9").error is ErrorCode.UNKNOWN_MEMBER_ID


# -- coming back to a stable group


def test_it_comes_back_under_a_new_id_and_nobody_notices(stage: ClassicStage) -> None:
    leader, static = with_static_follower(stage)

    back = stage.join(**SHELF)

    assert back.error is ErrorCode.NONE
    assert back.value.member_id != static.member_id
    assert back.value.generation_id == 1
    assert back.value.leader == leader.member_id
    assert back.value.members == []
    assert not back.value.skip_assignment
    assert stage.heartbeat(leader.member_id, 1) is ErrorCode.NONE


def test_it_keeps_its_assignment(stage: ClassicStage) -> None:
    _, static = with_static_follower(stage)

    back = stage.join(**SHELF).value

    assert stage.sync(back).value.assignment == static.member_id.encode()


def test_the_old_id_is_fenced(stage: ClassicStage) -> None:
    _, static = with_static_follower(stage)
    stage.join(**SHELF)

    assert stage.heartbeat(static.member_id, 1, instance_id="shelf-1") is ErrorCode.FENCED_INSTANCE_ID
    assert stage.heartbeat(static.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.sync(static, group_instance_id="shelf-1").error is ErrorCode.FENCED_INSTANCE_ID
    assert stage.join(static.member_id, **SHELF).error is ErrorCode.FENCED_INSTANCE_ID


def test_the_change_of_ids_is_written_down(stage: ClassicStage) -> None:
    leader, static = with_static_follower(stage)
    elsewhere = Client("client", "/10.0.0.9")

    back = stage.join(**SHELF, client=elsewhere).value

    value = stage.log[-1].value
    assert [(member.member_id, member.assignment) for member in value.members] == [
        (leader.member_id, leader.member_id.encode()),
        (back.member_id, static.member_id.encode()),
    ]
    assert value.members[1].client_host == "/10.0.0.9"


def test_it_is_not_answered_before_that_is_committed(stage: ClassicStage) -> None:
    with_static_follower(stage)
    stage.is_committing = False

    back = stage.join(**SHELF)
    assert back.is_waiting
    stage.commit()

    assert back.error is ErrorCode.NONE
    assert stage.group().joined_count == 0


def test_where_it_can_not_be_written_the_old_id_goes_on(stage: ClassicStage) -> None:
    leader, static = with_static_follower(stage)
    stage.refuse = ErrorCode.COORDINATOR_NOT_AVAILABLE

    back = stage.join(**SHELF)

    assert back.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert back.value.member_id == ""
    assert stage.heartbeat(static.member_id, 1, instance_id="shelf-1") is ErrorCode.NONE
    assert stage.sync(static).value.assignment == static.member_id.encode()
    assert set(stage.group().members) == {leader.member_id, static.member_id}
    assert stage.group().joined_count == 0
    stage.advance(SESSION_MS)
    assert static.member_id not in stage.group().members


def test_a_rebalance_before_the_commit_answers_it(stage: ClassicStage) -> None:
    leader, _ = with_static_follower(stage)
    stage.is_committing = False
    back = stage.join(**SHELF)
    again = stage.join(leader.member_id)

    assert back.value.generation_id == again.value.generation_id == 2
    stage.commit()
    assert stage.group().state is State.COMPLETING_REBALANCE


def test_a_leader_that_comes_back_is_told_to_keep_the_assignments(stage: ClassicStage) -> None:
    stage.stabilize(SHELF, {})

    back = stage.join(**SHELF).value

    assert back.skip_assignment
    assert back.leader == back.member_id
    assert len(back.members) == 2


def test_an_older_leader_that_comes_back_is_not_told_that_it_leads(stage: ClassicStage) -> None:
    leader, _ = stage.stabilize(SHELF, {})

    back = stage.join(**SHELF, version=8).value

    assert back.leader == leader.member_id
    assert back.members == []
    assert stage.group().leader_id == back.member_id


def test_its_session_begins_anew(stage: ClassicStage) -> None:
    with_static_follower(stage)
    stage.advance(SESSION_MS - 1)
    back = stage.join(**SHELF).value

    stage.advance(SESSION_MS - 1)
    assert stage.heartbeat(back.member_id, 1) is ErrorCode.NONE
    stage.advance(SESSION_MS)
    assert stage.heartbeat(back.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_other_metadata_for_the_same_protocol_does_not_matter_to_the_others(stage: ClassicStage) -> None:
    """As in Kafka: what counts is the protocol that would be chosen."""
    with_static_follower(stage)

    back = stage.join(**SHELF, protocols={"range": subscription("another")})

    assert back.value.generation_id == 1
    assert stage.group().state is State.STABLE


def test_where_another_protocol_would_be_chosen_all_join_again(stage: ClassicStage) -> None:
    leader, _ = stage.stabilize(
        {"protocols": {"roundrobin": b"", "range": b""}},
        {**SHELF, "protocols": {"roundrobin": b"", "range": b""}},
    )
    assert leader.protocol_name == "roundrobin"

    back = stage.join(**SHELF, protocols={"range": b""})

    assert back.is_waiting
    again = stage.join(leader.member_id, protocols={"roundrobin": b"", "range": b""})
    assert back.value.protocol_name == again.value.protocol_name == "range"


def test_one_that_has_not_synced_yet_is_still_waited_for_under_its_new_id(stage: ClassicStage) -> None:
    leader, _ = stage.assemble({}, SHELF)
    stage.sync(leader)
    back = stage.join(**SHELF).value
    assert list(stage.group().pending_syncs) == [back.member_id]

    assert stage.sync(back).error is ErrorCode.NONE
    assert not stage.group().pending_syncs


# -- coming back to a group that is being rebalanced


def test_one_that_still_waits_under_the_old_id_is_fenced(stage: ClassicStage) -> None:
    leader, static = with_static_follower(stage)
    changed = {"range": subscription("another")}
    waiting = stage.join(static.member_id, **SHELF, protocols=changed)
    assert waiting.is_waiting

    back = stage.join(**SHELF, protocols=changed)

    assert waiting.error is ErrorCode.FENCED_INSTANCE_ID
    assert waiting.value.member_id == static.member_id
    assert stage.join(leader.member_id).value.generation_id == back.value.generation_id == 2


def test_before_the_assignment_all_join_again(stage: ClassicStage) -> None:
    leader, static = stage.assemble({}, SHELF)
    waiting = stage.sync(static, group_instance_id="shelf-1")

    back = stage.join(**SHELF)

    assert waiting.error is ErrorCode.FENCED_INSTANCE_ID
    assert stage.sync(leader).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.join(leader.member_id).value.generation_id == back.value.generation_id == 2


def test_in_an_initial_rebalance_the_new_id_takes_the_place(stage: ClassicStage) -> None:
    first = stage.join(**SHELF)
    second = stage.join(**SHELF)

    assert first.error is ErrorCode.FENCED_INSTANCE_ID
    stage.advance(2 * A_MINUTE_MS)
    assert second.value.generation_id == 1
    assert second.value.leader == second.value.member_id


# -- silence


def test_a_static_member_that_does_not_join_keeps_its_place_until_its_session_ends(
    stage: ClassicStage,
) -> None:
    leader, static = stage.stabilize({}, {**SHELF, "session_timeout_ms": 5 * A_MINUTE_MS})
    again = stage.join(leader.member_id)

    stage.advance(REBALANCE_MS)

    assert {member.member_id for member in again.value.members} == {leader.member_id, static.member_id}


def test_where_only_silent_static_members_are_left_the_rebalance_waits_for_them(stage: ClassicStage) -> None:
    leader, _ = stage.stabilize({}, {**SHELF, "session_timeout_ms": 5 * A_MINUTE_MS})
    stage.leave(leader.member_id)

    stage.advance(REBALANCE_MS)
    assert stage.group().state is State.PREPARING_REBALANCE
    stage.advance(5 * A_MINUTE_MS)

    assert stage.group().state is State.EMPTY
    assert not len(stage.context.timers)


def test_a_silent_static_leader_leaves_the_lead_to_one_who_joined(stage: ClassicStage) -> None:
    static, other = stage.stabilize({**SHELF, "session_timeout_ms": 5 * A_MINUTE_MS}, {})
    again = stage.join(other.member_id, protocols={"range": subscription("another")})

    stage.advance(REBALANCE_MS)

    assert again.value.leader == other.member_id
    assert static.member_id in stage.group().members
