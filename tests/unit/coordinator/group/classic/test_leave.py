"""LeaveGroup: members go, alone or several at once, by their own will or an administrator's."""

from __future__ import annotations

import gc
import weakref

import pytest

from harness.classic_groups import GROUP, ClassicStage
from penstock.coordinator.group.classic.state import State
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.leave_group import LeaveGroupResponse, MemberIdentity


@pytest.fixture
def stage() -> ClassicStage:
    return ClassicStage()


class Watched(dict[str, bytes]):
    """The metadata of a member, which can be seen to be forgotten."""


def errors(response: LeaveGroupResponse) -> list[ErrorCode]:
    return [member.error_code for member in response.members]


def test_in_a_group_that_does_not_exist_everyone_is_unknown(stage: ClassicStage) -> None:
    response = stage.leave("one", "two")

    assert response.error_code is ErrorCode.NONE
    assert errors(response) == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


@pytest.mark.parametrize("version", [0, 1, 2])
def test_older_clients_are_told_the_only_error_for_the_whole(stage: ClassicStage, version: int) -> None:
    (member,) = stage.stabilize({})

    assert stage.leave("somebody", version=version).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.leave(member.member_id, version=version).error_code is ErrorCode.NONE
    assert stage.group().state is State.EMPTY


def test_the_last_member_leaves_an_empty_group(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})

    response = stage.leave(member.member_id)

    assert [(each.member_id, each.error_code) for each in response.members] == [
        (member.member_id, ErrorCode.NONE)
    ]
    assert stage.group().state is State.EMPTY
    assert stage.log[-1].value.generation == 2
    assert not len(stage.context.timers)


def test_who_has_left_is_forgotten_without_waiting_for_the_collector(stage: ClassicStage) -> None:
    (joined,) = stage.stabilize({})
    member = stage.group().members[joined.member_id]
    watched = Watched(member.protocols)
    member.protocols = watched
    metadata = weakref.ref(watched)
    del member, watched

    gc.disable()
    try:
        stage.leave(joined.member_id)
        assert metadata() is None, "brokers collect seldom, and it may be large"
    finally:
        gc.enable()


def test_the_others_join_again(stage: ClassicStage) -> None:
    leader, follower = stage.stabilize({}, {})

    stage.leave(leader.member_id)

    assert stage.heartbeat(follower.member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    again = stage.join(follower.member_id)
    assert again.value.leader == follower.member_id
    assert again.value.generation_id == 2


def test_several_leave_at_once_and_each_is_told_for_itself(stage: ClassicStage) -> None:
    one, two, three = stage.stabilize({}, {"instance_id": "shelf-2"}, {})

    response = stage.leave(
        MemberIdentity(member_id=one.member_id),
        MemberIdentity(member_id="", group_instance_id="shelf-2"),
        MemberIdentity(member_id="somebody"),
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
    assert list(stage.group().members) == [three.member_id]
    assert two.member_id not in stage.group().static_ids.values()


def test_the_instance_of_another_member_is_fenced(stage: ClassicStage) -> None:
    one, _ = stage.stabilize({}, {"instance_id": "shelf-2"})

    response = stage.leave(MemberIdentity(member_id=one.member_id, group_instance_id="shelf-2"))

    assert errors(response) == [ErrorCode.FENCED_INSTANCE_ID]
    assert stage.group().state is State.STABLE


def test_nobody_by_no_name_is_unknown(stage: ClassicStage) -> None:
    stage.stabilize({})

    assert errors(stage.leave(MemberIdentity(member_id=""))) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert errors(stage.leave(MemberIdentity(member_id="", group_instance_id="shelf-9"))) == [
        ErrorCode.UNKNOWN_MEMBER_ID
    ]


def test_an_empty_list_changes_nothing(stage: ClassicStage) -> None:
    stage.stabilize({})

    assert stage.leave().members == []
    assert stage.group().state is State.STABLE


def test_one_who_was_just_given_an_id_may_leave(stage: ClassicStage) -> None:
    (one,) = stage.stabilize({})
    given = stage.join().value.member_id
    again = stage.join(one.member_id)
    assert again.is_waiting

    assert errors(stage.leave(given)) == [ErrorCode.NONE]

    assert again.value.generation_id == 2, "nobody else was waited for"
    assert not stage.group().pending_ids


def test_one_that_waits_to_join_is_told_that_it_is_gone(stage: ClassicStage) -> None:
    one, two = stage.stabilize({}, {})
    waiting = stage.join(one.member_id)

    stage.leave(one.member_id)

    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.join(two.member_id).value.generation_id == 2


def test_one_that_waits_for_its_assignment_is_told_that_it_is_gone(stage: ClassicStage) -> None:
    _, follower = stage.assemble({}, {})
    waiting = stage.sync(follower)

    stage.leave(follower.member_id)

    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.group().state is State.PREPARING_REBALANCE


def test_a_rebalance_ends_when_the_last_that_was_waited_for_leaves(stage: ClassicStage) -> None:
    one, two = stage.stabilize({}, {})
    again = stage.join(one.member_id)

    stage.leave(two.member_id)

    assert again.value.generation_id == 2
    assert len(again.value.members) == 1


def test_leaving_before_the_assignment_sends_everyone_back(stage: ClassicStage) -> None:
    leader, follower = stage.assemble({}, {})
    waiting = stage.sync(follower)

    stage.leave(leader.member_id)

    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_leaving_an_empty_group_is_unknown(stage: ClassicStage) -> None:
    (member,) = stage.stabilize({})
    stage.leave(member.member_id)

    assert errors(stage.leave(member.member_id)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert GROUP in stage.context.groups
