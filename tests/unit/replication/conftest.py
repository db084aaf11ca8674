"""Partitions over real logs: on a real disk, or on a simulated one that can fail."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness.datapath import NODE_ID, Cluster, DataNode, real_runtime
from penstock.runtime import Runtime
from penstock.runtime.clock import SystemClock
from simulator.disk import SimulatedDisk
from simulator.workers import SimulatedWorkers


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.add_broker(NODE_ID)
    return cluster


@pytest.fixture
async def node(cluster: Cluster, tmp_path: Path) -> AsyncIterator[DataNode]:
    """A node on a real disk."""
    runtime = real_runtime()
    node = DataNode(cluster, [str(tmp_path / "data")], runtime)
    await node.start()
    yield node
    await node.stop()
    runtime.workers.close()


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def frail_runtime(disk: SimulatedDisk) -> Runtime:
    nothing: Any = None
    rng = random.Random(1)
    return Runtime(clock=SystemClock(), random=rng, disk=disk, network=nothing, workers=SimulatedWorkers(rng))


@pytest.fixture
async def frail_node(cluster: Cluster, frail_runtime: Runtime) -> AsyncIterator[DataNode]:
    """A node with two log directories on a disk that a test can break."""
    node = DataNode(cluster, ["/one", "/two"], frail_runtime)
    await node.start()
    yield node
    await node.stop()
