"""ConsumerGroupHeartbeat: joining, epochs, moving partitions, leaving, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from harness.consumer_groups import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    ConsumerStage,
    HonestMember,
    settle,
)
from penstock.coordinator.group.client import Client
from penstock.coordinator.group.consumer.member import MemberState
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import Assignment

WATER = {("water", index) for index in range(6)}


@pytest.fixture
def stage() -> ConsumerStage:
    stage = ConsumerStage()
    stage.create_topic("water", 6)
    return stage


# -- joining


def test_the_first_member_gets_everything_in_the_second_epoch(stage: ConsumerStage) -> None:
    response = stage.heartbeat("one", topics=["water"])

    assert (response.error_code, response.member_id, response.member_epoch) == (ErrorCode.NONE, "one", 2)
    assert response.heartbeat_interval_ms == 5000
    assert response.assignment is not None
    assert stage.read(response.assignment.topic_partitions) == WATER
    assert stage.group.state_name() == "Stable"


def test_a_topic_that_does_not_exist_is_waited_for(stage: ConsumerStage) -> None:
    first = stage.heartbeat("one", topics=["later"])
    assert first.assignment == Assignment(topic_partitions=[])

    stage.create_topic("later", 2)
    second = stage.heartbeat("one", first.member_epoch)

    assert second.member_epoch == first.member_epoch + 1
    assert second.assignment is not None
    assert stage.read(second.assignment.topic_partitions) == {("later", 0), ("later", 1)}


def test_version_0_lets_the_coordinator_choose_an_id(stage: ConsumerStage) -> None:
    response = stage.heartbeat("", topics=["water"], version=0)

    assert response.error_code is ErrorCode.NONE
    assert response.member_id is not None
    assert len(response.member_id) == 22
    assert response.member_id in stage.group.members


def test_a_group_may_be_full() -> None:
    stage = ConsumerStage({"group.consumer.max.size": "1"})
    stage.heartbeat("one", topics=["water"])

    assert stage.heartbeat("two", topics=["water"]).error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert stage.heartbeat("one", topics=["water"]).error_code is ErrorCode.NONE


# -- partitions move


def test_a_partition_is_given_up_before_it_is_given_to_another_one(stage: ConsumerStage) -> None:
    one, two = HonestMember(stage, "one"), HonestMember(stage, "two")
    one.heartbeat()

    assert two.heartbeat().member_epoch == 3
    assert two.owned == set()
    assert stage.group.members["two"].state is MemberState.UNRELEASED_PARTITIONS

    told = stage.heartbeat("one", 2)  # it says nothing of what it has
    assert told.member_epoch == 2
    assert told.assignment is not None
    kept = stage.read(told.assignment.topic_partitions)
    assert len(kept) == 3
    assert two.heartbeat().assignment is None

    released = stage.heartbeat("one", 2, owned=kept)
    assert (released.member_epoch, released.assignment) == (3, None)
    two.heartbeat()
    assert two.owned == WATER - kept
    assert stage.group.state_name() == "Stable"


def test_a_member_that_still_reports_what_it_shall_give_up_is_waited_for(stage: ConsumerStage) -> None:
    stage.heartbeat("one", topics=["water"])
    stage.heartbeat("two", topics=["water"])
    stage.heartbeat("one", 2, owned=WATER)

    assert stage.heartbeat("one", 2, owned=WATER).member_epoch == 2
    assert stage.group.members["one"].state is MemberState.UNREVOKED_PARTITIONS
    assert stage.group.state_name() == "Reconciling"


def test_a_silent_heartbeat_of_a_settled_group_writes_nothing(stage: ConsumerStage) -> None:
    members = [HonestMember(stage, name) for name in ("one", "two", "three")]
    settle(stage, *members)
    written = len(stage.log)

    response = stage.heartbeat("one", members[0].epoch)

    assert (response.error_code, response.assignment) == (ErrorCode.NONE, None)
    assert len(stage.log) == written


def test_who_tells_everything_is_told_everything(stage: ConsumerStage) -> None:
    stage.heartbeat("one", topics=["water"])

    response = stage.heartbeat("one", 2, topics=["water"], owned=WATER, rebalance_timeout_ms=REBALANCE_MS)

    assert response.assignment is not None
    assert stage.read(response.assignment.topic_partitions) == WATER


def test_members_that_come_together_are_assigned_together() -> None:
    stage = ConsumerStage({"group.consumer.assignment.interval.ms": "1000"})
    stage.create_topic("water", 6)
    members = [HonestMember(stage, f"m{number}") for number in range(6)]
    for member in members:
        member.heartbeat()

    assert stage.group.state_name() == "Assigning"
    assert stage.group.target_epoch.number == 2  # of the first one
    stage.advance(1000)
    settle(stage, *members)

    assert [len(member.owned) for member in members] == [1] * 6
    assert stage.group.target_epoch.number == stage.group.epoch == 7


def test_another_subscription_takes_away_what_is_not_subscribed_to(stage: ConsumerStage) -> None:
    stage.create_topic("waste", 2)
    one, two = HonestMember(stage, "one"), HonestMember(stage, "two", topics=["water", "waste"])
    settle(stage, one, two)

    two.subscribe(["waste"])
    assert two.assigned == {("waste", 0), ("waste", 1)}
    settle(stage, one, two)

    assert one.owned == WATER
    assert not stage.group.is_homogeneous


def test_most_members_choose_the_assignor(stage: ConsumerStage) -> None:
    members = [
        HonestMember(stage, "one", assignor="range"),
        HonestMember(stage, "two", assignor="uniform"),
        HonestMember(stage, "three", assignor="range"),
    ]
    settle(stage, *members)

    assert stage.consumer.describe(GROUP).assignor_name == "range"
    assert members[0].owned == {("water", 0), ("water", 1)}


def test_a_member_that_changes_its_address_is_written_down(stage: ConsumerStage) -> None:
    stage.heartbeat("one", topics=["water"])

    stage.heartbeat("one", 2, client=Client("other", "/10.0.0.1"))

    member = stage.group.members["one"]
    assert (member.client_id, member.client_host, member.epoch) == ("other", "/10.0.0.1", 2)


# -- epochs


def test_an_epoch_from_the_future_is_fenced(stage: ConsumerStage) -> None:
    stage.heartbeat("one", topics=["water"])

    assert stage.heartbeat("one", 3).error_code is ErrorCode.FENCED_MEMBER_EPOCH


def test_the_epoch_before_is_good_if_the_member_has_nothing_that_is_not_its_own(stage: ConsumerStage) -> None:
    stage.heartbeat("one", topics=["water"])
    stage.heartbeat("two", topics=["water"])
    kept = {("water", index) for index in range(3)}
    stage.heartbeat("one", 2, owned=WATER)
    assert stage.heartbeat("one", 2, owned=kept).member_epoch == 3

    assert stage.heartbeat("one", 2, owned=kept).member_epoch == 3  # it missed the answer
    assert stage.heartbeat("one", 2, owned=WATER).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert stage.heartbeat("one", 2).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert stage.heartbeat("one", 1, owned=kept).error_code is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_may_begin_anew_at_any_time(stage: ConsumerStage) -> None:
    stage.heartbeat("one", topics=["water"])

    response = stage.heartbeat("one", 0, topics=["water"])

    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, 2)
    assert response.assignment is not None
    assert stage.read(response.assignment.topic_partitions) == WATER


# -- leaving


def test_who_leaves_makes_room(stage: ConsumerStage) -> None:
    one, two = HonestMember(stage, "one"), HonestMember(stage, "two")
    settle(stage, one, two)

    response = two.leave()
    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, -1)
    assert stage.group.state_name() == "Assigning"
    settle(stage, one)

    assert one.owned == WATER
    assert list(stage.group.members) == ["one"]


def test_an_empty_group_stays_and_counts_on(stage: ConsumerStage) -> None:
    stage.heartbeat("one", topics=["water"])
    stage.heartbeat("one", -1)

    assert stage.group.state_name() == "Empty"
    assert stage.group.epoch == 3
    assert stage.heartbeat("one", topics=["water"]).member_epoch == 4


def test_who_is_silent_for_too_long_is_put_out(stage: ConsumerStage) -> None:
    one, two = HonestMember(stage, "one"), HonestMember(stage, "two")
    settle(stage, one, two)

    stage.advance(SESSION_MS - 1)
    one.heartbeat()
    assert "two" in stage.group.members
    stage.advance(1)

    assert "two" not in stage.group.members
    settle(stage, one)
    assert one.owned == WATER
    assert stage.heartbeat("two", two.epoch).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_does_not_give_up_partitions_in_time_is_put_out(stage: ConsumerStage) -> None:
    one, two = HonestMember(stage, "one"), HonestMember(stage, "two")
    one.heartbeat()
    two.heartbeat()
    for _ in range(REBALANCE_MS // 5000):
        stage.heartbeat("one", 2, owned=WATER)
        two.heartbeat()
        stage.advance(5000)

    assert stage.heartbeat("one", 2, owned=WATER).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    settle(stage, two)
    assert two.owned == WATER


def test_a_group_may_have_sessions_of_its_own(stage: ConsumerStage) -> None:
    stage.configure_group("consumer.session.timeout.ms", "50000")
    stage.configure_group("consumer.heartbeat.interval.ms", "7000")

    assert stage.heartbeat("one", topics=["water"]).heartbeat_interval_ms == 7000
    stage.advance(SESSION_MS)
    assert "one" in stage.group.members
    stage.advance(50_000 - SESSION_MS)
    assert not stage.group.members


# -- refused


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"owned": {("water", 0)}}, ErrorCode.INVALID_REQUEST),
        ({"topics": None}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 4}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"server_assignor": "best"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_a_bad_request_leaves_no_trace(
    stage: ConsumerStage, fields: dict[str, Any], error: ErrorCode
) -> None:
    response = stage.heartbeat(**{"topics": ["water"], **fields})

    assert response.error_code is error
    assert response.error_message
    assert not stage.log
    assert not stage.context.groups


def test_what_the_log_refuses_has_not_happened(stage: ConsumerStage) -> None:
    stage.refuse = ErrorCode.NOT_COORDINATOR
    assert stage.heartbeat("one", topics=["water"]).error_code is ErrorCode.NOT_COORDINATOR
    assert not stage.context.groups

    stage.refuse = None
    assert stage.heartbeat("one", topics=["water"]).member_epoch == 2
    stage.refuse = ErrorCode.NOT_COORDINATOR
    stage.grow_topic("water", 8)
    stage.heartbeat("one", 2)
    stage.refuse = None

    assert stage.heartbeat("one", 2).member_epoch == 3  # the topics are looked at again
