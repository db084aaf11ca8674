"""The log names groups that were created or deleted, once each, and none whose records were refused."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

import pytest

from harness.classic_groups import ClassicStage
from harness.consumer_groups import ConsumerStage
from harness.offsets import OffsetStage, commit
from harness.streams_groups import StreamsStage
from penstock.metadata.errors import Refused
from penstock.protocol.errors import ErrorCode

HOUR_MS = 3_600_000


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if " group " in each.getMessage()]


def classic() -> tuple[ClassicStage, Callable[[], object]]:
    stage = ClassicStage()
    return stage, stage.join


def consumer() -> tuple[ConsumerStage, Callable[[], object]]:
    stage = ConsumerStage()
    stage.create_topic("water", 3)
    return stage, lambda: stage.heartbeat("one", topics=["water"])


def streams() -> tuple[StreamsStage, Callable[[], object]]:
    stage = StreamsStage()
    stage.create_topic("in", 3)
    return stage, lambda: stage.heartbeat("one")


@pytest.mark.parametrize("make", [classic, consumer, streams])
def test_a_group_that_was_refused_is_not_logged_as_created(
    make: Callable[[], tuple[ClassicStage | ConsumerStage | StreamsStage, Callable[[], object]]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "penstock.coordinator")
    stage, join = make()

    stage.refuse = ErrorCode.NOT_COORDINATOR
    with suppress(Refused):
        join()
    assert not lines(caplog)

    stage.refuse = None
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
    stage = OffsetStage({"offsets.retention.minutes": "60"})
    stage.offsets.loaded()
    commit(stage, {"orders": {0: 7}})

    stage.refuse = ErrorCode.NOT_COORDINATOR
    with pytest.raises(Refused):
        stage.advance(HOUR_MS)
    assert not lines(caplog)

    stage.refuse = None
    stage.advance(HOUR_MS)
    (line,) = lines(caplog)
    assert line.startswith("deleted group ")
    assert "no members and no offsets" in line
