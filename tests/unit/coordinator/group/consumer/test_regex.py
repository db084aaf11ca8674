"""Subscriptions by regular expression: looked up beside the requests, and again when there are new topics."""

from __future__ import annotations

import pytest

from harness.consumer_groups import GROUP, ConsumerStage, HonestMember, settle
from penstock.coordinator.group.consumer import regex
from penstock.coordinator.group.consumer.regex import RegexScan, check_regex
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode

PAUSE_MS = 10_001
REFRESH_MS = 10 * 60 * 1000


@pytest.fixture
def stage() -> ConsumerStage:
    stage = ConsumerStage()
    stage.create_topic("water", 2)
    stage.create_topic("waste", 2)
    stage.create_topic("wood", 2)
    return stage


def test_topics_are_assigned_when_they_have_been_looked_up(stage: ConsumerStage) -> None:
    first = stage.heartbeat("one", regex="wa.*")
    assert (first.error_code, first.member_epoch) == (ErrorCode.NONE, 1)
    assert first.assignment is not None
    assert first.assignment.topic_partitions == []

    stage.advance(0)
    second = stage.heartbeat("one", 1)

    assert second.member_epoch == 2
    assert second.assignment is not None
    assert stage.read(second.assignment.topic_partitions) == {
        (name, index) for name in ("water", "waste") for index in range(2)
    }
    assert stage.group.is_subscribed_to("waste")
    assert not stage.group.is_subscribed_to("wood")


def test_a_pattern_has_to_match_the_whole_name(stage: ConsumerStage) -> None:
    member = HonestMember(stage, "one", topics=[], regex="wat|wood")
    settle(stage, member)

    assert {name for name, _ in member.owned} == {"wood"}


def test_names_and_patterns_add_up(stage: ConsumerStage) -> None:
    member = HonestMember(stage, "one", topics=["wood"], regex="wat.*")
    settle(stage, member)

    assert {name for name, _ in member.owned} == {"wood", "water"}


def test_members_with_one_pattern_share_its_topics(stage: ConsumerStage) -> None:
    members = [HonestMember(stage, name, topics=[], regex="wa.*") for name in ("one", "two")]
    settle(stage, *members)

    assert sorted(len(member.owned) for member in members) == [2, 2]
    assert stage.group.is_homogeneous
    assert list(stage.group.resolved) == ["wa.*"]


def test_new_topics_are_noticed_after_a_pause(stage: ConsumerStage) -> None:
    member = HonestMember(stage, "one", topics=[], regex="wa.*")
    settle(stage, member)
    stage.create_topic("wagon", 1)

    settle(stage, member)
    assert ("wagon", 0) not in member.owned
    stage.advance(PAUSE_MS)
    settle(stage, member)

    assert ("wagon", 0) in member.owned


def test_a_topic_that_is_deleted_goes_at_once(stage: ConsumerStage) -> None:
    member = HonestMember(stage, "one", topics=[], regex="wa.*")
    settle(stage, member)
    stage.delete_topic("waste")
    member.forget_topic("waste")

    settle(stage, member)

    assert {name for name, _ in member.owned} == {"water"}


def test_patterns_are_looked_up_again_every_now_and_then(stage: ConsumerStage) -> None:
    member = HonestMember(stage, "one", topics=[], regex="wa.*")
    settle(stage, member)
    looked_up_ms = stage.group.resolved["wa.*"].timestamp_ms

    for _ in range(REFRESH_MS // 5_000 + 1):
        stage.advance(5_000)
        member.heartbeat()
        stage.advance(0)

    assert stage.group.resolved["wa.*"].timestamp_ms > looked_up_ms + REFRESH_MS


def test_a_pattern_that_nobody_uses_any_more_is_forgotten(stage: ConsumerStage) -> None:
    one = HonestMember(stage, "one", topics=[], regex="wa.*")
    two = HonestMember(stage, "two", topics=[], regex="wo.*")
    settle(stage, one, two)
    stage.advance(PAUSE_MS)
    settle(stage, one, two)

    two.leave()
    assert list(stage.group.resolved) == ["wa.*"]
    one.take(stage.heartbeat("one", one.epoch, topics=["wood"], regex="", owned=one.owned))
    assert not stage.group.resolved
    settle(stage, one)

    assert one.owned == {("wood", 0), ("wood", 1)}


def test_another_pattern_takes_away_what_it_does_not_match(stage: ConsumerStage) -> None:
    one = HonestMember(stage, "one", topics=[], regex="wa.*")
    settle(stage, one)
    stage.advance(PAUSE_MS)

    one.take(stage.heartbeat("one", one.epoch, regex="wo.*", owned=one.owned))
    settle(stage, one)

    assert one.owned == {("wood", 0), ("wood", 1)}


def test_what_was_looked_up_survives_a_new_coordinator(stage: ConsumerStage) -> None:
    member = HonestMember(stage, "one", topics=[], regex="wa.*")
    settle(stage, member)

    other = stage.reloaded()

    assert other.group.resolved["wa.*"] == stage.group.resolved["wa.*"]
    assert other.group.is_subscribed_to("water")


def test_a_lookup_of_a_group_that_is_gone_writes_nothing(stage: ConsumerStage) -> None:
    stage.heartbeat("one", regex="wa.*")
    stage.heartbeat("one", -1)
    written = len(stage.log)

    stage.advance(0)

    assert len(stage.log) == written
    assert GROUP in stage.context.groups


def test_a_lookup_goes_over_the_topics_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex, "MATCHES_AT_ONCE", 10)
    names = [f"topic-{number}" for number in range(25)]
    scan = RegexScan(["topic-1.*", ".*3"], names, version=7, timestamp_ms=9)

    steps = 1
    while not scan.step():
        steps += 1

    assert steps == 5  # ten matches each: five names against two patterns
    assert scan.result()["topic-1.*"].topics == {"topic-1", *(f"topic-{number}" for number in range(10, 20))}
    assert scan.result()[".*3"].topics == {"topic-3", "topic-13", "topic-23"}
    assert (scan.result()[".*3"].version, scan.result()[".*3"].timestamp_ms) == (7, 9)


@pytest.mark.parametrize("pattern", ["[", "(", "a{2,1}", r"(a)\1", "(?=a)", "a{1001}", r"(\pL{100}){10}"])
def test_what_is_no_pattern_or_would_cost_too_much_is_refused(pattern: str) -> None:
    with pytest.raises(Refused) as refused:
        check_regex(pattern)

    assert refused.value.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert pattern in refused.value.message


def test_a_pattern_that_would_drive_others_mad_takes_no_time() -> None:
    names = ["a" * 249]
    scan = RegexScan(["(a*)*b", "(a|aa)+c"], names, version=0, timestamp_ms=0)

    assert scan.step()
    assert all(not resolved.topics for resolved in scan.result().values())


def test_a_pattern_in_the_log_that_is_none_stands_for_nothing() -> None:
    scan = RegexScan(["(?=a)"], ["a"], version=0, timestamp_ms=0)

    assert scan.step()
    assert scan.result()["(?=a)"].topics == frozenset()
