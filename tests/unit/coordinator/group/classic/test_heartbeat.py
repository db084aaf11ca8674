"""Heartbeats: what they are answered in each state, and what silence leads to."""

from __future__ import annotations

import pytest

from harness.classic_groups import GROUP, SESSION_MS, ClassicStage
from penstock.coordinator.group.classic.state import State
from penstock.protocol.errors import ErrorCode


@pytest.fixture
def stage() -> ClassicStage:
    return ClassicStage()


def test_in_a_group_that_does_not_exist_everyone_is_unknown(stage: ClassicStage) -> None:
    assert stage.heartbeat("somebody", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_in_an_empty_group_everyone_is_unknown(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})
    stage.leave(member.member_id)

    assert stage.heartbeat(member.member_id, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_in_a_stable_group_all_is_well(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})

    assert stage.heartbeat(member.member_id, 1) is ErrorCode.NONE


def test_before_the_assignment_all_is_well(stage: ClassicStage) -> None:
    (member,) = stage.assemble({})

    assert stage.heartbeat(member.member_id, 1) is ErrorCode.NONE


def test_during_a_rebalance_it_is_told_so_and_alive(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})
    stage.enter()
    for _ in range(5):
        stage.advance(SESSION_MS - 1)
        assert stage.heartbeat(member.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("generation", [0, 2, -1])
def test_another_generation_is_illegal(stage: ClassicStage, generation: int) -> None:
    (member,) = stage.stabilize({})

    assert stage.heartbeat(member.member_id, generation) is ErrorCode.ILLEGAL_GENERATION


def test_a_stale_generation_is_no_sign_of_life(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})
    stage.advance(SESSION_MS - 1)
    stage.heartbeat(member.member_id, 0)
    stage.advance(1)

    assert stage.heartbeat(member.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_out_is_not_a_member(stage: ClassicStage) -> None:
    stage.stabilize({})
    given = stage.join().value.member_id

    assert stage.heartbeat(given, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_is_known_by_both_names(stage: ClassicStage) -> None:
    one, two = stage.stabilize({"instance_id": "shelf-1"}, {})

    assert stage.heartbeat(one.member_id, 1, instance_id="shelf-1") is ErrorCode.NONE
    assert stage.heartbeat(one.member_id, 1) is ErrorCode.NONE
    assert stage.heartbeat(two.member_id, 1, instance_id="shelf-1") is ErrorCode.FENCED_INSTANCE_ID
    assert stage.heartbeat("somebody", 1, instance_id="shelf-1") is ErrorCode.FENCED_INSTANCE_ID
    assert stage.heartbeat(one.member_id, 1, instance_id="shelf-2") is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_keep_a_member(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})

    for _ in range(10):
        stage.advance(SESSION_MS - 1)
        assert stage.heartbeat(member.member_id, 1) is ErrorCode.NONE


def test_silence_puts_a_member_out_and_starts_a_rebalance(stage: ClassicStage) -> None:
    one, two = stage.stabilize({}, {})
    stage.advance(SESSION_MS - 1)
    stage.heartbeat(one.member_id, 1)

    stage.advance(1)

    assert list(stage.group().members) == [one.member_id]
    assert stage.heartbeat(one.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.heartbeat(two.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.join(one.member_id).value.generation_id == 2


def test_a_rebalance_does_not_wait_for_one_whose_session_ends(stage: ClassicStage) -> None:
    one, _ = stage.stabilize({}, {})
    again = stage.join(one.member_id)

    stage.advance(SESSION_MS)

    assert again.value.generation_id == 2
    assert len(again.value.members) == 1


def test_when_all_are_silent_the_group_is_empty_and_written_down(stage: ClassicStage) -> None:
    stage.stabilize({}, {})

    stage.advance(SESSION_MS)

    assert stage.group().state is State.EMPTY
    assert stage.group().leader_id is None
    value = stage.log[-1].value
    assert (value.generation, value.protocol, value.leader, value.members) == (2, None, None, [])
    assert value.protocol_type == "consumer"
    assert not len(stage.context.timers)


def test_an_empty_group_that_could_not_be_written_down_is_empty_all_the_same(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})
    stage.refuse = ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(Exception, match="coordinator"):
        stage.advance(SESSION_MS)
    stage.refuse = None

    assert stage.group().state is State.EMPTY
    assert stage.heartbeat(member.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.successor().heartbeat(member.member_id, 1) is ErrorCode.NONE, "as the log has it"
    assert GROUP in stage.context.groups
