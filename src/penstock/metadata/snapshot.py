"""The records of an image, for a snapshot: replaying them into an empty image gives an equal one.

The order is Kafka's: features first, because the versions of the other records depend on `metadata.version`; then
nodes, topics and settings. Within a kind, the order is that of the image, so two nodes with the same image write the
same records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.metadata.features import METADATA_VERSION, metadata_version
from penstock.metadata.framing import encode_record
from penstock.metadata.image import (
    BrokerImage,
    ControllerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from penstock.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)
from penstock.protocol.types import Uuid

NO_BROKER = -1


def encoded_records(image: MetadataImage) -> Iterator[bytes]:
    """The encoded records of an image. Takes long for many partitions: run it in a worker."""
    level = metadata_version(image)
    for record in records_of(image):
        yield encode_record(record, level)


def records_of(image: MetadataImage) -> Iterator[object]:
    yield from _features(image.features)
    for broker in image.brokers.values():
        yield _broker(broker)
    for controller in image.controllers.values():
        yield _controller(controller)
    for topic in image.topics.by_name.values():
        yield from _topic(topic)
    for resource, settings in image.configs.items():
        for name, value in settings.items():
            yield ConfigRecord(
                resource_type=resource.type, resource_name=resource.name, name=name, value=value
            )
    if image.next_producer_id > 0:
        yield ProducerIdsRecord(broker_id=NO_BROKER, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from image.kept.values()


def _features(levels: Mapping[str, int]) -> Iterator[object]:
    if METADATA_VERSION in levels:
        yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=levels[METADATA_VERSION])
    for name, level in levels.items():
        if name != METADATA_VERSION:
            yield FeatureLevelRecord(name=name, feature_level=level)


def _broker(broker: BrokerImage) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.node_id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(
                name=each.listener, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in broker.endpoints
        ],
        features=[
            BrokerFeature(
                name=name, min_supported_version=levels.min_level, max_supported_version=levels.max_level
            )
            for name, levels in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.is_fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=list(broker.cordoned_directories) or None,
    )


def _controller(controller: ControllerImage) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.node_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(
                name=each.listener, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in controller.endpoints
        ],
        features=[
            ControllerFeature(
                name=name, min_supported_version=levels.min_level, max_supported_version=levels.max_level
            )
            for name, levels in controller.features.items()
        ],
    )


def _topic(topic: TopicImage) -> Iterator[object]:
    yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
    for index, partition in enumerate(topic.partitions):
        yield _partition(topic.topic_id, index, partition)


def _partition(topic_id: Uuid, index: int, partition: PartitionImage) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=int(partition.is_recovering),
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.eligible_leaders) or None,
        last_known_elr=list(partition.last_known_leaders) or None,
    )
