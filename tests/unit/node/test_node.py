"""A node before its start: limits of connections and files."""

from __future__ import annotations

import pytest

from harness.storage import make_runtime
from penstock.config.broker import BrokerSettings
from penstock.node.node import CannotStart, Node
from simulator.disk import SimulatedDisk


def test_connections_cannot_take_the_descriptors_that_logs_need() -> None:
    node = Node(BrokerSettings.load({}), make_runtime(SimulatedDisk()), descriptors_max=400)

    assert node.connections.limits.connections_max == 200


@pytest.mark.parametrize("descriptors_max", [None, 400])
def test_max_connections_counts_where_it_is_the_lower_limit(descriptors_max: int | None) -> None:
    settings = BrokerSettings.load({"max.connections": "7"})

    node = Node(settings, make_runtime(SimulatedDisk()), descriptors_max=descriptors_max)

    assert node.connections.limits.connections_max == 7


@pytest.mark.parametrize(
    "properties",
    [
        {"controller.quorum.voters": "1@one:9093,2@two:9093,3@three:9093"},
        {"controller.quorum.bootstrap.servers": "one:9093,two:9093,three:9093"},
    ],
)
async def test_three_nodes_of_one_cluster_do_not_become_three_clusters(properties: dict[str, str]) -> None:
    disk = SimulatedDisk()
    node = Node(BrokerSettings.load(properties), make_runtime(disk))

    with pytest.raises(CannotStart, match="is not formatted"):
        await node.start()

    assert disk.paths() == []
