"""A broker without a network: real metadata, and for handlers that need them real partitions on a real disk."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.broker.broker import Broker
from penstock.broker.context import ANONYMOUS, RequestContext
from penstock.config.broker import BrokerSettings
from penstock.metadata.cache import MetadataCache
from penstock.metadata.records.brokers import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from penstock.metadata.records.topics import PartitionRecord, TopicRecord
from penstock.protocol.types import ZERO_UUID, Uuid
from penstock.replication.table import PartitionTable
from penstock.runtime import Runtime
from penstock.runtime.clock import SystemClock

NODE_ID = 1
LISTENER = "PLAINTEXT"


def topic_id_of(name: str) -> Uuid:
    """An id that a test can tell from the name."""
    return Uuid(name.encode()[:16].ljust(16, b"."))


@dataclass
class Cluster:
    """Committed metadata, one change after the other."""

    metadata: MetadataCache = field(default_factory=MetadataCache)

    def publish(self, *records: object) -> None:
        image = self.metadata.image
        self.metadata.publish(image.apply(records, offset=image.offset + len(records), epoch=1))

    def add_broker(
        self, node_id: int, *, listeners: tuple[str, ...] = (LISTENER,), fenced: bool = False
    ) -> None:
        self.publish(
            RegisterBrokerRecord(
                broker_id=node_id,
                incarnation_id=ZERO_UUID,
                broker_epoch=node_id,
                end_points=[
                    BrokerEndpoint(
                        name=name, host=f"{name.lower()}-{node_id}", port=9000 + node_id, security_protocol=0
                    )
                    for name in listeners
                ],
                features=[
                    BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=29),
                    BrokerFeature(name="kraft.version", min_supported_version=0, max_supported_version=1),
                ],
                rack=f"rack-{node_id}",
                fenced=fenced,
            )
        )

    def add_topic(self, name: str, *, partitions: int = 1, replicas: tuple[int, ...] = (NODE_ID,)) -> None:
        self.publish(
            TopicRecord(name=name, topic_id=topic_id_of(name)),
            *(partition_record(name, index, replicas=replicas) for index in range(partitions)),
        )


def partition_record(
    topic: str,
    index: int,
    *,
    replicas: tuple[int, ...] = (NODE_ID,),
    isr: tuple[int, ...] | None = None,
    leader: int | None = None,
    leader_epoch: int = 0,
) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id_of(topic),
        replicas=list(replicas),
        isr=list(replicas if isr is None else isr),
        removing_replicas=[],
        adding_replicas=[],
        leader=replicas[0] if leader is None else leader,
        leader_epoch=leader_epoch,
        partition_epoch=leader_epoch,
        directories=[ZERO_UUID] * len(replicas),
    )


class FakeController:
    """Decides nothing; tests say what it answers."""

    def __init__(self) -> None:
        self.next_producer_id = 1000

    async def allocate_producer_ids(self, broker_id: int) -> tuple[int, int]:
        first = self.next_producer_id
        self.next_producer_id += 1000
        return first, 1000


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.add_broker(NODE_ID)
    return cluster


@pytest.fixture
def context() -> Callable[..., RequestContext]:
    def make(*, version: int, listener: str = LISTENER, client_id: str | None = "test") -> RequestContext:
        return RequestContext(0, version, 1, client_id, "127.0.0.1", listener, ANONYMOUS, None)

    return make


class NoDisk:
    """Stands where a broker has its disk, for handlers that only look at metadata: any use of it is a bug."""


@pytest.fixture
async def broker(cluster: Cluster) -> Broker:
    """A broker that knows the cluster's metadata but holds no partition."""
    settings = BrokerSettings.load({})
    nothing: Any = NoDisk()
    runtime = Runtime(
        clock=SystemClock(), random=random.Random(1), disk=nothing, network=nothing, workers=nothing
    )
    controller: Any = FakeController()
    return Broker(
        node_id=NODE_ID,
        cluster_id="the-cluster",
        runtime=runtime,
        settings=settings,
        metadata=cluster.metadata,
        partitions=PartitionTable(node_id=NODE_ID, logs=nothing, topic_settings=nothing),
        logs=nothing,
        controller=controller,
    )
