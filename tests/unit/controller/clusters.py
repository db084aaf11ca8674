"""Clusters to decide about: images made of the records that a controller would have written."""

from __future__ import annotations

import random

from penstock.config.broker import BrokerSettings
from penstock.controller import brokers, features, topics
from penstock.controller.brokers import Registration
from penstock.controller.outcome import Outcome
from penstock.metadata.features import SUPPORTED
from penstock.metadata.image import EMPTY_IMAGE, Endpoint, MetadataImage
from penstock.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.types import Uuid

NODE_ID = 1
SETTINGS = BrokerSettings.load({"node.id": str(NODE_ID)}, environment={"HOME": "/home/somebody"})


def node_uuid(node_id: int, what: str) -> Uuid:
    return Uuid(f"{what} {node_id}".encode().ljust(16, b"\0"))


def registration(node_id: int = NODE_ID, *, start: int = 0, rack: str | None = None) -> Registration:
    return Registration(
        node_id=node_id,
        incarnation_id=node_uuid(node_id, f"start {start}"),
        endpoints=(Endpoint("PLAINTEXT", "localhost", 9092 + node_id, 0),),
        features=dict(SUPPORTED),
        directories=(node_uuid(node_id, "disk"),),
        rack=rack,
    )


def after(image: MetadataImage, outcome: Outcome[object]) -> MetadataImage:
    """The image once an outcome's records are replayed."""
    if not outcome.records:
        return image
    return image.apply(outcome.records, offset=image.offset + len(outcome.records), epoch=1).image


def join(image: MetadataImage, node_id: int, *, rack: str | None = None) -> MetadataImage:
    epoch = image.offset + 1
    image = after(image, brokers.register_broker(image, registration(node_id, rack=rack), broker_epoch=epoch))
    return after(image, brokers.unfence_broker(image, node_id, broker_epoch=epoch, keeps_epochs=False))


def cluster(node_count: int = 1, *, racks: tuple[str, ...] = ()) -> MetadataImage:
    """A new cluster with these nodes in service."""
    image = after(EMPTY_IMAGE, features.first_records(SETTINGS))
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
