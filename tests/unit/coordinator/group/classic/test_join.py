"""JoinGroup: who may come in, who waits for whom, and what everyone is told."""

from __future__ import annotations

import pytest

from harness.classic_groups import (
    GROUP,
    INITIAL_DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    ClassicStage,
    subscription,
)
from penstock.coordinator.group.classic.state import State
from penstock.protocol.errors import ErrorCode

A_MINUTE_MS = 60_000


@pytest.fixture
def stage() -> ClassicStage:
    return ClassicStage()


# -- ids


def test_a_new_member_is_given_an_id_and_has_to_come_back_with_it(stage: ClassicStage) -> None:
    first = stage.join()

    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    assert first.value.member_id.startswith("client-")
    assert first.value.generation_id == -1
    assert not stage.group().members

    second = stage.join(first.value.member_id)

    assert second.is_waiting
    assert list(stage.group().members) == [first.value.member_id]
    assert not stage.group().pending_ids


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_older_clients_come_in_at_once(stage: ClassicStage, version: int) -> None:
    reply = stage.join(version=version)

    assert reply.is_waiting
    stage.advance(INITIAL_DELAY_MS)
    assert reply.error is ErrorCode.NONE
    assert reply.value.member_id.startswith("client-")


def test_an_id_is_unique_and_begins_with_the_client_id_or_the_instance_id(stage: ClassicStage) -> None:
    ids = {stage.join().value.member_id for _ in range(3)}
    static = stage.join(instance_id="shelf-1")
    stage.advance(INITIAL_DELAY_MS + SESSION_MS)

    assert len(ids) == 3
    assert static.value.member_id.startswith("shelf-1-")


def test_an_id_that_nobody_comes_back_with_is_forgotten_after_its_session(stage: ClassicStage) -> None:
    member_id = stage.join().value.member_id

    stage.advance(SESSION_MS - 1)
    assert member_id in stage.group().pending_ids
    stage.advance(1)

    assert member_id not in stage.group().pending_ids
    assert stage.join(member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_id_in_a_group_that_does_not_exist_is_unknown(stage: ClassicStage) -> None:
    reply = stage.join("somebody")

    assert reply.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert reply.value.member_id == "somebody"
    assert GROUP not in stage.context.groups


def test_a_member_id_that_the_group_does_not_know_is_unknown(stage: ClassicStage) -> None:
    stage.stabilize({})

    reply = stage.join("somebody")

    assert reply.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert reply.value.protocol_name is None


def test_before_version_7_a_refusal_names_an_empty_protocol(stage: ClassicStage) -> None:
    stage.stabilize({})

    assert stage.join("somebody", version=6).value.protocol_name == ""


def test_a_given_id_can_not_be_used_by_a_static_member(stage: ClassicStage) -> None:
    member_id = stage.join().value.member_id

    assert stage.join(member_id, instance_id="shelf-1").error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert stage.join(member_id).is_waiting


# -- protocols


def test_an_empty_protocol_list_is_inconsistent_and_leaves_no_trace(stage: ClassicStage) -> None:
    assert stage.join(protocols={}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    assert GROUP not in stage.context.groups
    assert not stage.log


def test_an_empty_protocol_type_is_inconsistent(stage: ClassicStage) -> None:
    assert stage.join(protocol_type="").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_protocol_list_is_inconsistent_with_a_group_that_has_members(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})

    assert stage.join(protocols={}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.join(member.member_id, protocols={}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.group().state is State.STABLE


def test_another_protocol_type_is_inconsistent(stage: ClassicStage) -> None:
    stage.stabilize({})

    reply = stage.join(protocol_type="connect")

    assert reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert reply.value.member_id == ""


def test_someone_without_a_protocol_that_all_support_is_inconsistent(stage: ClassicStage) -> None:
    stage.stabilize({"protocols": {"range": b"", "sticky": b""}}, {"protocols": {"range": b""}})

    assert stage.join(protocols={"sticky": b""}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.join(protocols={"sticky": b"", "range": b""}).error is ErrorCode.MEMBER_ID_REQUIRED


def test_an_empty_group_may_take_another_protocol_type(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})
    stage.leave(member.member_id)

    joined = stage.assemble({"protocol_type": "connect", "protocols": {"default": b""}})

    assert joined[0].protocol_type == "connect"


def test_the_protocol_with_the_most_votes_of_those_that_all_support_is_chosen(stage: ClassicStage) -> None:
    joined = stage.assemble(
        {"protocols": {"roundrobin": b"", "range": b""}},
        {"protocols": {"range": b"", "roundrobin": b""}},
        {"protocols": {"own": b"", "range": b"", "roundrobin": b""}},
    )

    assert {answer.protocol_name for answer in joined} == {"range"}


def test_of_equal_votes_that_of_the_oldest_member_decides(stage: ClassicStage) -> None:
    joined = stage.assemble(
        {"protocols": {"roundrobin": b"", "range": b""}},
        {"protocols": {"range": b"", "roundrobin": b""}},
    )

    assert joined[0].protocol_name == "roundrobin"


def test_of_two_entries_of_one_protocol_the_first_counts(stage: ClassicStage) -> None:
    from penstock.coordinator.group.classic.member import read_protocols
    from penstock.protocol.messages.join_group import JoinGroupRequestProtocol

    twice = [JoinGroupRequestProtocol(name="range", metadata=metadata) for metadata in (b"1", b"2")]

    assert read_protocols(twice) == {"range": b"1"}


# -- what everyone is told


def test_only_the_leader_is_told_of_everyone(stage: ClassicStage) -> None:
    leader, follower = stage.assemble(
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


def test_an_empty_group_waits_for_more_members(stage: ClassicStage) -> None:
    reply = stage.enter()

    stage.advance(INITIAL_DELAY_MS - 1)
    assert reply.is_waiting
    stage.advance(1)
    assert reply.value.generation_id == 1


def test_the_initial_delay_is_a_setting() -> None:
    stage = ClassicStage({"group.initial.rebalance.delay.ms": "0"})

    reply = stage.enter()
    stage.advance(0)

    assert reply.value.generation_id == 1


def test_without_a_delay_those_who_come_in_one_burst_still_share_a_generation() -> None:
    stage = ClassicStage({"group.initial.rebalance.delay.ms": "0"})
    expected = stage.join()
    first, second = stage.enter(), stage.enter()

    stage.advance(0)
    assert first.is_waiting
    third = stage.join(expected.value.member_id)

    assert first.value.generation_id == second.value.generation_id == third.value.generation_id == 1


def test_without_a_delay_who_does_not_come_back_is_not_waited_for() -> None:
    stage = ClassicStage({"group.initial.rebalance.delay.ms": "0"})
    stage.join()
    first, second = stage.enter(), stage.enter()

    stage.advance(1)

    assert first.value.generation_id == second.value.generation_id == 1


def test_the_initial_delay_begins_anew_with_each_member_that_comes(stage: ClassicStage) -> None:
    first = stage.enter()
    stage.advance(2_000)
    second = stage.enter()

    stage.advance(INITIAL_DELAY_MS)
    assert first.is_waiting
    stage.advance(1_000)

    assert first.value.generation_id == second.value.generation_id == 1


def test_the_initial_delays_never_take_longer_than_the_rebalance_timeout(stage: ClassicStage) -> None:
    first = stage.enter(rebalance_timeout_ms=10_000)
    for _ in range(9):
        stage.advance(1_000)
        stage.enter(rebalance_timeout_ms=10_000)
    assert first.is_waiting

    stage.advance(2_000)

    assert len(first.value.members) == 10


def test_each_initial_rebalance_counts_its_own_members(stage: ClassicStage) -> None:
    """Who came to the one before is no reason to wait longer for this one."""
    short = {"rebalance_timeout_ms": INITIAL_DELAY_MS}
    one, two = stage.stabilize(short, short)
    stage.leave(one.member_id, two.member_id)
    assert stage.group().state is State.EMPTY

    reply = stage.enter()
    stage.advance(INITIAL_DELAY_MS)

    assert not reply.is_waiting


def test_an_initial_rebalance_does_not_end_early_because_all_have_joined(stage: ClassicStage) -> None:
    first, second = stage.enter(), stage.enter()

    stage.leave(stage.group().leader_id or "")

    assert first.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert second.is_waiting
    stage.advance(2 * INITIAL_DELAY_MS)
    assert second.value.leader == second.value.member_id


def test_a_group_that_everyone_left_during_its_initial_rebalance_is_empty(stage: ClassicStage) -> None:
    reply = stage.enter()
    stage.leave(stage.group().leader_id or "")
    assert reply.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.group().state is State.PREPARING_REBALANCE

    stage.advance(INITIAL_DELAY_MS)

    assert stage.group().state is State.EMPTY
    assert stage.group().generation == 1


# -- joining a group that is there


def test_a_new_member_starts_a_rebalance_that_ends_when_all_have_joined_again(stage: ClassicStage) -> None:
    one, two = stage.stabilize({}, {})

    new = stage.enter()
    assert stage.group().state is State.PREPARING_REBALANCE
    again = [stage.join(one.member_id), stage.join(two.member_id)]

    assert new.value.generation_id == 2
    assert [reply.value.generation_id for reply in again] == [2, 2]
    assert len(again[0].value.members) == 3


def test_an_id_that_was_given_out_holds_a_rebalance_up(stage: ClassicStage) -> None:
    (one,) = stage.stabilize({})
    given = stage.join().value.member_id
    assert stage.group().state is State.STABLE, "it is not a member yet"

    again = stage.join(one.member_id)
    assert again.is_waiting
    stage.join(given)

    assert again.value.generation_id == 2


def test_a_rebalance_goes_on_when_the_given_id_expires(stage: ClassicStage) -> None:
    (one,) = stage.stabilize({"session_timeout_ms": A_MINUTE_MS})
    stage.join()
    again = stage.join(one.member_id, session_timeout_ms=A_MINUTE_MS)

    stage.advance(SESSION_MS)

    assert again.value.generation_id == 2


def test_a_member_that_joins_again_while_it_waits_has_its_older_request_sent_back(
    stage: ClassicStage,
) -> None:
    one, _ = stage.stabilize({}, {})
    first = stage.join(one.member_id)
    second = stage.join(one.member_id)

    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.is_waiting
    assert stage.group().joined_count == 1


def test_a_leader_that_joins_a_stable_group_starts_a_rebalance(stage: ClassicStage) -> None:
    leader, follower = stage.stabilize({}, {})

    assert stage.join(leader.member_id).is_waiting
    assert stage.heartbeat(follower.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_follower_that_joins_a_stable_group_unchanged_is_told_what_it_missed(stage: ClassicStage) -> None:
    leader, follower = stage.stabilize({}, {})

    again = stage.join(follower.member_id)

    assert again.value.generation_id == 1
    assert again.value.leader == leader.member_id
    assert again.value.members == []
    assert stage.group().state is State.STABLE


def test_a_follower_with_changed_metadata_starts_a_rebalance(stage: ClassicStage) -> None:
    _, follower = stage.stabilize({}, {})

    assert stage.join(follower.member_id, protocols={"range": subscription("another")}).is_waiting
    assert stage.group().state is State.PREPARING_REBALANCE


def test_the_order_of_protocols_is_a_change(stage: ClassicStage) -> None:
    protocols = {"range": b"", "roundrobin": b""}
    _, follower = stage.stabilize({"protocols": protocols}, {"protocols": protocols})

    assert stage.join(follower.member_id, protocols={"roundrobin": b"", "range": b""}).is_waiting


def test_whoever_joins_again_unchanged_before_the_assignment_is_told_what_it_missed(
    stage: ClassicStage,
) -> None:
    leader, follower = stage.assemble({}, {})

    assert stage.join(leader.member_id).value == leader
    assert stage.join(follower.member_id).value == follower
    assert stage.group().state is State.COMPLETING_REBALANCE


def test_changed_metadata_before_the_assignment_starts_over(stage: ClassicStage) -> None:
    _, follower = stage.assemble({}, {})
    waiting = stage.sync(follower)

    assert stage.join(follower.member_id, protocols={"range": subscription("another")}).is_waiting
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.group().state is State.PREPARING_REBALANCE


def test_a_new_member_before_the_assignment_starts_over(stage: ClassicStage) -> None:
    leader, follower = stage.assemble({}, {})
    waiting = stage.sync(follower)

    new = stage.enter()
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    again = [stage.join(leader.member_id), stage.join(follower.member_id)]

    assert {reply.value.generation_id for reply in [new, *again]} == {2}


# -- the largest group


def test_a_full_group_turns_new_members_away() -> None:
    stage = ClassicStage({"group.max.size": "2"})
    stage.stabilize({}, {})

    reply = stage.join()

    assert reply.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert reply.value.member_id == ""
    assert stage.group().state is State.STABLE


def test_while_a_group_forms_the_first_who_come_have_a_place() -> None:
    stage = ClassicStage({"group.max.size": "2"})
    replies = [stage.join(version=3) for _ in range(4)]

    assert [reply.is_waiting for reply in replies] == [True, True, False, False]
    assert replies[3].error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_ids_that_were_given_out_do_not_take_a_place() -> None:
    stage = ClassicStage({"group.max.size": "1"})
    ids = [stage.join().value.member_id for _ in range(2)]

    assert stage.join(ids[0]).is_waiting
    assert stage.join(ids[1]).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_member_that_waits_may_ask_again_in_a_full_group() -> None:
    stage = ClassicStage({"group.max.size": "1"})
    stage.enter()

    assert stage.join(stage.group().leader_id or "").is_waiting


def test_a_group_that_became_too_large_loses_the_last_to_join_again() -> None:
    stage = ClassicStage()
    one, two, three = stage.stabilize({}, {}, {})
    smaller = stage.successor({"group.max.size": "2"})
    assert smaller.group().state is State.PREPARING_REBALANCE

    first, second = smaller.join(one.member_id), smaller.join(two.member_id)
    last = smaller.join(three.member_id)

    assert last.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.value.generation_id == second.value.generation_id == 2


# -- time


def test_members_that_do_not_join_again_within_the_rebalance_timeout_are_put_out(stage: ClassicStage) -> None:
    options = {"session_timeout_ms": 10 * A_MINUTE_MS}
    one, two, three = stage.stabilize(*[options] * 3)
    again = stage.join(one.member_id, **options)
    stage.join(two.member_id, **options)

    stage.advance(REBALANCE_MS - 1)
    assert again.is_waiting
    stage.advance(1)

    assert again.value.generation_id == 2
    assert [member.member_id for member in again.value.members] == [one.member_id, two.member_id]
    assert stage.heartbeat(three.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_slowest_member_decides_the_rebalance_timeout(stage: ClassicStage) -> None:
    slow = {"session_timeout_ms": 10 * A_MINUTE_MS, "rebalance_timeout_ms": 3 * A_MINUTE_MS}
    one, _ = stage.stabilize({"session_timeout_ms": 10 * A_MINUTE_MS}, slow)
    again = stage.join(one.member_id)

    stage.advance(3 * A_MINUTE_MS - 1)
    assert again.is_waiting
    stage.advance(1)
    assert not again.is_waiting


def test_in_version_0_the_session_timeout_stands_for_both(stage: ClassicStage) -> None:
    stage.join(version=0, session_timeout_ms=20_000)

    (member,) = stage.group().members.values()
    assert member.rebalance_timeout_ms == 20_000


def test_when_the_leader_did_not_join_another_leads(stage: ClassicStage) -> None:
    options = {"session_timeout_ms": 10 * A_MINUTE_MS}
    leader, follower = stage.stabilize(options, options)
    again = stage.join(follower.member_id, protocols={"range": subscription("another")}, **options)

    stage.advance(REBALANCE_MS)

    assert again.value.leader == follower.member_id
    assert stage.heartbeat(leader.member_id, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_wait_need_no_heartbeats(stage: ClassicStage) -> None:
    one, _ = stage.stabilize({}, {"session_timeout_ms": 10 * A_MINUTE_MS})
    again = stage.join(one.member_id)

    stage.advance(REBALANCE_MS)

    assert again.error is ErrorCode.NONE


def test_a_new_member_waits_at_most_five_minutes(stage: ClassicStage) -> None:
    long = {"session_timeout_ms": 20 * A_MINUTE_MS, "rebalance_timeout_ms": 20 * A_MINUTE_MS}
    stage.stabilize(long)
    new = stage.enter(**long)

    stage.advance(5 * A_MINUTE_MS - 1)
    assert new.is_waiting
    stage.advance(1)

    assert new.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert new.value.member_id == ""


# -- the log


def test_a_new_group_is_written_down_empty(stage: ClassicStage) -> None:
    stage.join()

    (record,) = stage.log
    assert record.version == 3
    assert record.value.members == []
    assert record.value.protocol_type == ""
    assert record.value.generation == 0


def test_where_a_new_group_can_not_be_written_down_there_is_none(stage: ClassicStage) -> None:
    stage.refuse = ErrorCode.COORDINATOR_NOT_AVAILABLE

    reply = stage.join(version=3)

    assert reply.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert GROUP not in stage.context.groups
    assert not len(stage.context.timers)
    stage.refuse = None
    assert stage.join(version=3).is_waiting
