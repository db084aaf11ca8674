"""A short version of `make torture OF=spark`: each kind of kill once or twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.brokers import PenstockBroker
from torture.spark import SETTINGS, torture_spark


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "rounds"), [("stateless", 3), ("stateful", 4)])
def test_what_goes_in_comes_out_once_whatever_is_killed(tmp_path: Path, kind: str, rounds: int) -> None:
    broker = PenstockBroker(tmp_path / "broker", settings=SETTINGS)
    try:
        report = torture_spark(
            broker, tmp_path / "query", kind=kind, rounds=rounds, seed=len(kind), say=print
        )
    finally:
        broker.close()

    assert not report.faults
    assert report.records > 100
    assert set(report.kills) == {"a worker", "the driver", "the broker"}
