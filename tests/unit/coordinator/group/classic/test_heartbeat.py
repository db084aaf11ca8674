"""Heartbeats to a classic group in each state, and session timeouts."""

from __future__ import annotations

import pytest

from harness.classic_groups import GROUP, SESSION_MS, ClassicHarness
from penstock.coordinator.group.classic.state import State
from penstock.protocol.errors import ErrorCode


@pytest.fixture
def harness() -> ClassicHarness:
    return ClassicHarness()


def test_in_an_unknown_group_every_member_is_unknown(harness: ClassicHarness) -> None:
    assert harness.heartbeat("unknown-member", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_in_an_empty_group_every_member_is_unknown(harness: ClassicHarness) -> None:
    (member,) = harness.stabilize({})
    harness.leave(member.member_id)

    assert harness.heartbeat(member.member_id, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_to_a_stable_group_succeeds(harness: ClassicHarness) -> None:
    (member,) = harness.stabilize({})

    assert harness.heartbeat(member.member_id, 1) is ErrorCode.NONE


def test_a_heartbeat_before_the_assignment_succeeds(harness: ClassicHarness) -> None:
    (member,) = harness.assemble({})

    assert harness.heartbeat(member.member_id, 1) is ErrorCode.NONE


def test_a_heartbeat_during_a_rebalance_returns_an_error_and_extends_the_session(
    harness: ClassicHarness,
) -> None:
    (member,) = harness.stabilize({})
    harness.enter()
    for _ in range(5):
        harness.advance(SESSION_MS - 1)
        assert harness.heartbeat(member.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("generation", [0, 2, -1])
def test_another_generation_is_illegal(harness: ClassicHarness, generation: int) -> None:
    (member,) = harness.stabilize({})

    assert harness.heartbeat(member.member_id, generation) is ErrorCode.ILLEGAL_GENERATION


def test_a_heartbeat_with_a_stale_generation_does_not_extend_the_session(harness: ClassicHarness) -> None:
    (member,) = harness.stabilize({})
    harness.advance(SESSION_MS - 1)
    harness.heartbeat(member.member_id, 0)
    harness.advance(1)

    assert harness.heartbeat(member.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_member_id_is_not_a_member(harness: ClassicHarness) -> None:
    harness.stabilize({})
    given = harness.join().value.member_id

    assert harness.heartbeat(given, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_is_found_by_member_id_and_instance_id(harness: ClassicHarness) -> None:
    one, two = harness.stabilize({"instance_id": "shelf-1"}, {})

    assert harness.heartbeat(one.member_id, 1, instance_id="shelf-1") is ErrorCode.NONE
    assert harness.heartbeat(one.member_id, 1) is ErrorCode.NONE
    assert harness.heartbeat(two.member_id, 1, instance_id="shelf-1") is ErrorCode.FENCED_INSTANCE_ID
    assert harness.heartbeat("unknown-member", 1, instance_id="shelf-1") is ErrorCode.FENCED_INSTANCE_ID
    assert harness.heartbeat(one.member_id, 1, instance_id="shelf-2") is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_keep_a_member(harness: ClassicHarness) -> None:
    (member,) = harness.stabilize({})

    for _ in range(10):
        harness.advance(SESSION_MS - 1)
        assert harness.heartbeat(member.member_id, 1) is ErrorCode.NONE


def test_a_silent_member_is_removed_and_a_rebalance_starts(harness: ClassicHarness) -> None:
    one, two = harness.stabilize({}, {})
    harness.advance(SESSION_MS - 1)
    harness.heartbeat(one.member_id, 1)

    harness.advance(1)

    assert list(harness.group().members) == [one.member_id]
    assert harness.heartbeat(one.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.heartbeat(two.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.join(one.member_id).value.generation_id == 2


def test_a_rebalance_does_not_wait_for_a_member_whose_session_expires(harness: ClassicHarness) -> None:
    one, _ = harness.stabilize({}, {})
    again = harness.join(one.member_id)

    harness.advance(SESSION_MS)

    assert again.value.generation_id == 2
    assert len(again.value.members) == 1


def test_when_all_members_are_removed_the_empty_group_is_written(harness: ClassicHarness) -> None:
    harness.stabilize({}, {})

    harness.advance(SESSION_MS)

    assert harness.group().state is State.EMPTY
    assert harness.group().leader_id is None
    value = harness.log[-1].value
    assert (value.generation, value.protocol, value.leader, value.members) == (2, None, None, [])
    assert value.protocol_type == "consumer"
    assert not len(harness.context.timers)


def test_a_group_is_empty_even_if_its_record_was_refused(harness: ClassicHarness) -> None:
    (member,) = harness.stabilize({})
    harness.refuse = ErrorCode.COORDINATOR_NOT_AVAILABLE
    with pytest.raises(Exception, match="coordinator"):
        harness.advance(SESSION_MS)
    harness.refuse = None

    assert harness.group().state is State.EMPTY
    assert harness.heartbeat(member.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.successor().heartbeat(member.member_id, 1) is ErrorCode.NONE, "as the log has it"
    assert GROUP in harness.context.groups
