"""Static members (KIP-345) of consumer groups: they rejoin and keep their assignment."""

from __future__ import annotations

import pytest

from harness.consumer_groups import SESSION_MS, ConsumerHarness, HonestMember, settle
from penstock.protocol.errors import ErrorCode

WATER = {("water", index) for index in range(4)}


@pytest.fixture
def harness() -> ConsumerHarness:
    harness = ConsumerHarness()
    harness.create_topic("water", 4)
    return harness


def test_a_static_member_that_leaves_temporarily_keeps_its_assignment(harness: ConsumerHarness) -> None:
    one = HonestMember(harness, "one", instance_id="shelf-1")
    two = HonestMember(harness, "two")
    settle(harness, one, two)
    had, epoch = one.owned, harness.group.epoch

    left = harness.heartbeat("one", -2, instance_id="shelf-1")
    assert (left.error_code, left.member_epoch) == (ErrorCode.NONE, -2)
    assert harness.group.members["one"].epoch == -2
    again = HonestMember(harness, "one again", instance_id="shelf-1")
    again.heartbeat()

    assert again.owned == had
    assert (again.epoch, harness.group.epoch) == (epoch, epoch)
    assert set(harness.group.members) == {"one again", "two"}
    assert len(two.owned) == 2


def test_the_partitions_of_a_static_member_that_leaves_are_reassigned(harness: ConsumerHarness) -> None:
    one = HonestMember(harness, "one", instance_id="shelf-1")
    two = HonestMember(harness, "two")
    settle(harness, one, two)

    one.leave()
    settle(harness, two)

    assert two.owned == WATER


def test_a_static_member_that_does_not_return_in_time_is_removed(harness: ConsumerHarness) -> None:
    harness.heartbeat("one", topics=["water"], instance_id="shelf-1")
    harness.heartbeat("one", -2, instance_id="shelf-1")

    harness.advance(SESSION_MS)

    assert not harness.group.members
    assert harness.heartbeat("two", topics=["water"], instance_id="shelf-1").error_code is ErrorCode.NONE


def test_partitions_pending_revocation_are_free_when_a_member_leaves_temporarily(
    harness: ConsumerHarness,
) -> None:
    one = HonestMember(harness, "one", instance_id="shelf-1")
    two = HonestMember(harness, "two")
    one.heartbeat()
    two.heartbeat()
    harness.heartbeat("one", one.epoch, instance_id="shelf-1")  # it has to revoke two of four partitions

    harness.heartbeat("one", -2, instance_id="shelf-1")
    two.heartbeat()

    assert len(two.owned) == 2


def test_a_static_member_that_has_not_left_is_not_replaced(harness: ConsumerHarness) -> None:
    harness.heartbeat("one", topics=["water"], instance_id="shelf-1")

    response = harness.heartbeat("two", topics=["water"], instance_id="shelf-1")

    assert response.error_code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert list(harness.group.members) == ["one"]


@pytest.mark.parametrize("epoch", [2, -1, -2])
def test_the_previous_member_with_the_instance_id_is_fenced(harness: ConsumerHarness, epoch: int) -> None:
    harness.heartbeat("one", topics=["water"], instance_id="shelf-1")
    harness.heartbeat("one", -2, instance_id="shelf-1")
    harness.heartbeat("two", topics=["water"], instance_id="shelf-1")

    response = harness.heartbeat("one", epoch, instance_id="shelf-1")

    assert response.error_code is ErrorCode.FENCED_INSTANCE_ID
    assert list(harness.group.members) == ["two"]


@pytest.mark.parametrize("epoch", [2, -1, -2])
def test_an_unknown_instance_id_is_refused(harness: ConsumerHarness, epoch: int) -> None:
    harness.heartbeat("one", topics=["water"])

    response = harness.heartbeat("one", epoch, instance_id="shelf-9")

    assert response.error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_after_leaving_temporarily_is_fenced(harness: ConsumerHarness) -> None:
    harness.heartbeat("one", topics=["water"], instance_id="shelf-1")
    harness.heartbeat("one", -2, instance_id="shelf-1")

    response = harness.heartbeat("one", 2, instance_id="shelf-1")

    assert response.error_code is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_static_member_may_rejoin_with_another_subscription(harness: ConsumerHarness) -> None:
    harness.create_topic("waste", 2)
    one = HonestMember(harness, "one", instance_id="shelf-1")
    two = HonestMember(harness, "two")
    settle(harness, one, two)
    harness.heartbeat("one", -2, instance_id="shelf-1")

    again = HonestMember(harness, "one again", instance_id="shelf-1", topics=["waste"])
    settle(harness, again, two)

    assert again.owned == {("waste", 0), ("waste", 1)}
    assert two.owned == WATER
