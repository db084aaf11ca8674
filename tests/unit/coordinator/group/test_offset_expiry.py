"""When offsets go by themselves, and groups with them."""

from __future__ import annotations

import pytest

from harness.offsets import (
    GROUP,
    ObedientGroup,
    OffsetStage,
    commit,
    commit_request,
    stored,
)
from penstock.coordinator.group import offset_expiry
from penstock.coordinator.group.records.offsets import OffsetCommitKey, OffsetCommitValue
from penstock.coordinator.outcome import CoordinatorRecord

MINUTE_MS = 60_000
CHECK_MS = 10 * MINUTE_MS
RETENTION_MS = 60 * MINUTE_MS


@pytest.fixture
def stage() -> OffsetStage:
    """A shard that serves, with an hour of retention."""
    stage = OffsetStage({"offsets.retention.minutes": "60"})
    stage.offsets.loaded()
    stage.classic.loaded()
    return stage


def test_an_offset_of_a_simple_group_lives_for_its_retention_time(stage: OffsetStage) -> None:
    commit(stage, {"orders": {0: 7}})
    stage.advance(RETENTION_MS // 2)
    commit(stage, {"orders": {1: 8}})

    stage.advance(RETENTION_MS // 2 - CHECK_MS)
    assert stored(stage) == {("orders", 0): 7, ("orders", 1): 8}
    stage.advance(CHECK_MS)
    assert stored(stage) == {("orders", 1): 8}
    assert GROUP in stage.context.groups


def test_a_simple_group_goes_with_its_last_offset(stage: OffsetStage) -> None:
    commit(stage, {"orders": {0: 7}})

    stage.advance(RETENTION_MS)

    assert GROUP not in stage.context.groups
    assert stage.log[-1].value is None
    assert GROUP not in stage.reloaded().context.groups


def test_a_commit_prolongs_the_life_of_an_offset(stage: OffsetStage) -> None:
    commit(stage, {"orders": {0: 7}})
    stage.advance(RETENTION_MS - 1)
    commit(stage, {"orders": {0: 7}})

    stage.advance(RETENTION_MS - CHECK_MS)

    assert stored(stage) == {("orders", 0): 7}


def test_a_retention_time_of_the_consumer_counts_instead(stage: OffsetStage) -> None:
    request = commit_request({"orders": {0: 7}})
    request.retention_time_ms = 1
    stage.play(stage.offsets.commit(request, version=4))
    request = commit_request({"orders": {1: 8}})
    request.retention_time_ms = 2 * RETENTION_MS
    stage.play(stage.offsets.commit(request, version=4))

    stage.advance(CHECK_MS)
    assert stored(stage) == {("orders", 1): 8}
    stage.advance(2 * RETENTION_MS - CHECK_MS - 1)
    assert stored(stage) == {("orders", 1): 8}
    stage.advance(CHECK_MS)
    assert stored(stage) == {}


def test_what_the_retention_counts_from_is_the_groups_to_say(stage: OffsetStage) -> None:
    group = ObedientGroup(expires_from_ms=None)
    commit(stage, {"orders": {0: 7}})
    stage.context.groups[GROUP] = group

    stage.advance(10 * RETENTION_MS)
    assert stored(stage) == {("orders", 0): 7}, "never, it says"
    group.expires_from_ms = stage.context.wall_ms()
    stage.advance(RETENTION_MS - CHECK_MS)
    assert stored(stage) == {("orders", 0): 7}
    stage.advance(CHECK_MS)
    assert stored(stage) == {}
    assert GROUP in stage.context.groups, "it has members"


def test_even_a_consumers_own_retention_time_waits_for_the_group(stage: OffsetStage) -> None:
    request = commit_request({"orders": {0: 7}})
    request.retention_time_ms = 1
    stage.play(stage.offsets.commit(request, version=4))
    stage.context.groups[GROUP] = ObedientGroup(expires_from_ms=None)

    stage.advance(RETENTION_MS)

    assert stored(stage) == {("orders", 0): 7}


def test_offsets_of_topics_that_are_read_stay(stage: OffsetStage) -> None:
    commit(stage, {"orders": {0: 7}, "payments": {0: 1}})
    stage.context.groups[GROUP] = ObedientGroup(subscribed=["orders"], expires_from_ms=0)

    stage.advance(CHECK_MS)

    assert stored(stage) == {("orders", 0): 7}


def test_a_group_without_offsets_and_members_is_removed(stage: OffsetStage) -> None:
    group = ObedientGroup(is_kept=False)

    assert stage.offsets.expiry.expire(group) == group.tombstones()
    group.is_kept = True
    assert stage.offsets.expiry.expire(group) == []


def test_many_groups_are_seen_in_several_turns(stage: OffsetStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_expiry, "GROUPS_AT_ONCE", 3)
    for number in range(10):
        commit(stage, {"orders": {0: number}}, group=f"group-{number}")

    stage.advance(RETENTION_MS)

    assert not stage.context.groups
    assert offset_expiry.TIMER in stage.context.timers, "and there is a next time"


def test_many_offsets_are_removed_in_several_turns(
    stage: OffsetStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_expiry, "RECORDS_AT_ONCE", 1)
    for number in range(3):
        commit(stage, {"orders": {0: 1, 1: 1}}, group=f"group-{number}")

    writes: list[int] = []
    play = stage.play

    def counted(outcome):  # type: ignore[no-untyped-def]
        writes.append(len(outcome.records))
        return play(outcome)

    monkeypatch.setattr(stage, "play", counted)
    stage.advance(RETENTION_MS)

    assert not stage.context.groups
    assert [count for count in writes if count] == [3, 3, 3], "a group at a time"


def test_a_new_owner_counts_from_the_commit_too(stage: OffsetStage) -> None:
    key = OffsetCommitKey(group=GROUP, topic="orders", partition=0)
    committed_ms = stage.context.wall_ms() - RETENTION_MS + CHECK_MS
    stage.load(
        [CoordinatorRecord(key, OffsetCommitValue(offset=7, metadata="", commit_timestamp=committed_ms))]
    )

    stage.advance(CHECK_MS - 1)
    assert stored(stage) == {("orders", 0): 7}
    stage.advance(1)
    assert stored(stage) == {}


def test_offsets_of_topics_that_were_deleted_meanwhile_are_removed_after_loading() -> None:
    before = OffsetStage()
    commit(before, {"orders": {0: 7}, "payments": {0: 1}})
    before.cluster.delete_topic("payments")
    unknown = OffsetCommitValue(offset=3, metadata="", commit_timestamp=0)
    before.load([CoordinatorRecord(OffsetCommitKey(group=GROUP, topic="old", partition=0), unknown)])

    after = before.reloaded()
    after.offsets.loaded()
    after.advance(0)

    assert stored(after) == {("orders", 0): 7, ("old", 0): 3}, "what has no id cannot be told to be gone"


def test_nothing_expires_right_after_loading(stage: OffsetStage) -> None:
    commit(stage, {"orders": {0: 7}})
    stage.clock_ms += 10 * RETENTION_MS

    after = stage.reloaded()
    after.offsets.loaded()
    after.classic.loaded()
    after.advance(CHECK_MS - 1)
    assert stored(after) == {("orders", 0): 7}
    after.advance(1)
    assert stored(after) == {}
