"""A fourth node replaces the first one, as broker and as controller, under load, with the commands of the guide."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.admin import create_topics
from harness.brokers import penstock_command, penstock_environment
from harness.dynamic_cluster import DynamicCluster
from harness.load import Load
from harness.own_load import OwnLoad, check_each_once_and_in_order
from harness.waiting import wait_until

pytestmark = pytest.mark.penstock_only("runs a cluster of Penstock's nodes")

TOPIC = "orders"
PARTITIONS = 8
COMMAND_SECONDS = 120


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DynamicCluster]:
    cluster = DynamicCluster(tmp_path, settings={"penstock.balancer.interval.ms": "500"})
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
    cluster.check_outputs()


def test_a_node_joins_and_another_is_drained_and_removed_under_load(cluster: DynamicCluster) -> None:
    first = cluster.nodes[1]
    create_topics(cluster.bootstrap, TOPIC, partitions=PARTITIONS, replicas=3)
    with Load(cluster.bootstrap, TOPIC) as load:
        load.wait_for_more()
        cluster.join()
        wait_until(lambda: replicas(cluster)[4] >= 4, "the balancer moved partitions to node 4", seconds=60)
        wait_until(lambda: observer_has_caught_up(cluster), "node 4 has the metadata", seconds=60)
        endpoint = f"CONTROLLER://127.0.0.1:{cluster.controller_ports[4]}"
        run(cluster, "quorum", "add-voter", "4", cluster.fourth.directory_id, "--endpoint", endpoint)
        load.wait_for_more()

        run(cluster, "cluster", "drain", "1")
        wait_until(
            lambda: replicas(cluster) == {2: PARTITIONS, 3: PARTITIONS, 4: PARTITIONS},
            "node 1 has no replicas",
        )
        run(cluster, "quorum", "remove-voter", "1", first.directory_id)
        cluster.leave(1)
        run(cluster, "cluster", "unregister", "1")
        load.wait_for_more()

        assert voters(cluster) == {2, 3, 4}
        cluster.kill(cluster.controller())  # the new controllers elect another
        cluster.controller()
        load.wait_for_more()

    check_each_once_and_in_order(OwnLoad.stored_in(cluster.bootstrap, TOPIC), load.written)


def run(cluster: DynamicCluster, *arguments: str) -> Any:
    """Run a command of `penstock`, and return its JSON."""
    done = subprocess.run(
        [*penstock_command(), *arguments, "--bootstrap-server", cluster.bootstrap, "--json"],
        env=penstock_environment(),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
    )
    assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout) if done.stdout.strip() else None


def replicas(cluster: DynamicCluster) -> Counter[int]:
    return Counter(node_id for each in cluster.partitions(TOPIC) for node_id in each.replica_nodes)


def observer_has_caught_up(cluster: DynamicCluster) -> bool:
    return any(row["node"] == 4 and row["lag"] == 0 for row in run(cluster, "quorum", "replicas"))


def voters(cluster: DynamicCluster) -> set[int]:
    return {row["node"] for row in run(cluster, "quorum", "replicas") if row["role"] != "observer"}
