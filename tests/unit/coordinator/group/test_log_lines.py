"""The log names groups that were created, deleted or migrated and members that were removed: once each, and none whose
records were refused."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

import pytest

from harness.classic_groups import ClassicHarness
from harness.consumer_groups import GROUP, SESSION_MS, ConsumerHarness, HonestMember
from harness.mixed_groups import ClassicConsumer
from harness.offsets import OffsetHarness, commit
from harness.streams_groups import StreamsHarness
from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode

HOUR_MS = 3_600_000


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if " group " in each.getMessage()]


def classic() -> tuple[ClassicHarness, Callable[[], object]]:
    harness = ClassicHarness()
    return harness, harness.join


def consumer() -> tuple[ConsumerHarness, Callable[[], object]]:
    harness = ConsumerHarness()
    harness.create_topic("water", 3)
    return harness, lambda: harness.heartbeat("one", topics=["water"])


def streams() -> tuple[StreamsHarness, Callable[[], object]]:
    harness = StreamsHarness()
    harness.create_topic("in", 3)
    return harness, lambda: harness.heartbeat("one")


@pytest.mark.parametrize("make", [classic, consumer, streams])
def test_a_group_that_was_refused_is_not_logged_as_created(
    make: Callable[[], tuple[ClassicHarness | ConsumerHarness | StreamsHarness, Callable[[], object]]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "penstock.coordinator")
    harness, join = make()

    harness.refuse = ErrorCode.NOT_COORDINATOR
    with suppress(Refused):
        join()
    assert not lines(caplog)

    harness.refuse = None
    join()
    join()
    (line,) = lines(caplog)
    assert line.startswith(f"created {make.__name__} group ")
    assert ", requested by " in line
    assert line.endswith(")")


def test_a_group_whose_deletion_was_refused_is_not_logged_as_deleted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "penstock.coordinator")
    harness = OffsetHarness({"offsets.retention.minutes": "60"})
    harness.offsets.loaded()
    commit(harness, {"orders": {0: 7}})

    harness.refuse = ErrorCode.NOT_COORDINATOR
    with pytest.raises(Refused):
        harness.advance(HOUR_MS)
    assert not lines(caplog)

    harness.refuse = None
    harness.advance(HOUR_MS)
    (line,) = lines(caplog)
    assert line.startswith("deleted group ")
    assert "no members and no offsets" in line


@pytest.mark.parametrize("make", [consumer, streams])
def test_a_member_whose_removal_was_refused_is_not_logged_as_removed(
    make: Callable[[], tuple[ConsumerHarness | StreamsHarness, Callable[[], object]]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness, join = make()
    join()
    caplog.set_level(logging.INFO, "penstock.coordinator")

    harness.refuse = ErrorCode.NOT_COORDINATOR
    with pytest.raises(Refused):
        harness.advance(SESSION_MS)
    assert not lines(caplog)
    assert harness.group.members

    harness.refuse = None
    join()
    harness.advance(SESSION_MS)
    (line,) = lines(caplog)
    assert line == f"{make.__name__} group {harness.group.group_id}: removed member one: its session expired"


def classic_consumer(
    harness: ConsumerHarness, *others: HonestMember, instance_id: str | None = None
) -> ClassicConsumer:
    """A classic member that has joined the group."""
    member = ClassicConsumer(harness, "old", instance_id=instance_id)
    for _ in range(6):
        member.step()
        for other in others:
            other.heartbeat()
        harness.advance(1_000)
    return member


def migrating_harness(**properties: str) -> ConsumerHarness:
    harness = ConsumerHarness({"group.initial.rebalance.delay.ms": "0", **properties})
    harness.create_topic("water", 3)
    return harness


def migrations(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in lines(caplog) if "graded " in line]


def test_a_group_whose_upgrade_was_refused_is_not_logged_as_upgraded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = migrating_harness()
    classic_consumer(harness)
    caplog.set_level(logging.INFO, "penstock.coordinator")

    harness.refuse = ErrorCode.NOT_COORDINATOR
    harness.heartbeat("one", topics=["water"])
    assert isinstance(harness.context.groups[GROUP], ClassicGroup)
    assert not migrations(caplog)

    harness.refuse = None
    harness.heartbeat("one", topics=["water"])
    assert isinstance(harness.context.groups[GROUP], ConsumerGroup)
    assert migrations(caplog) == [f"upgraded group {GROUP} from classic to consumer"]


def test_a_group_that_is_too_large_for_another_member_is_not_logged_as_upgraded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = migrating_harness(**{"group.consumer.max.size": "1"})
    classic_consumer(harness)
    caplog.set_level(logging.INFO, "penstock.coordinator")

    response = harness.heartbeat("one", topics=["water"])

    assert response.error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert isinstance(harness.context.groups[GROUP], ClassicGroup)
    assert not migrations(caplog)


def test_a_group_whose_downgrade_was_refused_is_not_logged_as_downgraded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = migrating_harness()
    new = HonestMember(harness, "one")
    new.heartbeat()
    classic_consumer(harness, new)
    caplog.set_level(logging.INFO, "penstock.coordinator")

    harness.refuse = ErrorCode.NOT_COORDINATOR
    harness.heartbeat("one", -1)
    assert isinstance(harness.context.groups[GROUP], ConsumerGroup)
    assert not migrations(caplog)

    harness.refuse = None
    harness.heartbeat("one", -1)
    assert isinstance(harness.context.groups[GROUP], ClassicGroup)
    assert migrations(caplog) == [f"downgraded group {GROUP} from consumer to classic"]


def test_a_static_member_that_rejoins_as_a_classic_one_logs_the_downgrade_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = migrating_harness()
    harness.heartbeat("one", topics=["water"], instance_id="shelf-1")
    harness.heartbeat("one", -2, instance_id="shelf-1")
    caplog.set_level(logging.INFO, "penstock.coordinator")

    classic_consumer(harness, instance_id="shelf-1")

    assert isinstance(harness.context.groups[GROUP], ClassicGroup)
    assert migrations(caplog) == [f"downgraded group {GROUP} from consumer to classic"]
