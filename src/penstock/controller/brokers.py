"""Nodes that come into service: registered first, let in when they can serve."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from penstock.controller.outcome import Outcome
from penstock.metadata.directories import is_reserved
from penstock.metadata.errors import Refused
from penstock.metadata.features import METADATA_VERSION
from penstock.metadata.image import (
    NO_LEADER,
    BrokerImage,
    Endpoint,
    FeatureRange,
    MetadataImage,
    TopicImage,
)
from penstock.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Uuid, uuid_text

LET_IN = -1


@dataclass(frozen=True, slots=True)
class Registration:
    """What a node says of itself when it starts."""

    node_id: int
    incarnation_id: Uuid
    """New for every start of the process."""
    endpoints: tuple[Endpoint, ...]
    features: dict[str, FeatureRange]
    directories: tuple[Uuid, ...]
    rack: str | None = None


def register_broker(image: MetadataImage, registration: Registration, *, broker_epoch: int) -> Outcome[int]:
    """Put the node down as registered and fenced; the answer is its broker epoch.

    `broker_epoch` is the offset that the first record will have, which no other registration can share. A
    second call of the same incarnation keeps its epoch and renews what it says.
    """
    _check_directories(image, registration)
    _check_features(image, registration)
    existing = image.brokers.get(registration.node_id)
    is_same = existing is not None and existing.incarnation_id == registration.incarnation_id
    if existing is not None and is_same:
        broker_epoch = existing.epoch
    record = RegisterBrokerRecord(
        broker_id=registration.node_id,
        incarnation_id=registration.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=[
            BrokerEndpoint(
                name=each.listener, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in registration.endpoints
        ],
        features=[
            BrokerFeature(
                name=name, min_supported_version=each.min_level, max_supported_version=each.max_level
            )
            for name, each in registration.features.items()
        ],
        rack=registration.rack,
        fenced=existing.is_fenced if existing is not None and is_same else True,
        log_dirs=list(registration.directories),
        cordoned_log_dirs=[],
    )
    return Outcome([record], broker_epoch)


def unfence_broker(
    image: MetadataImage,
    node_id: int,
    *,
    broker_epoch: int,
    keeps_epochs: bool,
    offline: Collection[tuple[Uuid, int]] = (),
) -> Outcome[None]:
    """Let the node in, and make it lead what only it can lead: partitions that it led, or that have no leader
    now.

    Naming it leader starts a new leader epoch, because a node that crashed may have lost the end of its logs,
    and readers must be able to tell what is written there now from what was there before. `keeps_epochs`
    spares that, and a record for every partition, after a clean stop, when nothing was lost and nobody else
    has led meanwhile. The partitions `offline` are in a failed log directory; the node does not lead them.
    """
    check_broker_epoch(image, node_id, broker_epoch)
    records: list[object] = [
        BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=broker_epoch, fenced=LET_IN)
    ]
    for topic in image.topics.by_name.values():
        for index, partition in enumerate(topic.partitions):
            if (topic.topic_id, index) in offline:
                records += _leave(image, topic, index, node_id)
                continue
            leads_already = partition.leader == node_id
            could_lead = not partition.has_leader and node_id in (*partition.isr, *partition.eligible_leaders)
            if (leads_already and not keeps_epochs) or could_lead:
                change = PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=node_id)
                if node_id not in partition.isr:
                    change.isr = [node_id]
                    change.eligible_leader_replicas = [
                        other for other in partition.eligible_leaders if other != node_id
                    ]
                records.append(change)
    return Outcome(records, None, is_atomic=False)


def fail_directories(
    image: MetadataImage, node_id: int, *, online: Sequence[Uuid], offline: Collection[tuple[Uuid, int]]
) -> Outcome[None]:
    """Log directories of the node failed (KIP-858): it keeps those in `online`, and no longer leads the partitions
    `offline`. A replica that is the last in sync stays in sync, so that it can lead again when its disk is repaired.
    """
    broker = _find_broker(image, node_id)
    records: list[object] = []
    if set(online) != set(broker.directories):
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=node_id, broker_epoch=broker.epoch, log_dirs=list(online)
            )
        )
    for topic in image.topics.by_name.values():
        for index in range(len(topic.partitions)):
            if (topic.topic_id, index) in offline:
                records += _leave(image, topic, index, node_id)
    return Outcome(records, None, is_atomic=False)


def _leave(image: MetadataImage, topic: TopicImage, index: int, node_id: int) -> list[object]:
    """Remove the broker from the ISR and from leadership."""
    partition = topic.partitions[index]
    others = [other for other in partition.isr if other != node_id]
    if partition.leader != node_id and (not others or node_id not in partition.isr):
        return []
    change = PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id)
    if others:
        change.isr = others
    if partition.leader == node_id:
        alive = [other for other in others if other in image.brokers and not image.brokers[other].is_fenced]
        change.leader = alive[0] if alive else NO_LEADER
    return [change]


def register_controller(registration: Registration) -> Outcome[None]:
    """Put the node down as a controller (KIP-919): which features it supports, and where it is found."""
    record = RegisterControllerRecord(
        controller_id=registration.node_id,
        incarnation_id=registration.incarnation_id,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(
                name=each.listener, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in registration.endpoints
        ],
        features=[
            ControllerFeature(
                name=name, min_supported_version=each.min_level, max_supported_version=each.max_level
            )
            for name, each in registration.features.items()
        ],
    )
    return Outcome([record], None)


def check_broker_epoch(image: MetadataImage, node_id: int, epoch: int) -> BrokerImage:
    """Refuse what comes from a node that is not registered, or from an incarnation of it that is gone."""
    broker = _find_broker(image, node_id)
    if broker.epoch != epoch:
        raise Refused(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Broker {node_id} has broker epoch {broker.epoch}, but the request has {epoch}.",
        )
    return broker


def _find_broker(image: MetadataImage, node_id: int) -> BrokerImage:
    broker = image.brokers.get(node_id)
    if broker is None:
        raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {node_id} is not registered.")
    return broker


def _check_directories(image: MetadataImage, registration: Registration) -> None:
    directories: Sequence[Uuid] = registration.directories
    if not directories:
        raise Refused(
            ErrorCode.INVALID_REGISTRATION, "A broker must register with at least one log directory."
        )
    if len(set(directories)) != len(directories):
        raise Refused(ErrorCode.INVALID_REGISTRATION, "Two log directories have the same id.")
    for directory in directories:
        if is_reserved(directory):
            raise Refused(
                ErrorCode.INVALID_REGISTRATION, f"{uuid_text(directory)} is a reserved directory id."
            )
        for other in image.brokers.values():
            if other.node_id != registration.node_id and directory in other.directories:
                raise Refused(
                    ErrorCode.INVALID_REGISTRATION,
                    f"Node {other.node_id} is already registered with directory {uuid_text(directory)}.",
                )


def _check_features(image: MetadataImage, registration: Registration) -> None:
    for name, level in image.features.items():
        supported = registration.features.get(name, FeatureRange(0, 0))
        if level not in supported:
            raise Refused(
                ErrorCode.UNSUPPORTED_VERSION,
                f"The cluster has {name} {level}, and node {registration.node_id} supports {supported}.",
            )
    if METADATA_VERSION not in registration.features:
        raise Refused(
            ErrorCode.INVALID_REGISTRATION, f"A node must say which {METADATA_VERSION} it supports."
        )
