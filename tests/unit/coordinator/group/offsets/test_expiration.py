"""Expiration of offsets and groups."""

from __future__ import annotations

import pytest

from harness.offsets import (
    GROUP,
    OffsetHarness,
    ScriptedGroup,
    commit,
    commit_request,
    stored,
)
from penstock.coordinator.group.offsets import expiration
from penstock.coordinator.group.records.offsets import OffsetCommitKey, OffsetCommitValue
from penstock.coordinator.result import CoordinatorRecord

MINUTE_MS = 60_000
CHECK_MS = 10 * MINUTE_MS
RETENTION_MS = 60 * MINUTE_MS


@pytest.fixture
def harness() -> OffsetHarness:
    """An active shard with a retention of one hour."""
    harness = OffsetHarness({"offsets.retention.minutes": "60"})
    harness.offsets.loaded()
    harness.classic.loaded()
    return harness


def test_an_offset_of_a_simple_group_expires_after_its_retention_time(harness: OffsetHarness) -> None:
    commit(harness, {"orders": {0: 7}})
    harness.advance(RETENTION_MS // 2)
    commit(harness, {"orders": {1: 8}})

    harness.advance(RETENTION_MS // 2 - CHECK_MS)
    assert stored(harness) == {("orders", 0): 7, ("orders", 1): 8}
    harness.advance(CHECK_MS)
    assert stored(harness) == {("orders", 1): 8}
    assert GROUP in harness.context.groups


def test_a_simple_group_is_removed_with_its_last_offset(harness: OffsetHarness) -> None:
    commit(harness, {"orders": {0: 7}})

    harness.advance(RETENTION_MS)

    assert GROUP not in harness.context.groups
    assert harness.log[-1].value is None
    assert GROUP not in harness.reloaded().context.groups


def test_a_commit_restarts_the_retention_of_an_offset(harness: OffsetHarness) -> None:
    commit(harness, {"orders": {0: 7}})
    harness.advance(RETENTION_MS - 1)
    commit(harness, {"orders": {0: 7}})

    harness.advance(RETENTION_MS - CHECK_MS)

    assert stored(harness) == {("orders", 0): 7}


def test_a_retention_time_of_the_consumer_counts_instead(harness: OffsetHarness) -> None:
    request = commit_request({"orders": {0: 7}})
    request.retention_time_ms = 1
    harness.play(harness.offsets.commit(request, version=4))
    request = commit_request({"orders": {1: 8}})
    request.retention_time_ms = 2 * RETENTION_MS
    harness.play(harness.offsets.commit(request, version=4))

    harness.advance(CHECK_MS)
    assert stored(harness) == {("orders", 1): 8}
    harness.advance(2 * RETENTION_MS - CHECK_MS - 1)
    assert stored(harness) == {("orders", 1): 8}
    harness.advance(CHECK_MS)
    assert stored(harness) == {}


def test_the_group_decides_when_the_retention_starts(harness: OffsetHarness) -> None:
    group = ScriptedGroup(expires_from_ms=None)
    commit(harness, {"orders": {0: 7}})
    harness.context.groups[GROUP] = group

    harness.advance(10 * RETENTION_MS)
    assert stored(harness) == {("orders", 0): 7}, "never, it says"
    group.expires_from_ms = harness.context.wall_ms()
    harness.advance(RETENTION_MS - CHECK_MS)
    assert stored(harness) == {("orders", 0): 7}
    harness.advance(CHECK_MS)
    assert stored(harness) == {}
    assert GROUP in harness.context.groups, "it has members"


def test_even_a_consumers_own_retention_time_waits_for_the_group(harness: OffsetHarness) -> None:
    request = commit_request({"orders": {0: 7}})
    request.retention_time_ms = 1
    harness.play(harness.offsets.commit(request, version=4))
    harness.context.groups[GROUP] = ScriptedGroup(expires_from_ms=None)

    harness.advance(RETENTION_MS)

    assert stored(harness) == {("orders", 0): 7}


def test_offsets_of_subscribed_topics_do_not_expire(harness: OffsetHarness) -> None:
    commit(harness, {"orders": {0: 7}, "payments": {0: 1}})
    harness.context.groups[GROUP] = ScriptedGroup(subscribed=["orders"], expires_from_ms=0)

    harness.advance(CHECK_MS)

    assert stored(harness) == {("orders", 0): 7}


def test_a_group_without_offsets_and_members_is_removed(harness: OffsetHarness) -> None:
    group = ScriptedGroup(is_kept=False)

    assert harness.offsets.expiry.expire(group) == group.tombstones()
    group.is_kept = True
    assert harness.offsets.expiry.expire(group) == []


def test_many_groups_are_checked_in_steps(harness: OffsetHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiration, "GROUPS_AT_ONCE", 3)
    for number in range(10):
        commit(harness, {"orders": {0: number}}, group=f"group-{number}")

    harness.advance(RETENTION_MS)

    assert not harness.context.groups
    assert expiration.TIMER in harness.context.timers, "the next round is scheduled"


def test_many_offsets_are_removed_in_steps(harness: OffsetHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiration, "RECORDS_AT_ONCE", 1)
    for number in range(3):
        commit(harness, {"orders": {0: 1, 1: 1}}, group=f"group-{number}")

    writes: list[int] = []
    play = harness.play

    def counted(outcome):  # type: ignore[no-untyped-def]
        writes.append(len(outcome.records))
        return play(outcome)

    monkeypatch.setattr(harness, "play", counted)
    harness.advance(RETENTION_MS)

    assert not harness.context.groups
    assert [count for count in writes if count] == [3, 3, 3], "a group at a time"


def test_a_new_coordinator_counts_the_retention_from_the_commit_too(harness: OffsetHarness) -> None:
    key = OffsetCommitKey(group=GROUP, topic="orders", partition=0)
    committed_ms = harness.context.wall_ms() - RETENTION_MS + CHECK_MS
    harness.load(
        [CoordinatorRecord(key, OffsetCommitValue(offset=7, metadata="", commit_timestamp=committed_ms))]
    )

    harness.advance(CHECK_MS - 1)
    assert stored(harness) == {("orders", 0): 7}
    harness.advance(1)
    assert stored(harness) == {}


def test_offsets_of_topics_that_were_deleted_before_loading_are_removed() -> None:
    before = OffsetHarness()
    commit(before, {"orders": {0: 7}, "payments": {0: 1}})
    before.cluster.delete_topic("payments")
    unknown = OffsetCommitValue(offset=3, metadata="", commit_timestamp=0)
    before.load([CoordinatorRecord(OffsetCommitKey(group=GROUP, topic="old", partition=0), unknown)])

    after = before.reloaded()
    after.offsets.loaded()
    after.advance(0)

    assert stored(after) == {("orders", 0): 7, ("old", 0): 3}, "an offset without a topic id stays"


def test_nothing_expires_right_after_loading(harness: OffsetHarness) -> None:
    commit(harness, {"orders": {0: 7}})
    harness.clock_ms += 10 * RETENTION_MS

    after = harness.reloaded()
    after.offsets.loaded()
    after.classic.loaded()
    after.advance(CHECK_MS - 1)
    assert stored(after) == {("orders", 0): 7}
    after.advance(1)
    assert stored(after) == {}
