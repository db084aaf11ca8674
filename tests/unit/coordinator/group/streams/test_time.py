"""What happens when time passes: sessions, slow rebalances, the first assignment, and the interval between two."""

from __future__ import annotations

from harness.streams_groups import GROUP, REBALANCE_MS, SESSION_MS, StreamsApp, StreamsStage, settle, statuses
from penstock.coordinator.group.streams.configuring import StatusCode
from penstock.coordinator.group.streams.tasks import Task
from penstock.protocol.errors import ErrorCode

DELAYED = {"group.streams.initial.rebalance.delay.ms": "3000"}
SPACED = {"group.streams.assignment.interval.ms": "1000"}


def stage_with(partition_count: int, properties: dict[str, str] | None = None) -> StreamsStage:
    stage = StreamsStage(properties)
    stage.create_topic("in", partition_count)
    return stage


def test_a_silent_member_is_put_out_when_its_session_ends() -> None:
    stage = stage_with(2)
    one, two = StreamsApp(stage, "one"), StreamsApp(stage, "two")
    settle(one, two)

    stage.advance(SESSION_MS - 1)
    two.beat()
    assert set(stage.group.members) == {"one", "two"}
    stage.advance(1)

    assert set(stage.group.members) == {"two"}
    settle(two)
    assert two.active == {Task("0", 0), Task("0", 1)}
    assert one.beat().error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_member_to_be_put_out_leaves_an_empty_group() -> None:
    stage = stage_with(1)
    StreamsApp(stage, "one").beat()

    stage.advance(SESSION_MS)

    assert stage.group.state_name() == "Empty"
    assert len(stage.context.timers) == 0


def test_a_member_that_does_not_give_up_its_tasks_is_put_out() -> None:
    stage = stage_with(2)
    one, two = StreamsApp(stage, "one"), StreamsApp(stage, "two")
    settle(one)
    one.is_lazy = True
    two.beat()
    one.beat()

    for _ in range(REBALANCE_MS // 10_000 - 1):
        stage.advance(10_000)
        one.beat()
        two.beat()
    assert "one" in stage.group.members
    stage.advance(10_000)

    assert "one" not in stage.group.members
    settle(two)
    assert len(two.active) == 2


def test_giving_up_tasks_in_time_stops_the_clock() -> None:
    stage = stage_with(2)
    one, two = StreamsApp(stage, "one"), StreamsApp(stage, "two")
    settle(one)
    settle(one, two)

    for _ in range(20):
        stage.advance(5_000)
        one.beat()
        two.beat()

    assert set(stage.group.members) == {"one", "two"}


def test_the_first_assignment_waits_for_more_members() -> None:
    stage = stage_with(2, DELAYED)
    one, two = StreamsApp(stage, "one"), StreamsApp(stage, "two")

    first = one.beat()
    assert statuses(first) == [StatusCode.ASSIGNMENT_DELAYED]
    assert (first.member_epoch, first.active_tasks) == (1, [])
    stage.advance(1_000)
    two.beat()
    stage.advance(2_000)
    one.beat()
    two.beat()

    assert (len(one.active), len(two.active)) == (1, 1)
    assert one.epoch == two.epoch == 3


def test_an_application_that_comes_back_waits_again() -> None:
    stage = stage_with(1, DELAYED)
    one = StreamsApp(stage, "one")
    one.beat()
    stage.advance(3_000)
    settle(one)
    one.leave()

    back = StreamsApp(stage, "two")

    assert statuses(back.beat()) == [StatusCode.ASSIGNMENT_DELAYED]
    assert back.active == set()
    stage.advance(3_000)
    settle(back)
    assert len(back.active) == 1


def test_topics_that_came_meanwhile_are_looked_at_by_the_next_heartbeat() -> None:
    stage = StreamsStage(DELAYED)
    one = StreamsApp(stage, "one")
    one.beat()
    stage.create_topic("in", 1)

    stage.advance(3_000)
    assert stage.group.targets.get("one") is None
    settle(one)

    assert stage.group.state_name() == "Stable"
    assert len(one.active) == 1


def test_who_has_left_by_then_gets_no_first_assignment() -> None:
    stage = stage_with(1, DELAYED)
    one = StreamsApp(stage, "one")
    one.beat()
    one.leave()
    written = len(stage.log)

    stage.advance(3_000)

    assert len(stage.log) == written
    assert stage.group.target_epoch.number == 1


def test_the_delay_can_be_set_for_one_group() -> None:
    stage = stage_with(1, DELAYED)
    stage.set_for_group("streams.initial.rebalance.delay.ms", "0")

    assert len(stage.heartbeat("one").active_tasks or []) == 1


def test_assignments_keep_their_distance() -> None:
    stage = stage_with(2, SPACED)
    one, two = StreamsApp(stage, "one"), StreamsApp(stage, "two")
    one.beat()

    delayed = two.beat()
    assert statuses(delayed) == [StatusCode.ASSIGNMENT_DELAYED]
    assert delayed.member_epoch == 2
    assert stage.group.state_name() == "Assigning"
    stage.advance(1_000)
    settle(one, two)

    assert (len(one.active), len(two.active)) == (1, 1)


def test_a_restarted_coordinator_expects_heartbeats_and_revocations() -> None:
    stage = stage_with(2)
    one, two = StreamsApp(stage, "one"), StreamsApp(stage, "two")
    settle(one)
    one.is_lazy = True
    two.beat()
    one.beat()

    other = stage.restarted()
    one.stage = two.stage = other
    for _ in range(REBALANCE_MS // 10_000):
        one.beat()
        two.beat()
        other.advance(10_000)

    assert set(other.group.members) == {"two"}
    other.advance(SESSION_MS)
    assert other.group.is_empty


def test_timers_of_groups_that_are_gone_do_nothing() -> None:
    stage = stage_with(1, DELAYED)
    one = StreamsApp(stage, "one")
    one.beat()
    one.leave()
    for record in stage.group.tombstones():
        stage.load([record])
    assert GROUP not in stage.context.groups

    stage.advance(100_000)

    assert len(stage.context.timers) == 0
