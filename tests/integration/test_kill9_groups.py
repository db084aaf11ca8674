"""kill -9 during rebalances and commits, a few times; `make torture` does it a hundred times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.brokers import Broker
from torture.groups import SETTINGS, offset_faults, torture_groups

ROUNDS = 3


def test_no_committed_offset_goes_back(tmp_path: Path, make_broker: Callable[..., Broker]) -> None:
    # A KRaft broker that was killed registers again only after its old session has expired.
    session = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"}
    broker = make_broker(tmp_path / "broker", settings={**SETTINGS, **session})
    try:
        report = torture_groups(broker, rounds=ROUNDS, seed=1, say=print)
    finally:
        broker.close()
    assert report.faults == []
    assert report.kills >= ROUNDS
    assert report.commits > 0
    broker.check_output()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({0: (7, "at 7"), 1: (5, "at 5")}, []),
        ({0: (8, "at 8"), 1: (5, "")}, []),
        ({0: (6, "at 6"), 1: (5, "at 5")}, ["partition 0 went back to 6, but 7 was acknowledged"]),
        ({1: (5, "at 5")}, ["partition 0 went back to -1, but 7 was acknowledged"]),
        ({0: (9, "at 9"), 1: (5, "at 5")}, ["partition 0 is at 9, which was never committed"]),
        ({0: (8, "at 7"), 1: (5, "at 5")}, ["with the metadata of 'at 7'"]),
    ],
    ids=["all well", "unacknowledged", "went back", "lost", "never committed", "mixed up"],
)
def test_the_check_finds(found: dict[int, tuple[int, str]], expected: list[str]) -> None:
    messages = offset_faults("g", promised={0: 7, 1: 5}, asked={0: 8, 1: 5}, found=found)
    assert len(messages) == len(expected)
    for text in expected:
        assert any(text in fault for fault in messages)
