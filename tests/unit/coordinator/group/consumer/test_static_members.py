"""Static members (KIP-345): an instance that comes back takes its place again."""

from __future__ import annotations

import pytest

from harness.consumer_groups import SESSION_MS, ConsumerStage, HonestMember, settle
from penstock.protocol.errors import ErrorCode

WATER = {("water", index) for index in range(4)}


@pytest.fixture
def stage() -> ConsumerStage:
    stage = ConsumerStage()
    stage.create_topic("water", 4)
    return stage


def test_who_leaves_for_a_while_finds_everything_as_it_was(stage: ConsumerStage) -> None:
    one = HonestMember(stage, "one", instance_id="shelf-1")
    two = HonestMember(stage, "two")
    settle(stage, one, two)
    had, epoch = one.owned, stage.group.epoch

    left = stage.heartbeat("one", -2, instance_id="shelf-1")
    assert (left.error_code, left.member_epoch) == (ErrorCode.NONE, -2)
    assert stage.group.members["one"].epoch == -2
    again = HonestMember(stage, "one again", instance_id="shelf-1")
    again.heartbeat()

    assert again.owned == had
    assert (again.epoch, stage.group.epoch) == (epoch, epoch)
    assert set(stage.group.members) == {"one again", "two"}
    assert len(two.owned) == 2


def test_who_leaves_for_good_makes_room(stage: ConsumerStage) -> None:
    one = HonestMember(stage, "one", instance_id="shelf-1")
    two = HonestMember(stage, "two")
    settle(stage, one, two)

    one.leave()
    settle(stage, two)

    assert two.owned == WATER


def test_who_does_not_come_back_in_time_is_put_out(stage: ConsumerStage) -> None:
    stage.heartbeat("one", topics=["water"], instance_id="shelf-1")
    stage.heartbeat("one", -2, instance_id="shelf-1")

    stage.advance(SESSION_MS)

    assert not stage.group.members
    assert stage.heartbeat("two", topics=["water"], instance_id="shelf-1").error_code is ErrorCode.NONE


def test_what_it_was_to_give_up_is_free_when_it_leaves_for_a_while(stage: ConsumerStage) -> None:
    one = HonestMember(stage, "one", instance_id="shelf-1")
    two = HonestMember(stage, "two")
    one.heartbeat()
    two.heartbeat()
    stage.heartbeat("one", one.epoch, instance_id="shelf-1")  # it is told to give up two of four

    stage.heartbeat("one", -2, instance_id="shelf-1")
    two.heartbeat()

    assert len(two.owned) == 2


def test_an_instance_that_is_there_is_not_replaced(stage: ConsumerStage) -> None:
    stage.heartbeat("one", topics=["water"], instance_id="shelf-1")

    response = stage.heartbeat("two", topics=["water"], instance_id="shelf-1")

    assert response.error_code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert list(stage.group.members) == ["one"]


@pytest.mark.parametrize("epoch", [2, -1, -2])
def test_whoever_had_the_instance_before_is_fenced(stage: ConsumerStage, epoch: int) -> None:
    stage.heartbeat("one", topics=["water"], instance_id="shelf-1")
    stage.heartbeat("one", -2, instance_id="shelf-1")
    stage.heartbeat("two", topics=["water"], instance_id="shelf-1")

    response = stage.heartbeat("one", epoch, instance_id="shelf-1")

    assert response.error_code is ErrorCode.FENCED_INSTANCE_ID
    assert list(stage.group.members) == ["two"]


@pytest.mark.parametrize("epoch", [2, -1, -2])
def test_an_instance_that_nobody_knows_is_unknown(stage: ConsumerStage, epoch: int) -> None:
    stage.heartbeat("one", topics=["water"])

    response = stage.heartbeat("one", epoch, instance_id="shelf-9")

    assert response.error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_after_leaving_for_a_while_is_fenced(stage: ConsumerStage) -> None:
    stage.heartbeat("one", topics=["water"], instance_id="shelf-1")
    stage.heartbeat("one", -2, instance_id="shelf-1")

    response = stage.heartbeat("one", 2, instance_id="shelf-1")

    assert response.error_code is ErrorCode.FENCED_MEMBER_EPOCH


def test_an_instance_may_come_back_with_another_subscription(stage: ConsumerStage) -> None:
    stage.create_topic("waste", 2)
    one = HonestMember(stage, "one", instance_id="shelf-1")
    two = HonestMember(stage, "two")
    settle(stage, one, two)
    stage.heartbeat("one", -2, instance_id="shelf-1")

    again = HonestMember(stage, "one again", instance_id="shelf-1", topics=["waste"])
    settle(stage, again, two)

    assert again.owned == {("waste", 0), ("waste", 1)}
    assert two.owned == WATER
