"""SyncGroup: everyone receives its assignment when the leader's are committed, or is sent back to join."""

from __future__ import annotations

import pytest

from harness.classic_groups import GROUP, REBALANCE_MS, SESSION_MS, ClassicStage, subscription
from penstock.coordinator.group.classic.state import State
from penstock.protocol.errors import ErrorCode

A_MINUTE_MS = 60_000
LONG = {"session_timeout_ms": 10 * A_MINUTE_MS}


@pytest.fixture
def stage() -> ClassicStage:
    return ClassicStage()


# -- the way it should be


def test_followers_wait_for_the_leader_and_everyone_gets_its_own(stage: ClassicStage) -> None:
    leader, follower = stage.assemble({}, {})

    waiting = stage.sync(follower)
    assert waiting.is_waiting
    own = stage.sync(leader, {leader.member_id: b"one", follower.member_id: b"two"})

    assert own.value.assignment == b"one"
    assert waiting.value.assignment == b"two"
    assert waiting.value.protocol_type == "consumer"
    assert waiting.value.protocol_name == "range"
    assert stage.group().state is State.STABLE


def test_a_follower_that_comes_later_is_alive(stage: ClassicStage) -> None:
    leader, follower = stage.assemble(LONG, {"rebalance_timeout_ms": 10 * A_MINUTE_MS})
    stage.sync(leader, {follower.member_id: b"two"})
    stage.advance(SESSION_MS - 1)

    stage.sync(follower)
    stage.advance(SESSION_MS - 1)

    assert follower.member_id in stage.group().members


def test_a_follower_that_comes_later_gets_it_at_once(stage: ClassicStage) -> None:
    leader, follower = stage.assemble({}, {})
    stage.sync(leader, {follower.member_id: b"two"})

    assert stage.sync(follower).value.assignment == b"two"


def test_whom_the_leader_forgot_has_nothing_to_read(stage: ClassicStage) -> None:
    leader, follower = stage.assemble({}, {})
    stage.sync(leader, {leader.member_id: b"one"})

    assert stage.sync(follower).value.assignment == b""


def test_an_assignment_for_a_stranger_is_ignored(stage: ClassicStage) -> None:
    (leader,) = stage.assemble({})

    assert stage.sync(leader, {leader.member_id: b"one", "somebody": b"two"}).value.assignment == b"one"
    assert [member.member_id for member in stage.log[-1].value.members] == [leader.member_id]


def test_a_generation_is_written_down_with_its_assignments(stage: ClassicStage) -> None:
    leader, follower = stage.stabilize({}, {"instance_id": "shelf-1"})

    value = stage.log[-1].value
    assert (value.generation, value.protocol_type, value.protocol, value.leader) == (
        1,
        "consumer",
        "range",
        leader.member_id,
    )
    assert value.current_state_timestamp > 0
    assert [(member.member_id, member.group_instance_id) for member in value.members] == [
        (leader.member_id, None),
        (follower.member_id, "shelf-1"),
    ]
    assert value.members[1].assignment == follower.member_id.encode()
    assert value.members[1].client_host == "/127.0.0.1"
    assert value.members[1].session_timeout == SESSION_MS
    assert value.members[1].rebalance_timeout == REBALANCE_MS


# -- refusals


def test_in_a_group_that_does_not_exist_everyone_is_unknown(stage: ClassicStage) -> None:
    (leader,) = ClassicStage().assemble({})

    assert stage.sync(leader).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_stranger_is_unknown(stage: ClassicStage) -> None:
    (leader,) = stage.assemble({})

    assert stage.sync(leader, member_id="somebody").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_in_an_empty_group_everyone_is_unknown(stage: ClassicStage) -> None:
    (leader,) = stage.stabilize({})
    stage.leave(leader.member_id)

    assert stage.sync(leader).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("generation", [0, 2, -1])
def test_another_generation_is_illegal(stage: ClassicStage, generation: int) -> None:
    (leader,) = stage.assemble({})

    assert stage.sync(leader, generation_id=generation).error is ErrorCode.ILLEGAL_GENERATION


def test_a_member_that_believes_in_another_protocol_is_inconsistent(stage: ClassicStage) -> None:
    (leader,) = stage.assemble({})

    assert stage.sync(leader, protocol_name="sticky").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.sync(leader, protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_sync_about_another_protocol_of_its_own_is_sent_back_to_join(stage: ClassicStage) -> None:
    metadata = subscription("topic")
    (leader,) = stage.assemble({"protocols": {"range": metadata, "sticky": metadata}})

    assert leader.protocol_name == "range"
    assert stage.sync(leader, protocol_name="sticky").error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_does_not_tell_its_protocol_is_believed(stage: ClassicStage) -> None:
    (leader,) = stage.assemble({})

    reply = stage.sync(leader, protocol_name=None, protocol_type=None, version=4)

    assert reply.error is ErrorCode.NONE


def test_during_the_next_rebalance_it_is_sent_back_to_join(stage: ClassicStage) -> None:
    one, _ = stage.stabilize({}, {})
    stage.enter()

    assert stage.sync(one).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_instance_of_another_member_is_fenced(stage: ClassicStage) -> None:
    leader, _ = stage.assemble({}, {"instance_id": "shelf-1"})

    assert stage.sync(leader, group_instance_id="shelf-1").error is ErrorCode.FENCED_INSTANCE_ID
    assert stage.sync(leader, group_instance_id="shelf-2").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_asks_again_while_it_waits_has_its_older_request_sent_back(stage: ClassicStage) -> None:
    leader, follower = stage.assemble({}, {})
    first, second = stage.sync(follower), stage.sync(follower)

    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.is_waiting
    stage.sync(leader, {follower.member_id: b"two"})
    assert second.value.assignment == b"two"


# -- commits


def test_nobody_is_answered_before_the_assignments_are_committed(stage: ClassicStage) -> None:
    leader, follower = stage.assemble({}, {})
    stage.is_committing = False

    replies = [stage.sync(leader), stage.sync(follower)]
    assert [reply.is_waiting for reply in replies] == [True, True]
    assert stage.group().state is State.COMPLETING_REBALANCE
    stage.commit()

    assert [reply.error for reply in replies] == [ErrorCode.NONE] * 2
    assert stage.group().state is State.STABLE


def test_a_leader_that_asks_again_before_the_commit_changes_nothing(stage: ClassicStage) -> None:
    (leader,) = stage.assemble({})
    stage.is_committing = False
    first = stage.sync(leader, {leader.member_id: b"one"})
    second = stage.sync(leader, {leader.member_id: b"two"})
    stage.commit()

    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.value.assignment == b"one"
    assert stage.sync(leader).value.assignment == b"one"
    assert stage.successor().sync(leader).value.assignment == b"one"


def test_a_rebalance_before_the_commit_wins_over_it(stage: ClassicStage) -> None:
    (leader,) = stage.assemble({})
    stage.is_committing = False
    waiting = stage.sync(leader)
    stage.enter()

    stage.commit()

    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.group().state is State.PREPARING_REBALANCE


@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR])
def test_where_the_assignments_can_not_be_written_everyone_is_told_and_joins_again(
    stage: ClassicStage, error: ErrorCode
) -> None:
    leader, follower = stage.assemble({}, {})
    waiting = stage.sync(follower)
    stage.refuse = error

    own = stage.sync(leader, {follower.member_id: b"two"})

    assert (own.error, waiting.error) == (error, error)
    assert stage.group().state is State.PREPARING_REBALANCE
    assert stage.heartbeat(follower.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS


# -- time


def test_who_joined_and_does_not_sync_is_put_out_after_the_rebalance_timeout(stage: ClassicStage) -> None:
    leader, follower, absent = stage.assemble(LONG, LONG, LONG)
    stage.sync(leader)
    stage.sync(follower)

    stage.advance(REBALANCE_MS - 1)
    assert stage.group().state is State.STABLE
    stage.advance(1)

    assert stage.group().state is State.PREPARING_REBALANCE
    assert stage.heartbeat(absent.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.heartbeat(leader.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_followers_do_not_wait_for_a_silent_leader_longer_than_that(stage: ClassicStage) -> None:
    leader, follower = stage.assemble(LONG, LONG)
    waiting = stage.sync(follower)

    stage.advance(REBALANCE_MS)

    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.group().leader_id == follower.member_id
    assert leader.member_id not in stage.group().members


def test_a_leader_whose_session_ends_before_it_assigned_is_put_out(stage: ClassicStage) -> None:
    leader, follower = stage.assemble({}, {})
    waiting = stage.sync(follower)

    stage.advance(SESSION_MS)

    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(stage.group().members) == [follower.member_id]
    assert stage.join(follower.member_id).value.generation_id == 2
    assert stage.sync(leader).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_when_all_have_synced_the_clock_stops(stage: ClassicStage) -> None:
    stage.stabilize(LONG, LONG)

    stage.advance(2 * REBALANCE_MS)

    assert stage.group().state is State.STABLE


def test_a_session_begins_anew_when_the_assignment_is_given(stage: ClassicStage) -> None:
    leader, follower = stage.assemble(LONG, {})
    stage.sync(follower)
    stage.advance(3 * SESSION_MS)
    stage.sync(leader)

    stage.advance(SESSION_MS - 1)
    assert stage.heartbeat(follower.member_id, 1) is ErrorCode.NONE
    stage.advance(SESSION_MS)
    assert stage.heartbeat(follower.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_without_members_that_synced_becomes_empty(stage: ClassicStage) -> None:
    stage.assemble(LONG, LONG)

    stage.advance(REBALANCE_MS)

    assert stage.group().state is State.EMPTY
    assert stage.log[-1].key.group == GROUP
    assert stage.log[-1].value.members == []
