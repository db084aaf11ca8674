"""The timers of members, with writes that are not committed yet."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.consumer_groups import SESSION_MS, ConsumerHarness
from harness.streams_groups import StreamsHarness
from penstock.coordinator.result import CoordinatorResult
from penstock.protocol.errors import ErrorCode

GROUP = "readers"

Heartbeat = Callable[[StreamsHarness, int], ErrorCode]


def consumer(harness: StreamsHarness, epoch: int) -> ErrorCode:
    topics = ["in"] if epoch == 0 else None
    return ConsumerHarness.heartbeat(harness, "one", epoch, group_id=GROUP, topics=topics).error_code


def streams(harness: StreamsHarness, epoch: int) -> ErrorCode:
    return harness.heartbeat("one", epoch, group_id=GROUP).error_code


@pytest.fixture
def harness() -> StreamsHarness:
    harness = StreamsHarness()
    harness.create_topic("in", 2)
    return harness


def members(harness: StreamsHarness) -> list[str]:
    group = harness.consumer._groups.find(GROUP) or harness.streams._groups.find(GROUP)
    assert group is not None
    return list(group.members)


def delete_group(harness: StreamsHarness) -> None:
    harness.play(CoordinatorResult(None, harness.context.groups[GROUP].tombstones()))


@pytest.mark.parametrize("rejoin", [consumer, streams])
@pytest.mark.parametrize("join", [consumer, streams])
def test_a_member_that_rejoins_a_recreated_group_before_its_leave_is_committed_still_expires(
    harness: StreamsHarness, join: Heartbeat, rejoin: Heartbeat
) -> None:
    assert join(harness, 0) is ErrorCode.NONE
    harness.is_committing = False
    assert join(harness, -1) is ErrorCode.NONE
    delete_group(harness)
    assert rejoin(harness, 0) is ErrorCode.NONE

    harness.commit()
    harness.is_committing = True
    harness.advance(SESSION_MS - 1)
    assert members(harness) == ["one"]
    harness.advance(1)

    assert members(harness) == []
    assert len(harness.context.timers) == 0


@pytest.mark.parametrize("join", [consumer, streams])
def test_a_member_that_rejoins_before_its_leave_is_committed_still_expires(
    harness: StreamsHarness, join: Heartbeat
) -> None:
    join(harness, 0)
    harness.is_committing = False
    join(harness, -1)
    join(harness, 0)

    harness.commit()
    harness.is_committing = True
    harness.advance(SESSION_MS)

    assert members(harness) == []


@pytest.mark.parametrize("join", [consumer, streams])
def test_a_member_that_left_has_no_timer_once_that_is_committed(
    harness: StreamsHarness, join: Heartbeat
) -> None:
    join(harness, 0)
    harness.is_committing = False
    join(harness, -1)
    assert len(harness.context.timers) == 1

    harness.commit()

    assert len(harness.context.timers) == 0


@pytest.mark.parametrize("join", [consumer, streams])
def test_a_member_whose_leave_is_refused_still_expires(harness: StreamsHarness, join: Heartbeat) -> None:
    join(harness, 0)
    harness.refuse = ErrorCode.NOT_COORDINATOR
    assert join(harness, -1) is ErrorCode.NOT_COORDINATOR
    harness.refuse = None
    assert members(harness) == ["one"]

    harness.advance(SESSION_MS)

    assert members(harness) == []
