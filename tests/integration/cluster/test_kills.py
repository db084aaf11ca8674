"""Three nodes of which one dies, stops or hangs, under load; `make torture OF=cluster` does it many times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.transactions import transformers
from harness.penstock_cluster import PenstockCluster
from torture.cluster import KILL, PAUSE, SETTINGS, STOP, torture_cluster

pytestmark = pytest.mark.penstock_only("runs a cluster of Penstock's nodes")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PenstockCluster]:
    cluster = PenstockCluster(tmp_path / "cluster", settings=SETTINGS)
    yield cluster
    cluster.close()


@pytest.mark.parametrize(("action", "rounds"), [(KILL, 2), (STOP, 1), (PAUSE, 1)])
def test_no_acknowledged_record_is_lost(cluster: PenstockCluster, action: str, rounds: int) -> None:
    report = torture_cluster(cluster, rounds=rounds, seed=1, actions=[action], say=print)

    assert report.faults == []
    assert report.acknowledged > 0
    cluster.check_outputs()


@pytest.mark.parametrize("name", ["confluent", "java"])
def test_groups_and_transactions_survive_the_death_of_a_node(cluster: PenstockCluster, name: str) -> None:
    (client,) = [client for client in transformers.IN_CRASHES if client.name == name]

    report = torture_cluster(cluster, rounds=1, seed=2, clients=[client], actions=[KILL], say=print)

    assert report.faults == []
    assert report.transformed > 0
    cluster.check_outputs()
