"""ConsumerGroupHeartbeat: joining, epochs, reconciliation, leaving, errors."""

from __future__ import annotations

from typing import Any

import pytest

from harness.consumer_groups import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    ConsumerHarness,
    HonestMember,
    settle,
)
from penstock.coordinator.group.client import Client
from penstock.coordinator.group.modern.member import MemberState
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import Assignment

WATER = {("water", index) for index in range(6)}


@pytest.fixture
def harness() -> ConsumerHarness:
    harness = ConsumerHarness()
    harness.create_topic("water", 6)
    return harness


# -- joining


def test_the_first_member_gets_all_partitions_in_epoch_2(harness: ConsumerHarness) -> None:
    response = harness.heartbeat("one", topics=["water"])

    assert (response.error_code, response.member_id, response.member_epoch) == (ErrorCode.NONE, "one", 2)
    assert response.heartbeat_interval_ms == 5000
    assert response.assignment is not None
    assert harness.read(response.assignment.topic_partitions) == WATER
    assert harness.group.state_name() == "Stable"


def test_a_topic_that_does_not_exist_is_waited_for(harness: ConsumerHarness) -> None:
    first = harness.heartbeat("one", topics=["later"])
    assert first.assignment == Assignment(topic_partitions=[])

    harness.create_topic("later", 2)
    second = harness.heartbeat("one", first.member_epoch)

    assert second.member_epoch == first.member_epoch + 1
    assert second.assignment is not None
    assert harness.read(second.assignment.topic_partitions) == {("later", 0), ("later", 1)}


def test_in_version_0_the_coordinator_chooses_the_member_id(harness: ConsumerHarness) -> None:
    response = harness.heartbeat("", topics=["water"], version=0)

    assert response.error_code is ErrorCode.NONE
    assert response.member_id is not None
    assert len(response.member_id) == 22
    assert response.member_id in harness.group.members


def test_a_full_group_refuses_members() -> None:
    harness = ConsumerHarness({"group.consumer.max.size": "1"})
    harness.heartbeat("one", topics=["water"])

    assert harness.heartbeat("two", topics=["water"]).error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert harness.heartbeat("one", topics=["water"]).error_code is ErrorCode.NONE


# -- reconciliation


def test_a_partition_is_revoked_before_it_is_assigned_to_another_member(harness: ConsumerHarness) -> None:
    one, two = HonestMember(harness, "one"), HonestMember(harness, "two")
    one.heartbeat()

    assert two.heartbeat().member_epoch == 3
    assert two.owned == set()
    assert harness.group.members["two"].state is MemberState.UNRELEASED

    response = harness.heartbeat("one", 2)  # without owned partitions
    assert response.member_epoch == 2
    assert response.assignment is not None
    kept = harness.read(response.assignment.topic_partitions)
    assert len(kept) == 3
    assert two.heartbeat().assignment is None

    released = harness.heartbeat("one", 2, owned=kept)
    assert (released.member_epoch, released.assignment) == (3, None)
    two.heartbeat()
    assert two.owned == WATER - kept
    assert harness.group.state_name() == "Stable"


def test_a_member_that_still_reports_partitions_to_revoke_is_waited_for(harness: ConsumerHarness) -> None:
    harness.heartbeat("one", topics=["water"])
    harness.heartbeat("two", topics=["water"])
    harness.heartbeat("one", 2, owned=WATER)

    assert harness.heartbeat("one", 2, owned=WATER).member_epoch == 2
    assert harness.group.members["one"].state is MemberState.UNREVOKED
    assert harness.group.state_name() == "Reconciling"


def test_a_heartbeat_to_a_stable_group_writes_nothing(harness: ConsumerHarness) -> None:
    members = [HonestMember(harness, name) for name in ("one", "two", "three")]
    settle(harness, *members)
    written = len(harness.log)

    response = harness.heartbeat("one", members[0].epoch)

    assert (response.error_code, response.assignment) == (ErrorCode.NONE, None)
    assert len(harness.log) == written


def test_a_full_request_gets_a_full_response(harness: ConsumerHarness) -> None:
    harness.heartbeat("one", topics=["water"])

    response = harness.heartbeat("one", 2, topics=["water"], owned=WATER, rebalance_timeout_ms=REBALANCE_MS)

    assert response.assignment is not None
    assert harness.read(response.assignment.topic_partitions) == WATER


def test_members_that_join_together_are_assigned_together() -> None:
    harness = ConsumerHarness({"group.consumer.assignment.interval.ms": "1000"})
    harness.create_topic("water", 6)
    members = [HonestMember(harness, f"m{number}") for number in range(6)]
    for member in members:
        member.heartbeat()

    assert harness.group.state_name() == "Assigning"
    assert harness.group.target_epoch.number == 2  # of the first member
    harness.advance(1000)
    settle(harness, *members)

    assert [len(member.owned) for member in members] == [1] * 6
    assert harness.group.target_epoch.number == harness.group.epoch == 7


def test_a_new_subscription_revokes_topics_that_are_not_in_it(harness: ConsumerHarness) -> None:
    harness.create_topic("waste", 2)
    one, two = HonestMember(harness, "one"), HonestMember(harness, "two", topics=["water", "waste"])
    settle(harness, one, two)

    two.subscribe(["waste"])
    assert two.assigned == {("waste", 0), ("waste", 1)}
    settle(harness, one, two)

    assert one.owned == WATER
    assert not harness.group.is_homogeneous


def test_most_members_choose_the_assignor(harness: ConsumerHarness) -> None:
    members = [
        HonestMember(harness, "one", assignor="range"),
        HonestMember(harness, "two", assignor="uniform"),
        HonestMember(harness, "three", assignor="range"),
    ]
    settle(harness, *members)

    assert harness.consumer.describe(GROUP).assignor_name == "range"
    assert members[0].owned == {("water", 0), ("water", 1)}


def test_a_member_that_changes_its_address_is_written(harness: ConsumerHarness) -> None:
    harness.heartbeat("one", topics=["water"])

    harness.heartbeat("one", 2, client=Client("other", "/10.0.0.1"))

    member = harness.group.members["one"]
    assert (member.client_id, member.client_host, member.epoch) == ("other", "/10.0.0.1", 2)


# -- epochs


def test_an_epoch_from_the_future_is_fenced(harness: ConsumerHarness) -> None:
    harness.heartbeat("one", topics=["water"])

    assert harness.heartbeat("one", 3).error_code is ErrorCode.FENCED_MEMBER_EPOCH


def test_the_previous_epoch_is_accepted_if_the_member_owns_only_assigned_tasks(
    harness: ConsumerHarness,
) -> None:
    harness.heartbeat("one", topics=["water"])
    harness.heartbeat("two", topics=["water"])
    kept = {("water", index) for index in range(3)}
    harness.heartbeat("one", 2, owned=WATER)
    assert harness.heartbeat("one", 2, owned=kept).member_epoch == 3

    assert harness.heartbeat("one", 2, owned=kept).member_epoch == 3  # it missed the response
    assert harness.heartbeat("one", 2, owned=WATER).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert harness.heartbeat("one", 2).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert harness.heartbeat("one", 1, owned=kept).error_code is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_may_rejoin_at_any_time(harness: ConsumerHarness) -> None:
    harness.heartbeat("one", topics=["water"])

    response = harness.heartbeat("one", 0, topics=["water"])

    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, 2)
    assert response.assignment is not None
    assert harness.read(response.assignment.topic_partitions) == WATER


# -- leaving


def test_the_partitions_of_a_member_that_leaves_are_reassigned(harness: ConsumerHarness) -> None:
    one, two = HonestMember(harness, "one"), HonestMember(harness, "two")
    settle(harness, one, two)

    response = two.leave()
    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, -1)
    assert harness.group.state_name() == "Assigning"
    settle(harness, one)

    assert one.owned == WATER
    assert list(harness.group.members) == ["one"]


def test_an_empty_group_is_kept_with_its_epoch(harness: ConsumerHarness) -> None:
    harness.heartbeat("one", topics=["water"])
    harness.heartbeat("one", -1)

    assert harness.group.state_name() == "Empty"
    assert harness.group.epoch == 3
    assert harness.heartbeat("one", topics=["water"]).member_epoch == 4


def test_a_member_whose_session_expires_is_removed(harness: ConsumerHarness) -> None:
    one, two = HonestMember(harness, "one"), HonestMember(harness, "two")
    settle(harness, one, two)

    harness.advance(SESSION_MS - 1)
    one.heartbeat()
    assert "two" in harness.group.members
    harness.advance(1)

    assert "two" not in harness.group.members
    settle(harness, one)
    assert one.owned == WATER
    assert harness.heartbeat("two", two.epoch).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_revoke_partitions_in_time_is_removed(harness: ConsumerHarness) -> None:
    one, two = HonestMember(harness, "one"), HonestMember(harness, "two")
    one.heartbeat()
    two.heartbeat()
    for _ in range(REBALANCE_MS // 5000):
        harness.heartbeat("one", 2, owned=WATER)
        two.heartbeat()
        harness.advance(5000)

    assert harness.heartbeat("one", 2, owned=WATER).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    settle(harness, two)
    assert two.owned == WATER


def test_a_group_may_have_its_own_session_timeout(harness: ConsumerHarness) -> None:
    harness.configure_group("consumer.session.timeout.ms", "50000")
    harness.configure_group("consumer.heartbeat.interval.ms", "7000")

    assert harness.heartbeat("one", topics=["water"]).heartbeat_interval_ms == 7000
    harness.advance(SESSION_MS)
    assert "one" in harness.group.members
    harness.advance(50_000 - SESSION_MS)
    assert not harness.group.members


# -- errors


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
def test_a_rejected_join_does_not_create_a_group(
    harness: ConsumerHarness, fields: dict[str, Any], error: ErrorCode
) -> None:
    response = harness.heartbeat(**{"topics": ["water"], **fields})

    assert response.error_code is error
    assert response.error_message
    assert not harness.log
    assert not harness.context.groups


def test_records_that_the_log_refuses_change_nothing(harness: ConsumerHarness) -> None:
    harness.refuse = ErrorCode.NOT_COORDINATOR
    assert harness.heartbeat("one", topics=["water"]).error_code is ErrorCode.NOT_COORDINATOR
    assert not harness.context.groups

    harness.refuse = None
    assert harness.heartbeat("one", topics=["water"]).member_epoch == 2
    harness.refuse = ErrorCode.NOT_COORDINATOR
    harness.grow_topic("water", 8)
    harness.heartbeat("one", 2)
    harness.refuse = None

    assert harness.heartbeat("one", 2).member_epoch == 3  # the topics are looked up again
