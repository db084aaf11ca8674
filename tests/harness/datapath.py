"""A node's data path without a network: metadata, real logs, partitions, and a broker for handlers.

`Cluster` commits metadata by hand, where a real node has a controller. `DataNode` applies it like a real node. It runs
on a real disk or on the simulated one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.context import ANONYMOUS, RequestContext
from penstock.broker.producer_ids import ProducerIds
from penstock.config.broker import BrokerSettings
from penstock.metadata.cache import MetadataCache
from penstock.metadata.image import EMPTY_IMAGE
from penstock.metadata.records.brokers import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from penstock.metadata.records.cluster import ConfigRecord
from penstock.metadata.records.topics import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.metadata.resources import ResourceType
from penstock.metadata.settings import DynamicSettings
from penstock.protocol.types import ZERO_UUID, Uuid
from penstock.records import kernel
from penstock.replication.partition import Partition
from penstock.replication.table import PartitionTable
from penstock.runtime import Runtime
from penstock.runtime.clock import SystemClock
from penstock.runtime.disk import RealDisk
from penstock.runtime.workers import ThreadWorkers
from penstock.storage.settings import LogSettings, StoreSettings
from penstock.storage.store import LogStore

NODE_ID = 1
LISTENER = "PLAINTEXT"
CLUSTER_ID = "the-cluster"


def topic_id_of(name: str) -> Uuid:
    """A topic id derived from the name."""
    return Uuid(name.encode()[:16].ljust(16, b"."))


def make_context(
    version: int, *, listener: str = LISTENER, client_id: str | None = "test", api_key: int = 0
) -> RequestContext:
    return RequestContext(api_key, version, 1, client_id, "127.0.0.1", listener, ANONYMOUS, None)


def make_batch(*values: bytes, timestamp: int = 1000, key: bytes | None = None, **options: Any) -> memoryview:
    """A writable view, as in a produce request."""
    return memoryview(kernel.build_batch([(timestamp, key, value, ()) for value in values], **options))


def partition_record(
    topic: str,
    index: int,
    *,
    replicas: Sequence[int] = (NODE_ID,),
    isr: Sequence[int] | None = None,
    leader: int | None = None,
    leader_epoch: int = 0,
    directory: Uuid = ZERO_UUID,
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
        directories=[directory] * len(replicas),
    )


@dataclass
class Cluster:
    """Committed metadata, changed step by step."""

    metadata: MetadataCache = field(default_factory=MetadataCache)
    records: list[object] = field(default_factory=list)

    def publish(self, *records: object) -> None:
        self.records += records
        image = self.metadata.image
        self.metadata.publish(image.apply(records, offset=image.offset + len(records), epoch=1))

    def add_broker(
        self, node_id: int, *, listeners: Sequence[str] = (LISTENER,), fenced: bool = False
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

    def add_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: Sequence[int] = (NODE_ID,),
        isr: Sequence[int] | None = None,
        leader: int | None = None,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.publish(
            TopicRecord(name=name, topic_id=topic_id_of(name)),
            *(
                partition_record(name, index, replicas=replicas, isr=isr, leader=leader)
                for index in range(partitions)
            ),
            *(topic_setting(name, key, value) for key, value in (settings or {}).items()),
        )

    def move(self, topic: str, index: int, *, leader: int) -> None:
        """Give a partition another leader."""
        self.publish(PartitionChangeRecord(partition_id=index, topic_id=topic_id_of(topic), leader=leader))

    def delete_topic(self, name: str) -> None:
        self.publish(RemoveTopicRecord(topic_id=topic_id_of(name)))

    def set(self, topic: str, key: str, value: str | None) -> None:
        self.publish(topic_setting(topic, key, value))


def topic_setting(topic: str, key: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=int(ResourceType.TOPIC), resource_name=topic, name=key, value=value)


class FakeProducerIds:
    """Assigns producer ids, as a controller does."""

    def __init__(self) -> None:
        self._next_producer_id = 1000

    async def allocate_producer_ids(self, broker_id: int) -> tuple[int, int]:
        first = self._next_producer_id
        self._next_producer_id += 1000
        return first, 1000


def real_runtime() -> Runtime:
    nothing: Any = None
    return Runtime(
        clock=SystemClock(),
        random=random.Random(1),
        disk=RealDisk(),
        network=nothing,
        workers=ThreadWorkers(2),
    )


class DataNode:
    """One node, from its logs to its handlers."""

    def __init__(
        self,
        cluster: Cluster,
        paths: Sequence[str],
        runtime: Runtime,
        *,
        properties: dict[str, str] | None = None,
    ) -> None:
        self.cluster = cluster
        self.runtime = runtime
        settings = BrokerSettings.load(properties or {})
        self.logs = LogStore(
            paths,
            runtime=runtime,
            settings=StoreSettings(),
            topic_settings=lambda topic: LogSettings(),
            node_id=NODE_ID,
            cluster_id=CLUSTER_ID,
        )
        self.partitions = PartitionTable(
            node_id=NODE_ID, logs=self.logs, topic_settings=DynamicSettings(settings).of_topic
        )
        absent: Any = None  # the data path uses neither coordinators nor a controller
        self.broker = Broker(
            node_id=NODE_ID,
            cluster_id=CLUSTER_ID,
            runtime=runtime,
            settings=settings,
            metadata=cluster.metadata,
            partitions=self.partitions,
            logs=self.logs,
            channel=absent,
            groups=absent,
            transactions=absent,
            producer_ids=ProducerIds(FakeProducerIds(), NODE_ID),
        )

    async def start(self) -> None:
        """Load the logs, apply the current metadata, and follow it from now on."""
        await self.logs.start()
        offset = self.cluster.metadata.image.offset
        self.partitions.apply(EMPTY_IMAGE.apply(self.cluster.records, offset=offset, epoch=1))
        self.partitions.remove_strays()
        self.cluster.metadata.subscribe(self.partitions.apply)

    async def stop(self) -> None:
        self.cluster.metadata.unsubscribe(self.partitions.apply)
        self.partitions.close()
        await self.logs.close()

    def partition(self, topic: str = "orders", index: int = 0) -> Partition:
        return self.partitions.find(topic, index)
