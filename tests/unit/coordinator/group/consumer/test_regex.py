"""Subscriptions by regular expression: resolved in the background, and again after topics were created."""

from __future__ import annotations

import pytest

from harness.consumer_groups import GROUP, ConsumerHarness, HonestMember, settle
from penstock.coordinator.group.consumer import regex
from penstock.coordinator.group.consumer.regex import RegexScan, check_regex
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode

PAUSE_MS = 10_001
REFRESH_MS = 10 * 60 * 1000


@pytest.fixture
def harness() -> ConsumerHarness:
    harness = ConsumerHarness()
    harness.create_topic("water", 2)
    harness.create_topic("waste", 2)
    harness.create_topic("wood", 2)
    return harness


def test_topics_are_assigned_when_the_regex_is_resolved(harness: ConsumerHarness) -> None:
    first = harness.heartbeat("one", regex="wa.*")
    assert (first.error_code, first.member_epoch) == (ErrorCode.NONE, 1)
    assert first.assignment is not None
    assert first.assignment.topic_partitions == []

    harness.advance(0)
    second = harness.heartbeat("one", 1)

    assert second.member_epoch == 2
    assert second.assignment is not None
    assert harness.read(second.assignment.topic_partitions) == {
        (name, index) for name in ("water", "waste") for index in range(2)
    }
    assert harness.group.is_subscribed_to("waste")
    assert not harness.group.is_subscribed_to("wood")


def test_a_pattern_has_to_match_the_whole_name(harness: ConsumerHarness) -> None:
    member = HonestMember(harness, "one", topics=[], regex="wat|wood")
    settle(harness, member)

    assert {name for name, _ in member.owned} == {"wood"}


def test_names_and_patterns_add_up(harness: ConsumerHarness) -> None:
    member = HonestMember(harness, "one", topics=["wood"], regex="wat.*")
    settle(harness, member)

    assert {name for name, _ in member.owned} == {"wood", "water"}


def test_members_with_one_pattern_share_its_topics(harness: ConsumerHarness) -> None:
    members = [HonestMember(harness, name, topics=[], regex="wa.*") for name in ("one", "two")]
    settle(harness, *members)

    assert sorted(len(member.owned) for member in members) == [2, 2]
    assert harness.group.is_homogeneous
    assert list(harness.group.resolved) == ["wa.*"]


def test_new_topics_are_matched_after_the_refresh_pause(harness: ConsumerHarness) -> None:
    member = HonestMember(harness, "one", topics=[], regex="wa.*")
    settle(harness, member)
    harness.create_topic("wagon", 1)

    settle(harness, member)
    assert ("wagon", 0) not in member.owned
    harness.advance(PAUSE_MS)
    settle(harness, member)

    assert ("wagon", 0) in member.owned


def test_the_partitions_of_a_deleted_topic_are_revoked_at_once(harness: ConsumerHarness) -> None:
    member = HonestMember(harness, "one", topics=[], regex="wa.*")
    settle(harness, member)
    harness.delete_topic("waste")
    member.forget_topic("waste")

    settle(harness, member)

    assert {name for name, _ in member.owned} == {"water"}


def test_patterns_are_resolved_again_at_an_interval(harness: ConsumerHarness) -> None:
    member = HonestMember(harness, "one", topics=[], regex="wa.*")
    settle(harness, member)
    looked_up_ms = harness.group.resolved["wa.*"].timestamp_ms

    for _ in range(REFRESH_MS // 5_000 + 1):
        harness.advance(5_000)
        member.heartbeat()
        harness.advance(0)

    assert harness.group.resolved["wa.*"].timestamp_ms > looked_up_ms + REFRESH_MS


def test_a_pattern_that_no_member_uses_is_removed(harness: ConsumerHarness) -> None:
    one = HonestMember(harness, "one", topics=[], regex="wa.*")
    two = HonestMember(harness, "two", topics=[], regex="wo.*")
    settle(harness, one, two)
    harness.advance(PAUSE_MS)
    settle(harness, one, two)

    two.leave()
    assert list(harness.group.resolved) == ["wa.*"]
    one.take(harness.heartbeat("one", one.epoch, topics=["wood"], regex="", owned=one.owned))
    assert not harness.group.resolved
    settle(harness, one)

    assert one.owned == {("wood", 0), ("wood", 1)}


def test_a_new_pattern_revokes_topics_that_it_does_not_match(harness: ConsumerHarness) -> None:
    one = HonestMember(harness, "one", topics=[], regex="wa.*")
    settle(harness, one)
    harness.advance(PAUSE_MS)

    one.take(harness.heartbeat("one", one.epoch, regex="wo.*", owned=one.owned))
    settle(harness, one)

    assert one.owned == {("wood", 0), ("wood", 1)}


def test_resolved_regexes_survive_a_new_coordinator(harness: ConsumerHarness) -> None:
    member = HonestMember(harness, "one", topics=[], regex="wa.*")
    settle(harness, member)

    other = harness.reloaded()

    assert other.group.resolved["wa.*"] == harness.group.resolved["wa.*"]
    assert other.group.is_subscribed_to("water")


def test_resolving_a_regex_of_a_deleted_group_writes_nothing(harness: ConsumerHarness) -> None:
    harness.heartbeat("one", regex="wa.*")
    harness.heartbeat("one", -1)
    written = len(harness.log)

    harness.advance(0)

    assert len(harness.log) == written
    assert GROUP in harness.context.groups


def test_a_regex_is_resolved_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex, "MATCHES_AT_ONCE", 10)
    names = [f"topic-{number}" for number in range(25)]
    scan = RegexScan(["topic-1.*", ".*3"], names, version=7, timestamp_ms=9)

    steps = 1
    while not scan.step():
        steps += 1

    assert steps == 5  # of ten matches each: five names and two patterns
    assert scan.result()["topic-1.*"].topics == {"topic-1", *(f"topic-{number}" for number in range(10, 20))}
    assert scan.result()[".*3"].topics == {"topic-3", "topic-13", "topic-23"}
    assert (scan.result()[".*3"].version, scan.result()[".*3"].timestamp_ms) == (7, 9)


@pytest.mark.parametrize("pattern", ["[", "(", "a{2,1}", r"(a)\1", "(?=a)", "a{1001}", r"(\pL{100}){10}"])
def test_invalid_and_too_large_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(Refused) as refused:
        check_regex(pattern)

    assert refused.value.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert pattern in refused.value.message


def test_a_pattern_with_exponential_backtracking_elsewhere_takes_linear_time() -> None:
    names = ["a" * 249]
    scan = RegexScan(["(a*)*b", "(a|aa)+c"], names, version=0, timestamp_ms=0)

    assert scan.step()
    assert all(not resolved.topics for resolved in scan.result().values())


def test_an_invalid_pattern_in_the_log_matches_nothing() -> None:
    scan = RegexScan(["(?=a)"], ["a"], version=0, timestamp_ms=0)

    assert scan.step()
    assert scan.result()["(?=a)"].topics == frozenset()
