"""A broker without a network: real metadata, and for handlers that need them real partitions on a real disk."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness.datapath import (
    CLUSTER_ID,
    NODE_ID,
    Cluster,
    DataNode,
    FakeProducerIds,
    make_context,
    real_runtime,
)
from penstock.broker.broker import Broker
from penstock.broker.context import RequestContext
from penstock.broker.producer_ids import ProducerIds
from penstock.config.broker import BrokerSettings
from penstock.replication.table import PartitionTable
from penstock.runtime import Runtime
from penstock.runtime.clock import SystemClock


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.add_broker(NODE_ID)
    return cluster


class Nothing:
    """Replaces the disk of a broker for handlers that only read metadata: any use of it is a bug."""

    directories = ()


@pytest.fixture
async def broker(cluster: Cluster) -> Broker:
    """A broker with the metadata of the cluster, but without partitions."""
    nothing: Any = Nothing()
    return Broker(
        node_id=NODE_ID,
        cluster_id=CLUSTER_ID,
        runtime=Runtime(
            clock=SystemClock(), random=random.Random(1), disk=nothing, network=nothing, workers=nothing
        ),
        settings=BrokerSettings.load({}),
        metadata=cluster.metadata,
        partitions=PartitionTable(node_id=NODE_ID, logs=nothing, topic_settings=nothing),
        logs=nothing,
        channel=nothing,
        groups=nothing,
        transactions=nothing,
        producer_ids=ProducerIds(FakeProducerIds(), NODE_ID),
    )


@pytest.fixture
async def node(cluster: Cluster, tmp_path: Path) -> AsyncIterator[DataNode]:
    """A node with a real disk, which leads the topic "orders" with one partition."""
    cluster.add_topic("orders")
    runtime = real_runtime()
    node = DataNode(cluster, [str(tmp_path / "data")], runtime)
    await node.start()
    yield node
    await node.stop()
    runtime.workers.close()


@pytest.fixture
def context() -> Any:
    def make(*, version: int, **fields: Any) -> RequestContext:
        return make_context(version, **fields)

    return make
