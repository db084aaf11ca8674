"""Clusters to decide about: images made of the records that a controller would have written."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from penstock.config.broker import BrokerSettings
from penstock.controller import topics
from penstock.controller.features import bootstrap_records
from penstock.controller.outcome import Outcome
from penstock.metadata.features import SUPPORTED
from penstock.metadata.image import EMPTY_IMAGE, FeatureRange, MetadataImage
from penstock.metadata.records import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from penstock.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from penstock.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.types import Uuid

NODE_ID = 1
CLUSTER_ID = "a cluster"
SETTINGS = BrokerSettings.load({"node.id": str(NODE_ID)}, environment={"HOME": "/home/somebody"})


def node_uuid(node_id: int, what: str) -> Uuid:
    return Uuid(f"{what} {node_id}".encode().ljust(16, b"\0"))


def registration(
    node_id: int = NODE_ID,
    *,
    start: int = 0,
    rack: str | None = None,
    cluster_id: str = CLUSTER_ID,
    log_dirs: Sequence[Uuid] | None = None,
    features: Mapping[str, FeatureRange] = SUPPORTED,
    previous_broker_epoch: int = -1,
) -> BrokerRegistrationRequest:
    """Each start of the broker has its own incarnation id."""
    return BrokerRegistrationRequest(
        broker_id=node_id,
        cluster_id=cluster_id,
        incarnation_id=node_uuid(node_id, f"start {start}"),
        listeners=[Listener(name="PLAINTEXT", host="localhost", port=9092 + node_id, security_protocol=0)],
        features=[
            Feature(name=name, min_supported_version=levels.min_level, max_supported_version=levels.max_level)
            for name, levels in features.items()
        ],
        rack=rack,
        log_dirs=[node_uuid(node_id, "disk")] if log_dirs is None else list(log_dirs),
        previous_broker_epoch=previous_broker_epoch,
    )


def own_block(image: MetadataImage) -> AllocateProducerIdsRequest:
    """The request of the node for a block of producer ids."""
    return AllocateProducerIdsRequest(broker_id=NODE_ID, broker_epoch=image.brokers[NODE_ID].epoch)


def after(image: MetadataImage, outcome: Outcome[object]) -> MetadataImage:
    """The image once an outcome's records are replayed."""
    if not outcome.records:
        return image
    return image.apply(outcome.records, offset=image.offset + len(outcome.records), epoch=1).image


def join(image: MetadataImage, node_id: int, *, rack: str | None = None) -> MetadataImage:
    """Register the broker, unfenced."""
    wanted = registration(node_id, rack=rack)
    record = RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=wanted.incarnation_id,
        broker_epoch=image.offset + 1,
        end_points=[
            BrokerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=0)
            for each in wanted.listeners
        ],
        features=[
            BrokerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in wanted.features
        ],
        rack=rack,
        fenced=False,
        log_dirs=wanted.log_dirs,
    )
    return after(image, Outcome([record], None))


def cluster(node_count: int = 1, *, racks: tuple[str, ...] = ()) -> MetadataImage:
    """A new cluster with these nodes in service."""
    image = after(EMPTY_IMAGE, bootstrap_records(SETTINGS))
    for node_id in range(1, node_count + 1):
        image = join(image, node_id, rack=racks[node_id - 1] if racks else None)
    return image


def new_topic(
    name: str,
    partition_count: int = -1,
    replication_factor: int = -1,
    *,
    assignments: dict[int, list[int]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partition_count,
        replication_factor=replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
            for index, replicas in (assignments or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


def with_topics(image: MetadataImage, *wanted: CreatableTopic) -> MetadataImage:
    outcome = topics.create_topics(
        image, CreateTopicsRequest(topics=list(wanted)), settings=SETTINGS, rng=random.Random(1)
    )
    assert all(topic.error_code == 0 for topic in outcome.response.topics), outcome.response
    return after(image, outcome)
