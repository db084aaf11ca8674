"""JoinGroup to a classic group."""

from __future__ import annotations

import pytest

from harness.classic_groups import (
    GROUP,
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    ClassicHarness,
    subscription,
)
from penstock.coordinator.group.classic.state import State
from penstock.protocol.errors import ErrorCode

A_MINUTE_MS = 60_000


@pytest.fixture
def harness() -> ClassicHarness:
    return ClassicHarness()


# -- member ids


def test_a_new_member_gets_an_id_and_has_to_join_with_it(harness: ClassicHarness) -> None:
    first = harness.join()

    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    assert first.value.member_id.startswith("client-")
    assert first.value.generation_id == -1
    assert not harness.group().members

    second = harness.join(first.value.member_id)

    assert second.is_waiting
    assert list(harness.group().members) == [first.value.member_id]
    assert not harness.group().pending_ids


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_older_clients_join_at_once(harness: ClassicHarness, version: int) -> None:
    reply = harness.join(version=version)

    assert reply.is_waiting
    harness.advance(INITIAL_DELAY_MS)
    assert reply.error is ErrorCode.NONE
    assert reply.value.member_id.startswith("client-")


def test_a_member_id_is_unique_and_starts_with_the_client_id_or_the_instance_id(
    harness: ClassicHarness,
) -> None:
    ids = {harness.join().value.member_id for _ in range(3)}
    static = harness.join(instance_id="shelf-1")
    harness.advance(INITIAL_DELAY_MS + SESSION_MS)

    assert len(ids) == 3
    assert static.value.member_id.startswith("shelf-1-")


def test_a_pending_member_id_expires_after_its_session_timeout(harness: ClassicHarness) -> None:
    member_id = harness.join().value.member_id

    harness.advance(SESSION_MS - 1)
    assert member_id in harness.group().pending_ids
    harness.advance(1)

    assert member_id not in harness.group().pending_ids
    assert harness.join(member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_id_in_a_group_that_does_not_exist_is_unknown(harness: ClassicHarness) -> None:
    reply = harness.join("unknown-member")

    assert reply.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert reply.value.member_id == "unknown-member"
    assert GROUP not in harness.context.groups


def test_a_member_id_that_the_group_does_not_know_is_unknown(harness: ClassicHarness) -> None:
    harness.stabilize({})

    reply = harness.join("unknown-member")

    assert reply.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert reply.value.protocol_name is None


def test_before_version_7_an_error_has_an_empty_protocol_name(harness: ClassicHarness) -> None:
    harness.stabilize({})

    assert harness.join("unknown-member", version=6).value.protocol_name == ""


def test_a_static_member_cannot_use_a_pending_member_id(harness: ClassicHarness) -> None:
    member_id = harness.join().value.member_id

    assert harness.join(member_id, instance_id="shelf-1").error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert harness.join(member_id).is_waiting


# -- protocols


def test_an_empty_protocol_list_is_inconsistent_and_creates_no_group(harness: ClassicHarness) -> None:
    assert harness.join(protocols={}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    assert GROUP not in harness.context.groups
    assert not harness.log


def test_an_empty_protocol_type_is_inconsistent(harness: ClassicHarness) -> None:
    assert harness.join(protocol_type="").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_protocol_list_is_inconsistent_with_a_group_that_has_members(
    harness: ClassicHarness,
) -> None:
    (member,) = harness.stabilize({})

    assert harness.join(protocols={}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.join(member.member_id, protocols={}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.group().state is State.STABLE


def test_another_protocol_type_is_inconsistent(harness: ClassicHarness) -> None:
    harness.stabilize({})

    reply = harness.join(protocol_type="connect")

    assert reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert reply.value.member_id == ""


def test_a_member_without_a_common_protocol_is_inconsistent(harness: ClassicHarness) -> None:
    harness.stabilize({"protocols": {"range": b"", "sticky": b""}}, {"protocols": {"range": b""}})

    assert harness.join(protocols={"sticky": b""}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.join(protocols={"sticky": b"", "range": b""}).error is ErrorCode.MEMBER_ID_REQUIRED


def test_an_empty_group_may_take_another_protocol_type(harness: ClassicHarness) -> None:
    (member,) = harness.stabilize({})
    harness.leave(member.member_id)

    joined = harness.assemble({"protocol_type": "connect", "protocols": {"default": b""}})

    assert joined[0].protocol_type == "connect"


def test_the_common_protocol_with_the_most_votes_is_selected(harness: ClassicHarness) -> None:
    joined = harness.assemble(
        {"protocols": {"roundrobin": b"", "range": b""}},
        {"protocols": {"range": b"", "roundrobin": b""}},
        {"protocols": {"own": b"", "range": b"", "roundrobin": b""}},
    )

    assert {answer.protocol_name for answer in joined} == {"range"}


def test_with_equal_votes_the_oldest_member_decides(harness: ClassicHarness) -> None:
    joined = harness.assemble(
        {"protocols": {"roundrobin": b"", "range": b""}},
        {"protocols": {"range": b"", "roundrobin": b""}},
    )

    assert joined[0].protocol_name == "roundrobin"


def test_if_a_protocol_occurs_twice_the_first_counts(harness: ClassicHarness) -> None:
    from penstock.coordinator.group.classic.member import read_protocols
    from penstock.protocol.messages.join_group import JoinGroupRequestProtocol

    twice = [JoinGroupRequestProtocol(name="range", metadata=metadata) for metadata in (b"1", b"2")]

    assert read_protocols(twice) == {"range": b"1"}


# -- responses


def test_only_the_leader_gets_all_members(harness: ClassicHarness) -> None:
    leader, follower = harness.assemble(
        {"protocols": {"range": b"one"}}, {"protocols": {"range": b"two"}, "instance_id": "shelf-2"}
    )

    assert leader.leader == follower.leader == leader.member_id
    assert [(member.member_id, member.group_instance_id, member.metadata) for member in leader.members] == [
        (leader.member_id, None, b"one"),
        (follower.member_id, "shelf-2", b"two"),
    ]
    assert follower.members == []
    assert leader.generation_id == follower.generation_id == 1
    assert leader.protocol_type == follower.protocol_type == "consumer"
    assert not leader.skip_assignment


# -- the initial rebalance


def test_an_empty_group_waits_for_more_members(harness: ClassicHarness) -> None:
    reply = harness.enter()

    harness.advance(INITIAL_DELAY_MS - 1)
    assert reply.is_waiting
    harness.advance(1)
    assert reply.value.generation_id == 1


def test_the_initial_delay_is_a_setting() -> None:
    harness = ClassicHarness({"group.initial.rebalance.delay.ms": "0"})

    reply = harness.enter()
    harness.advance(0)

    assert reply.value.generation_id == 1


def test_without_a_delay_members_that_join_in_one_burst_share_a_generation() -> None:
    harness = ClassicHarness({"group.initial.rebalance.delay.ms": "0"})
    expected = harness.join()
    first, second = harness.enter(), harness.enter()

    harness.advance(0)
    assert first.is_waiting
    third = harness.join(expected.value.member_id)

    assert first.value.generation_id == second.value.generation_id == third.value.generation_id == 1


def test_without_a_delay_the_rebalance_does_not_wait_for_pending_members() -> None:
    harness = ClassicHarness({"group.initial.rebalance.delay.ms": "0"})
    harness.join()
    first, second = harness.enter(), harness.enter()

    harness.advance(1)

    assert first.value.generation_id == second.value.generation_id == 1


def test_the_initial_delay_restarts_with_each_new_member(harness: ClassicHarness) -> None:
    first = harness.enter()
    harness.advance(2_000)
    second = harness.enter()

    harness.advance(INITIAL_DELAY_MS)
    assert first.is_waiting
    harness.advance(1_000)

    assert first.value.generation_id == second.value.generation_id == 1


def test_the_initial_delays_never_take_longer_than_the_rebalance_timeout(harness: ClassicHarness) -> None:
    first = harness.enter(rebalance_timeout_ms=10_000)
    for _ in range(9):
        harness.advance(1_000)
        harness.enter(rebalance_timeout_ms=10_000)
    assert first.is_waiting

    harness.advance(2_000)

    assert len(first.value.members) == 10


def test_each_initial_rebalance_counts_its_own_members(harness: ClassicHarness) -> None:
    """Members of an earlier initial rebalance do not extend this one."""
    short = {"rebalance_timeout_ms": INITIAL_DELAY_MS}
    one, two = harness.stabilize(short, short)
    harness.leave(one.member_id, two.member_id)
    assert harness.group().state is State.EMPTY

    reply = harness.enter()
    harness.advance(INITIAL_DELAY_MS)

    assert not reply.is_waiting


def test_an_initial_rebalance_does_not_end_early_because_all_have_joined(harness: ClassicHarness) -> None:
    first, second = harness.enter(), harness.enter()

    harness.leave(harness.group().leader_id or "")

    assert first.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert second.is_waiting
    harness.advance(2 * INITIAL_DELAY_MS)
    assert second.value.leader == second.value.member_id


def test_a_group_that_all_members_left_during_its_initial_rebalance_is_empty(harness: ClassicHarness) -> None:
    reply = harness.enter()
    harness.leave(harness.group().leader_id or "")
    assert reply.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.group().state is State.PREPARING_REBALANCE

    harness.advance(INITIAL_DELAY_MS)

    assert harness.group().state is State.EMPTY
    assert harness.group().generation == 1


# -- joining an existing group


def test_a_new_member_starts_a_rebalance_that_ends_when_all_have_rejoined(harness: ClassicHarness) -> None:
    one, two = harness.stabilize({}, {})

    new = harness.enter()
    assert harness.group().state is State.PREPARING_REBALANCE
    again = [harness.join(one.member_id), harness.join(two.member_id)]

    assert new.value.generation_id == 2
    assert [reply.value.generation_id for reply in again] == [2, 2]
    assert len(again[0].value.members) == 3


def test_a_pending_member_id_delays_the_rebalance(harness: ClassicHarness) -> None:
    (one,) = harness.stabilize({})
    given = harness.join().value.member_id
    assert harness.group().state is State.STABLE, "it is not a member yet"

    again = harness.join(one.member_id)
    assert again.is_waiting
    harness.join(given)

    assert again.value.generation_id == 2


def test_a_rebalance_goes_on_when_the_pending_member_id_expires(harness: ClassicHarness) -> None:
    (one,) = harness.stabilize({"session_timeout_ms": A_MINUTE_MS})
    harness.join()
    again = harness.join(one.member_id, session_timeout_ms=A_MINUTE_MS)

    harness.advance(SESSION_MS)

    assert again.value.generation_id == 2


def test_a_join_that_is_retried_fails_the_older_request(
    harness: ClassicHarness,
) -> None:
    one, _ = harness.stabilize({}, {})
    first = harness.join(one.member_id)
    second = harness.join(one.member_id)

    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.is_waiting
    assert harness.group().joined_count == 1


def test_a_leader_that_joins_a_stable_group_starts_a_rebalance(harness: ClassicHarness) -> None:
    leader, follower = harness.stabilize({}, {})

    assert harness.join(leader.member_id).is_waiting
    assert harness.heartbeat(follower.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_follower_that_rejoins_a_stable_group_unchanged_gets_the_current_generation(
    harness: ClassicHarness,
) -> None:
    leader, follower = harness.stabilize({}, {})

    again = harness.join(follower.member_id)

    assert again.value.generation_id == 1
    assert again.value.leader == leader.member_id
    assert again.value.members == []
    assert harness.group().state is State.STABLE


def test_a_follower_with_changed_metadata_starts_a_rebalance(harness: ClassicHarness) -> None:
    _, follower = harness.stabilize({}, {})

    assert harness.join(follower.member_id, protocols={"range": subscription("another")}).is_waiting
    assert harness.group().state is State.PREPARING_REBALANCE


def test_the_order_of_protocols_is_a_change(harness: ClassicHarness) -> None:
    protocols = {"range": b"", "roundrobin": b""}
    _, follower = harness.stabilize({"protocols": protocols}, {"protocols": protocols})

    assert harness.join(follower.member_id, protocols={"roundrobin": b"", "range": b""}).is_waiting


def test_a_member_that_rejoins_unchanged_before_the_assignment_gets_the_current_generation(
    harness: ClassicHarness,
) -> None:
    leader, follower = harness.assemble({}, {})

    assert harness.join(leader.member_id).value == leader
    assert harness.join(follower.member_id).value == follower
    assert harness.group().state is State.COMPLETING_REBALANCE


def test_changed_metadata_before_the_assignment_restarts_the_rebalance(harness: ClassicHarness) -> None:
    _, follower = harness.assemble({}, {})
    waiting = harness.sync(follower)

    assert harness.join(follower.member_id, protocols={"range": subscription("another")}).is_waiting
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.group().state is State.PREPARING_REBALANCE


def test_a_new_member_before_the_assignment_restarts_the_rebalance(harness: ClassicHarness) -> None:
    leader, follower = harness.assemble({}, {})
    waiting = harness.sync(follower)

    new = harness.enter()
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    again = [harness.join(leader.member_id), harness.join(follower.member_id)]

    assert {reply.value.generation_id for reply in [new, *again]} == {2}


# -- maximum size


def test_a_full_group_refuses_new_members() -> None:
    harness = ClassicHarness({"group.max.size": "2"})
    harness.stabilize({}, {})

    reply = harness.join()

    assert reply.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert reply.value.member_id == ""
    assert harness.group().state is State.STABLE


def test_during_the_initial_rebalance_the_first_members_are_accepted() -> None:
    harness = ClassicHarness({"group.max.size": "2"})
    replies = [harness.join(version=3) for _ in range(4)]

    assert [reply.is_waiting for reply in replies] == [True, True, False, False]
    assert replies[3].error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_pending_member_ids_do_not_count_for_the_group_size() -> None:
    harness = ClassicHarness({"group.max.size": "1"})
    ids = [harness.join().value.member_id for _ in range(2)]

    assert harness.join(ids[0]).is_waiting
    assert harness.join(ids[1]).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_waiting_member_may_retry_in_a_full_group() -> None:
    harness = ClassicHarness({"group.max.size": "1"})
    harness.enter()

    assert harness.join(harness.group().leader_id or "").is_waiting


def test_a_group_above_its_maximum_size_loses_the_last_members_to_rejoin() -> None:
    harness = ClassicHarness()
    one, two, three = harness.stabilize({}, {}, {})
    smaller = harness.successor({"group.max.size": "2"})
    assert smaller.group().state is State.PREPARING_REBALANCE

    first, second = smaller.join(one.member_id), smaller.join(two.member_id)
    last = smaller.join(three.member_id)

    assert last.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.value.generation_id == second.value.generation_id == 2


# -- timeouts


def test_members_that_do_not_rejoin_within_the_rebalance_timeout_are_removed(harness: ClassicHarness) -> None:
    options = {"session_timeout_ms": 10 * A_MINUTE_MS}
    one, two, three = harness.stabilize(*[options] * 3)
    again = harness.join(one.member_id, **options)
    harness.join(two.member_id, **options)

    harness.advance(REBALANCE_MS - 1)
    assert again.is_waiting
    harness.advance(1)

    assert again.value.generation_id == 2
    assert [member.member_id for member in again.value.members] == [one.member_id, two.member_id]
    assert harness.heartbeat(three.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_slowest_member_decides_the_rebalance_timeout(harness: ClassicHarness) -> None:
    slow = {"session_timeout_ms": 10 * A_MINUTE_MS, "rebalance_timeout_ms": 3 * A_MINUTE_MS}
    one, _ = harness.stabilize({"session_timeout_ms": 10 * A_MINUTE_MS}, slow)
    again = harness.join(one.member_id)

    harness.advance(3 * A_MINUTE_MS - 1)
    assert again.is_waiting
    harness.advance(1)
    assert not again.is_waiting


def test_in_version_0_the_session_timeout_is_also_the_rebalance_timeout(harness: ClassicHarness) -> None:
    harness.join(version=0, session_timeout_ms=20_000)

    (member,) = harness.group().members.values()
    assert member.rebalance_timeout_ms == 20_000


def test_if_the_leader_did_not_rejoin_another_member_leads(harness: ClassicHarness) -> None:
    options = {"session_timeout_ms": 10 * A_MINUTE_MS}
    leader, follower = harness.stabilize(options, options)
    again = harness.join(follower.member_id, protocols={"range": subscription("another")}, **options)

    harness.advance(REBALANCE_MS)

    assert again.value.leader == follower.member_id
    assert harness.heartbeat(leader.member_id, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_wait_need_no_heartbeats(harness: ClassicHarness) -> None:
    one, _ = harness.stabilize({}, {"session_timeout_ms": 10 * A_MINUTE_MS})
    again = harness.join(one.member_id)

    harness.advance(REBALANCE_MS)

    assert again.error is ErrorCode.NONE


def test_a_new_member_waits_at_most_five_minutes(harness: ClassicHarness) -> None:
    long = {"session_timeout_ms": 20 * A_MINUTE_MS, "rebalance_timeout_ms": 20 * A_MINUTE_MS}
    harness.stabilize(long)
    new = harness.enter(**long)

    harness.advance(5 * A_MINUTE_MS - 1)
    assert new.is_waiting
    harness.advance(1)

    assert new.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert new.value.member_id == ""


# -- the log


def test_a_new_group_is_written_as_empty(harness: ClassicHarness) -> None:
    harness.join()

    (record,) = harness.log
    assert record.version == 3
    assert record.value.members == []
    assert record.value.protocol_type == ""
    assert record.value.generation == 0


def test_a_new_group_whose_record_is_refused_does_not_exist(harness: ClassicHarness) -> None:
    harness.refuse = ErrorCode.COORDINATOR_NOT_AVAILABLE

    reply = harness.join(version=3)

    assert reply.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert GROUP not in harness.context.groups
    assert not len(harness.context.timers)
    harness.refuse = None
    assert harness.join(version=3).is_waiting
