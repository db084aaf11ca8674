"""SyncGroup to a classic group."""

from __future__ import annotations

import pytest

from harness.classic_groups import GROUP, REBALANCE_MS, SESSION_MS, ClassicHarness, subscription
from penstock.coordinator.group.classic.state import State
from penstock.protocol.errors import ErrorCode

A_MINUTE_MS = 60_000
LONG = {"session_timeout_ms": 10 * A_MINUTE_MS}


@pytest.fixture
def harness() -> ClassicHarness:
    return ClassicHarness()


# -- success


def test_followers_wait_for_the_leader_and_all_members_get_their_assignment(harness: ClassicHarness) -> None:
    leader, follower = harness.assemble({}, {})

    waiting = harness.sync(follower)
    assert waiting.is_waiting
    own = harness.sync(leader, {leader.member_id: b"one", follower.member_id: b"two"})

    assert own.value.assignment == b"one"
    assert waiting.value.assignment == b"two"
    assert waiting.value.protocol_type == "consumer"
    assert waiting.value.protocol_name == "range"
    assert harness.group().state is State.STABLE


def test_a_follower_that_syncs_later_extends_its_session(harness: ClassicHarness) -> None:
    leader, follower = harness.assemble(LONG, {"rebalance_timeout_ms": 10 * A_MINUTE_MS})
    harness.sync(leader, {follower.member_id: b"two"})
    harness.advance(SESSION_MS - 1)

    harness.sync(follower)
    harness.advance(SESSION_MS - 1)

    assert follower.member_id in harness.group().members


def test_a_follower_that_syncs_later_gets_its_assignment_at_once(harness: ClassicHarness) -> None:
    leader, follower = harness.assemble({}, {})
    harness.sync(leader, {follower.member_id: b"two"})

    assert harness.sync(follower).value.assignment == b"two"


def test_a_member_without_an_assignment_from_the_leader_gets_an_empty_one(harness: ClassicHarness) -> None:
    leader, follower = harness.assemble({}, {})
    harness.sync(leader, {leader.member_id: b"one"})

    assert harness.sync(follower).value.assignment == b""


def test_an_assignment_for_an_unknown_member_is_ignored(harness: ClassicHarness) -> None:
    (leader,) = harness.assemble({})

    assert (
        harness.sync(leader, {leader.member_id: b"one", "unknown-member": b"two"}).value.assignment == b"one"
    )
    assert [member.member_id for member in harness.log[-1].value.members] == [leader.member_id]


def test_a_generation_is_written_with_its_assignments(harness: ClassicHarness) -> None:
    leader, follower = harness.stabilize({}, {"instance_id": "shelf-1"})

    value = harness.log[-1].value
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


# -- errors


def test_in_an_unknown_group_every_member_is_unknown(harness: ClassicHarness) -> None:
    (leader,) = ClassicHarness().assemble({})

    assert harness.sync(leader).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unknown_member_is_refused(harness: ClassicHarness) -> None:
    (leader,) = harness.assemble({})

    assert harness.sync(leader, member_id="unknown-member").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_in_an_empty_group_every_member_is_unknown(harness: ClassicHarness) -> None:
    (leader,) = harness.stabilize({})
    harness.leave(leader.member_id)

    assert harness.sync(leader).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("generation", [0, 2, -1])
def test_another_generation_is_illegal(harness: ClassicHarness, generation: int) -> None:
    (leader,) = harness.assemble({})

    assert harness.sync(leader, generation_id=generation).error is ErrorCode.ILLEGAL_GENERATION


def test_a_sync_with_another_protocol_is_inconsistent(harness: ClassicHarness) -> None:
    (leader,) = harness.assemble({})

    assert harness.sync(leader, protocol_name="sticky").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.sync(leader, protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_sync_with_another_protocol_that_the_member_supports_has_to_rejoin(harness: ClassicHarness) -> None:
    metadata = subscription("topic")
    (leader,) = harness.assemble({"protocols": {"range": metadata, "sticky": metadata}})

    assert leader.protocol_name == "range"
    assert harness.sync(leader, protocol_name="sticky").error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_sync_without_a_protocol_is_accepted(harness: ClassicHarness) -> None:
    (leader,) = harness.assemble({})

    reply = harness.sync(leader, protocol_name=None, protocol_type=None, version=4)

    assert reply.error is ErrorCode.NONE


def test_a_sync_during_the_next_rebalance_has_to_rejoin(harness: ClassicHarness) -> None:
    one, _ = harness.stabilize({}, {})
    harness.enter()

    assert harness.sync(one).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_instance_of_another_member_is_fenced(harness: ClassicHarness) -> None:
    leader, _ = harness.assemble({}, {"instance_id": "shelf-1"})

    assert harness.sync(leader, group_instance_id="shelf-1").error is ErrorCode.FENCED_INSTANCE_ID
    assert harness.sync(leader, group_instance_id="shelf-2").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_that_is_retried_fails_the_older_request(harness: ClassicHarness) -> None:
    leader, follower = harness.assemble({}, {})
    first, second = harness.sync(follower), harness.sync(follower)

    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.is_waiting
    harness.sync(leader, {follower.member_id: b"two"})
    assert second.value.assignment == b"two"


# -- commits


def test_no_member_gets_a_response_before_the_assignments_are_committed(harness: ClassicHarness) -> None:
    leader, follower = harness.assemble({}, {})
    harness.is_committing = False

    replies = [harness.sync(leader), harness.sync(follower)]
    assert [reply.is_waiting for reply in replies] == [True, True]
    assert harness.group().state is State.COMPLETING_REBALANCE
    harness.commit()

    assert [reply.error for reply in replies] == [ErrorCode.NONE] * 2
    assert harness.group().state is State.STABLE


def test_a_leader_that_retries_its_sync_before_the_commit_changes_nothing(harness: ClassicHarness) -> None:
    (leader,) = harness.assemble({})
    harness.is_committing = False
    first = harness.sync(leader, {leader.member_id: b"one"})
    second = harness.sync(leader, {leader.member_id: b"two"})
    harness.commit()

    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.value.assignment == b"one"
    assert harness.sync(leader).value.assignment == b"one"
    assert harness.successor().sync(leader).value.assignment == b"one"


def test_a_rebalance_before_the_commit_discards_the_assignments(harness: ClassicHarness) -> None:
    (leader,) = harness.assemble({})
    harness.is_committing = False
    waiting = harness.sync(leader)
    harness.enter()

    harness.commit()

    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.group().state is State.PREPARING_REBALANCE


@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR])
def test_if_the_assignments_cannot_be_written_all_members_get_an_error_and_rejoin(
    harness: ClassicHarness, error: ErrorCode
) -> None:
    leader, follower = harness.assemble({}, {})
    waiting = harness.sync(follower)
    harness.refuse = error

    own = harness.sync(leader, {follower.member_id: b"two"})

    assert (own.error, waiting.error) == (error, error)
    assert harness.group().state is State.PREPARING_REBALANCE
    assert harness.heartbeat(follower.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS


# -- timeouts


def test_a_member_that_does_not_sync_is_removed_after_the_rebalance_timeout(harness: ClassicHarness) -> None:
    leader, follower, absent = harness.assemble(LONG, LONG, LONG)
    harness.sync(leader)
    harness.sync(follower)

    harness.advance(REBALANCE_MS - 1)
    assert harness.group().state is State.STABLE
    harness.advance(1)

    assert harness.group().state is State.PREPARING_REBALANCE
    assert harness.heartbeat(absent.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.heartbeat(leader.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_followers_wait_for_a_silent_leader_up_to_the_rebalance_timeout(harness: ClassicHarness) -> None:
    leader, follower = harness.assemble(LONG, LONG)
    waiting = harness.sync(follower)

    harness.advance(REBALANCE_MS)

    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.group().leader_id == follower.member_id
    assert leader.member_id not in harness.group().members


def test_a_leader_whose_session_expires_before_it_assigns_is_removed(harness: ClassicHarness) -> None:
    leader, follower = harness.assemble({}, {})
    waiting = harness.sync(follower)

    harness.advance(SESSION_MS)

    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(harness.group().members) == [follower.member_id]
    assert harness.join(follower.member_id).value.generation_id == 2
    assert harness.sync(leader).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_when_all_members_have_synced_the_sync_timeout_is_cancelled(harness: ClassicHarness) -> None:
    harness.stabilize(LONG, LONG)

    harness.advance(2 * REBALANCE_MS)

    assert harness.group().state is State.STABLE


def test_the_session_restarts_when_the_assignment_is_sent(harness: ClassicHarness) -> None:
    leader, follower = harness.assemble(LONG, {})
    harness.sync(follower)
    harness.advance(3 * SESSION_MS)
    harness.sync(leader)

    harness.advance(SESSION_MS - 1)
    assert harness.heartbeat(follower.member_id, 1) is ErrorCode.NONE
    harness.advance(SESSION_MS)
    assert harness.heartbeat(follower.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_without_members_that_synced_becomes_empty(harness: ClassicHarness) -> None:
    harness.assemble(LONG, LONG)

    harness.advance(REBALANCE_MS)

    assert harness.group().state is State.EMPTY
    assert harness.log[-1].key.group == GROUP
    assert harness.log[-1].value.members == []
