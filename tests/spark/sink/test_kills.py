"""A short version of `make torture OF=spark`: each kind of kill once, for three queries that share a driver."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.brokers import PenstockBroker
from torture.spark import KILLED, SETTINGS, torture_spark


@pytest.mark.timeout(600)
def test_every_input_comes_out_once_after_any_kill(tmp_path: Path) -> None:
    """Pass-through rows, dropDuplicates, and the word count of a streams application with its changelog."""
    broker = PenstockBroker(tmp_path / "broker", settings=SETTINGS)
    kinds = ["stateless", "stateful", "counting"]
    try:
        report = torture_spark(
            broker,
            tmp_path / "queries",
            kinds=kinds,
            rounds=len(KILLED),
            seed=1,
            steps_per_second=40,
            say=print,
        )
    finally:
        broker.close()

    assert not report.faults
    assert report.records > 100 * len(kinds)
    assert set(report.kills) == set(KILLED)
