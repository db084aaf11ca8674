"""Session and rebalance timeouts, the delay of the first assignment, and the assignment interval."""

from __future__ import annotations

from harness.streams_groups import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    StreamsApp,
    StreamsHarness,
    settle,
    statuses,
)
from penstock.coordinator.group.streams.configuring import StatusCode
from penstock.coordinator.group.streams.tasks import Task
from penstock.protocol.errors import ErrorCode

DELAYED = {"group.streams.initial.rebalance.delay.ms": "3000"}
SPACED = {"group.streams.assignment.interval.ms": "1000"}


def harness_with(partition_count: int, properties: dict[str, str] | None = None) -> StreamsHarness:
    harness = StreamsHarness(properties)
    harness.create_topic("in", partition_count)
    return harness


def test_a_silent_member_is_removed_when_its_session_expires() -> None:
    harness = harness_with(2)
    one, two = StreamsApp(harness, "one"), StreamsApp(harness, "two")
    settle(one, two)

    harness.advance(SESSION_MS - 1)
    two.beat()
    assert set(harness.group.members) == {"one", "two"}
    harness.advance(1)

    assert set(harness.group.members) == {"two"}
    settle(two)
    assert two.active == {Task("0", 0), Task("0", 1)}
    assert one.beat().error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_removing_the_last_member_leaves_an_empty_group() -> None:
    harness = harness_with(1)
    StreamsApp(harness, "one").beat()

    harness.advance(SESSION_MS)

    assert harness.group.state_name() == "Empty"
    assert len(harness.context.timers) == 0


def test_a_member_that_does_not_revoke_its_tasks_is_removed() -> None:
    harness = harness_with(2)
    one, two = StreamsApp(harness, "one"), StreamsApp(harness, "two")
    settle(one)
    one.is_lazy = True
    two.beat()
    one.beat()

    for _ in range(REBALANCE_MS // 10_000 - 1):
        harness.advance(10_000)
        one.beat()
        two.beat()
    assert "one" in harness.group.members
    harness.advance(10_000)

    assert "one" not in harness.group.members
    settle(two)
    assert len(two.active) == 2


def test_revoking_tasks_in_time_cancels_the_rebalance_timeout() -> None:
    harness = harness_with(2)
    one, two = StreamsApp(harness, "one"), StreamsApp(harness, "two")
    settle(one)
    settle(one, two)

    for _ in range(20):
        harness.advance(5_000)
        one.beat()
        two.beat()

    assert set(harness.group.members) == {"one", "two"}


def test_the_first_assignment_waits_for_more_members() -> None:
    harness = harness_with(2, DELAYED)
    one, two = StreamsApp(harness, "one"), StreamsApp(harness, "two")

    first = one.beat()
    assert statuses(first) == [StatusCode.ASSIGNMENT_DELAYED]
    assert (first.member_epoch, first.active_tasks) == (1, [])
    harness.advance(1_000)
    two.beat()
    harness.advance(2_000)
    one.beat()
    two.beat()

    assert (len(one.active), len(two.active)) == (1, 1)
    assert one.epoch == two.epoch == 3


def test_an_application_that_restarts_waits_again() -> None:
    harness = harness_with(1, DELAYED)
    one = StreamsApp(harness, "one")
    one.beat()
    harness.advance(3_000)
    settle(one)
    one.leave()

    back = StreamsApp(harness, "two")

    assert statuses(back.beat()) == [StatusCode.ASSIGNMENT_DELAYED]
    assert back.active == set()
    harness.advance(3_000)
    settle(back)
    assert len(back.active) == 1


def test_the_next_heartbeat_looks_up_topics_created_during_the_delay() -> None:
    harness = StreamsHarness(DELAYED)
    one = StreamsApp(harness, "one")
    one.beat()
    harness.create_topic("in", 1)

    harness.advance(3_000)
    assert harness.group.targets.get("one") is None
    settle(one)

    assert harness.group.state_name() == "Stable"
    assert len(one.active) == 1


def test_a_member_that_left_during_the_delay_gets_no_first_assignment() -> None:
    harness = harness_with(1, DELAYED)
    one = StreamsApp(harness, "one")
    one.beat()
    one.leave()
    written = len(harness.log)

    harness.advance(3_000)

    assert len(harness.log) == written
    assert harness.group.target_epoch.number == 1


def test_the_delay_can_be_set_for_one_group() -> None:
    harness = harness_with(1, DELAYED)
    harness.set_for_group("streams.initial.rebalance.delay.ms", "0")

    assert len(harness.heartbeat("one").active_tasks or []) == 1


def test_assignments_are_delayed_by_the_assignment_interval() -> None:
    harness = harness_with(2, SPACED)
    one, two = StreamsApp(harness, "one"), StreamsApp(harness, "two")
    one.beat()

    delayed = two.beat()
    assert statuses(delayed) == [StatusCode.ASSIGNMENT_DELAYED]
    assert delayed.member_epoch == 2
    assert harness.group.state_name() == "Assigning"
    harness.advance(1_000)
    settle(one, two)

    assert (len(one.active), len(two.active)) == (1, 1)


def test_a_clock_that_was_set_back_does_not_delay_the_assignment() -> None:
    harness = harness_with(2, SPACED)
    one, two = StreamsApp(harness, "one"), StreamsApp(harness, "two")
    one.beat()

    harness.clock_ms -= 60_000
    settle(one, two)

    assert (len(one.active), len(two.active)) == (1, 1)


def test_a_restarted_coordinator_expects_heartbeats_and_revocations() -> None:
    harness = harness_with(2)
    one, two = StreamsApp(harness, "one"), StreamsApp(harness, "two")
    settle(one)
    one.is_lazy = True
    two.beat()
    one.beat()

    other = harness.restarted()
    one.harness = two.harness = other
    for _ in range(REBALANCE_MS // 10_000):
        one.beat()
        two.beat()
        other.advance(10_000)

    assert set(other.group.members) == {"two"}
    other.advance(SESSION_MS)
    assert other.group.is_empty


def test_timers_of_deleted_groups_do_nothing() -> None:
    harness = harness_with(1, DELAYED)
    one = StreamsApp(harness, "one")
    one.beat()
    one.leave()
    for record in harness.group.tombstones():
        harness.load([record])
    assert GROUP not in harness.context.groups

    harness.advance(100_000)

    assert len(harness.context.timers) == 0
