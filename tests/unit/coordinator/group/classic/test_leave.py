"""LeaveGroup to a classic group, sent by members or administrators."""

from __future__ import annotations

import gc
import weakref

import pytest

from harness.classic_groups import GROUP, ClassicHarness
from penstock.coordinator.group.classic.state import State
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity


@pytest.fixture
def harness() -> ClassicHarness:
    return ClassicHarness()


class Watched(dict[str, bytes]):
    """The metadata of a member, with a weak reference to see that it is freed."""


def errors(response: LeaveGroupResponse) -> list[ErrorCode]:
    return [member.error_code for member in response.members]


def test_in_an_unknown_group_every_member_is_unknown(harness: ClassicHarness) -> None:
    response = harness.leave("one", "two")

    assert response.error_code is ErrorCode.NONE
    assert errors(response) == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


@pytest.mark.parametrize("version", [0, 1, 2])
def test_older_clients_get_the_single_error_at_the_top_level(harness: ClassicHarness, version: int) -> None:
    (member,) = harness.stabilize({})

    assert harness.leave("unknown-member", version=version).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.leave(member.member_id, version=version).error_code is ErrorCode.NONE
    assert harness.group().state is State.EMPTY


def test_the_last_member_leaves_an_empty_group(harness: ClassicHarness) -> None:
    (member,) = harness.stabilize({})

    response = harness.leave(member.member_id)

    assert [(each.member_id, each.error_code) for each in response.members] == [
        (member.member_id, ErrorCode.NONE)
    ]
    assert harness.group().state is State.EMPTY
    assert harness.log[-1].value.generation == 2
    assert not len(harness.context.timers)


def test_a_member_that_left_is_freed_without_the_garbage_collector(harness: ClassicHarness) -> None:
    (joined,) = harness.stabilize({})
    member = harness.group().members[joined.member_id]
    watched = Watched(member.protocols)
    member.protocols = watched
    metadata = weakref.ref(watched)
    del member, watched

    gc.disable()
    try:
        harness.leave(joined.member_id)
        assert metadata() is None, "brokers collect seldom, and it may be large"
    finally:
        gc.enable()


def test_the_other_members_have_to_rejoin(harness: ClassicHarness) -> None:
    leader, follower = harness.stabilize({}, {})

    harness.leave(leader.member_id)

    assert harness.heartbeat(follower.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = harness.join(follower.member_id)
    assert again.value.leader == follower.member_id
    assert again.value.generation_id == 2


def test_several_members_leave_at_once_with_a_result_each(harness: ClassicHarness) -> None:
    one, two, three = harness.stabilize({}, {"instance_id": "shelf-2"}, {})

    response = harness.leave(
        MemberIdentity(member_id=one.member_id),
        MemberIdentity(member_id="", group_instance_id="shelf-2"),
        MemberIdentity(member_id="unknown-member"),
        MemberIdentity(member_id=three.member_id, group_instance_id="shelf-3"),
    )

    assert errors(response) == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert response.members[1].member_id == ""
    assert response.members[1].group_instance_id == "shelf-2"
    assert list(harness.group().members) == [three.member_id]
    assert two.member_id not in harness.group().static_ids.values()


def test_the_instance_of_another_member_is_fenced(harness: ClassicHarness) -> None:
    one, _ = harness.stabilize({}, {"instance_id": "shelf-2"})

    response = harness.leave(MemberIdentity(member_id=one.member_id, group_instance_id="shelf-2"))

    assert errors(response) == [ErrorCode.FENCED_INSTANCE_ID]
    assert harness.group().state is State.STABLE


def test_a_leave_without_member_id_and_instance_id_is_unknown(harness: ClassicHarness) -> None:
    harness.stabilize({})

    assert errors(harness.leave(MemberIdentity(member_id=""))) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert errors(harness.leave(MemberIdentity(member_id="", group_instance_id="shelf-9"))) == [
        ErrorCode.UNKNOWN_MEMBER_ID
    ]


def test_an_empty_list_changes_nothing(harness: ClassicHarness) -> None:
    harness.stabilize({})

    assert harness.leave().members == []
    assert harness.group().state is State.STABLE


def test_a_pending_member_may_leave(harness: ClassicHarness) -> None:
    (one,) = harness.stabilize({})
    given = harness.join().value.member_id
    again = harness.join(one.member_id)
    assert again.is_waiting

    assert errors(harness.leave(given)) == [ErrorCode.NONE]

    assert again.value.generation_id == 2, "the rebalance did not wait for other members"
    assert not harness.group().pending_ids


def test_a_member_that_leaves_while_it_waits_to_join_gets_unknown_member_id(harness: ClassicHarness) -> None:
    one, two = harness.stabilize({}, {})
    waiting = harness.join(one.member_id)

    harness.leave(one.member_id)

    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.join(two.member_id).value.generation_id == 2


def test_a_member_that_leaves_while_it_waits_for_its_assignment_gets_unknown_member_id(
    harness: ClassicHarness,
) -> None:
    _, follower = harness.assemble({}, {})
    waiting = harness.sync(follower)

    harness.leave(follower.member_id)

    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.group().state is State.PREPARING_REBALANCE


def test_a_rebalance_ends_when_the_last_missing_member_leaves(harness: ClassicHarness) -> None:
    one, two = harness.stabilize({}, {})
    again = harness.join(one.member_id)

    harness.leave(two.member_id)

    assert again.value.generation_id == 2
    assert len(again.value.members) == 1


def test_leaving_before_the_assignment_makes_all_members_rejoin(harness: ClassicHarness) -> None:
    leader, follower = harness.assemble({}, {})
    waiting = harness.sync(follower)

    harness.leave(leader.member_id)

    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_leaving_an_empty_group_is_unknown(harness: ClassicHarness) -> None:
    (member,) = harness.stabilize({})
    harness.leave(member.member_id)

    assert errors(harness.leave(member.member_id)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert GROUP in harness.context.groups
