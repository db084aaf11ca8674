"""Applies the records of the metadata log to the image.

Metadata changes only here. An inconsistent record (a partition of an unknown topic) means that the log is corrupt or
that this code has a bug, and raises `CorruptMetadata`. Records that no part of a node reads yet (ACLs, SCRAM
credentials, quotas, delegation tokens) are kept as they are, so that a snapshot does not lose them.

A builder copies a part of the image at its first change. Changed topics are lists until `finish` (see `topics`), so a
batch that adds two thousand partitions to one topic copies its partitions once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from penstock.metadata.delta import MetadataDelta
from penstock.metadata.directories import MIGRATING
from penstock.metadata.errors import CorruptMetadata
from penstock.metadata.image import (
    BrokerImage,
    ControllerImage,
    Endpoint,
    FeatureRange,
    KeptKey,
    MetadataImage,
    PartitionImage,
)
from penstock.metadata.records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from penstock.metadata.resources import ConfigResource, ResourceType, topic_resource
from penstock.metadata.topics import TopicsBuilder
from penstock.protocol.types import Uuid

K = TypeVar("K")
V = TypeVar("V")

LEADER_UNCHANGED = -2
RECOVERY_UNCHANGED = -1


_TRANSACTION_ENDS = (EndTransactionRecord, AbortTransactionRecord)


def changed_partition(old: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """The partition after a change."""
    replicas = _changed(old.replicas, record.replicas)
    directories = old.directories
    if record.directories is not None or len(directories) != len(replicas):
        directories = _directories(record.directories, replicas)
    # Setting a leader, even the same one, starts a new epoch: a restarted leader may have lost records.
    names_leader = record.leader != LEADER_UNCHANGED
    is_recovering = old.is_recovering
    if record.leader_recovery_state != RECOVERY_UNCHANGED:
        is_recovering = bool(record.leader_recovery_state)
    return PartitionImage(
        replicas=replicas,
        isr=_changed(old.isr, record.isr),
        leader=record.leader if names_leader else old.leader,
        leader_epoch=old.leader_epoch + names_leader,
        partition_epoch=old.partition_epoch + 1,
        directories=directories,
        is_recovering=is_recovering,
        adding_replicas=_changed(old.adding_replicas, record.adding_replicas),
        removing_replicas=_changed(old.removing_replicas, record.removing_replicas),
        eligible_leaders=_changed(old.eligible_leaders, record.eligible_leader_replicas),
        last_known_leaders=_changed(old.last_known_leaders, record.last_known_elr),
    )


class ImageBuilder:
    """Builds the next image. Call `replay` for every record, then `finish` once."""

    def __init__(self, image: MetadataImage) -> None:
        self._before = image
        self._topics = TopicsBuilder(image.topics)
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        self._brokers: dict[int, BrokerImage | None] = {}
        self._controllers: dict[int, ControllerImage] = {}
        self._features: dict[str, int] = {}
        self._kept: dict[KeptKey, object | None] = {}
        self._next_producer_id = image.next_producer_id
        self._held: list[object] | None = None
        """Records of an open metadata transaction (KIP-868)."""
        self.has_records = False

    @property
    def is_in_transaction(self) -> bool:
        return self._held is not None

    def replay(self, record: object) -> None:
        self.has_records = True
        if self._held is not None and not isinstance(record, _TRANSACTION_ENDS):
            self._held.append(record)
            return
        act = _REPLAY.get(type(record))
        assert act is not None, f"{type(record).__name__} is not a metadata record"
        act(self, record)

    def finish(self, *, offset: int, epoch: int) -> MetadataDelta:
        if self._held is not None:
            raise CorruptMetadata("the metadata log ends inside a transaction")
        before = self._before
        topics, topic_deltas = self._topics.finish()
        image = MetadataImage(
            topics=topics,
            configs=_merged(before.configs, self._configs),
            brokers=_merged(before.brokers, self._brokers),
            controllers=_merged(before.controllers, self._controllers),
            features=_merged(before.features, self._features),
            next_producer_id=self._next_producer_id,
            kept=_merged(before.kept, self._kept),
            offset=offset,
            epoch=epoch,
        )
        return MetadataDelta(
            before=before,
            image=image,
            topics=topic_deltas,
            configs=tuple(self._configs),
            brokers=tuple(self._brokers),
            features=tuple(self._features),
        )

    # Topics

    def _topic(self, record: TopicRecord) -> None:
        self._topics.create(record.name, record.topic_id)

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        name = self._topics.delete(record.topic_id)
        resource = topic_resource(name)
        if self._settings(resource):
            self._configs[resource] = {}

    def _partition(self, record: PartitionRecord) -> None:
        replicas = tuple(record.replicas)
        self._topics.put_partition(
            record.topic_id,
            record.partition_id,
            PartitionImage(
                replicas=replicas,
                isr=tuple(record.isr),
                leader=record.leader,
                leader_epoch=record.leader_epoch,
                partition_epoch=record.partition_epoch,
                directories=_directories(record.directories, replicas),
                is_recovering=bool(record.leader_recovery_state),
                adding_replicas=tuple(record.adding_replicas),
                removing_replicas=tuple(record.removing_replicas),
                eligible_leaders=tuple(record.eligible_leader_replicas or ()),
                last_known_leaders=tuple(record.last_known_elr or ()),
            ),
        )

    def _partition_change(self, record: PartitionChangeRecord) -> None:
        old = self._topics.partition(record.topic_id, record.partition_id)
        self._topics.put_partition(record.topic_id, record.partition_id, changed_partition(old, record))

    def _clear_elr(self, record: ClearElrRecord) -> None:
        """The feature was disabled, or `min.insync.replicas` of a topic changed: the sets are no longer valid
        (KIP-966)."""
        self._topics.clear_eligible_leaders(record.topic_name)

    # Settings, features, producer ids

    def _config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(ResourceType.of(record.resource_type), record.resource_name)
        if resource.type is ResourceType.UNKNOWN:
            raise CorruptMetadata(f"unknown resource type {record.resource_type}")
        settings = self._configs.get(resource)
        if settings is None:
            settings = self._configs[resource] = dict(self._before.settings_of(resource))
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value

    def _settings(self, resource: ConfigResource) -> dict[str, str]:
        changed = self._configs.get(resource)
        return dict(self._before.settings_of(resource)) if changed is None else changed

    def _feature_level(self, record: FeatureLevelRecord) -> None:
        self._features[record.name] = record.feature_level

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        if record.next_producer_id <= self._next_producer_id:
            raise CorruptMetadata(
                f"producer ids go back from {self._next_producer_id} to {record.next_producer_id}"
            )
        self._next_producer_id = record.next_producer_id

    # Brokers and controllers

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self._brokers[record.broker_id] = BrokerImage(
            node_id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_feature_ranges(record.features),
            rack=record.rack,
            is_fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            directories=tuple(record.log_dirs),
            cordoned_directories=tuple(record.cordoned_log_dirs or ()),
        )

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        self._brokers[record.broker_id] = None

    def _broker_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        is_fenced = {-1: False, 0: broker.is_fenced, 1: True}.get(record.fenced)
        if is_fenced is None:
            raise CorruptMetadata(f"invalid fencing change {record.fenced}")
        cordoned = record.cordoned_log_dirs
        self._brokers[record.broker_id] = replace(
            broker,
            is_fenced=is_fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown or bool(record.in_controlled_shutdown),
            directories=tuple(record.log_dirs) or broker.directories,
            cordoned_directories=broker.cordoned_directories if cordoned is None else tuple(cordoned),
        )

    def _fence_broker(self, record: FenceBrokerRecord) -> None:
        self._brokers[record.id] = replace(self._broker(record.id, record.epoch), is_fenced=True)

    def _unfence_broker(self, record: UnfenceBrokerRecord) -> None:
        self._brokers[record.id] = replace(self._broker(record.id, record.epoch), is_fenced=False)

    def _broker(self, node_id: int, epoch: int) -> BrokerImage:
        broker = self._brokers[node_id] if node_id in self._brokers else self._before.brokers.get(node_id)
        if broker is None or broker.epoch != epoch:
            raise CorruptMetadata(f"node {node_id} is not registered with epoch {epoch}")
        return broker

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        self._controllers[record.controller_id] = ControllerImage(
            node_id=record.controller_id,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_feature_ranges(record.features),
        )

    # Records that are kept as they are, by their keys

    def _acl(self, record: AccessControlEntryRecord) -> None:
        self._kept["acl", record.id] = record

    def _remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        self._kept["acl", record.id] = None

    def _scram(self, record: UserScramCredentialRecord) -> None:
        self._kept["scram", record.name, record.mechanism] = record

    def _remove_scram(self, record: RemoveUserScramCredentialRecord) -> None:
        self._kept["scram", record.name, record.mechanism] = None

    def _token(self, record: DelegationTokenRecord) -> None:
        self._kept["token", record.token_id] = record

    def _remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self._kept["token", record.token_id] = None

    def _quota(self, record: ClientQuotaRecord) -> None:
        entity = sorted((each.entity_type, each.entity_name or "") for each in record.entity)
        key: KeptKey = ("quota", tuple(entity), record.key)
        self._kept[key] = None if record.remove else record

    # Transactions

    def _begin(self, record: BeginTransactionRecord) -> None:
        self._held = []

    def _end(self, record: EndTransactionRecord) -> None:
        held, self._held = self._held, None
        if held is None:
            raise CorruptMetadata("a metadata transaction ends without a begin")
        for each in held:
            self.replay(each)

    def _abort(self, record: AbortTransactionRecord) -> None:
        self._held = None

    def _nothing(self, record: object) -> None:
        """A no-op record, or a record about ZooKeeper."""


_REPLAY: dict[type, Callable[[ImageBuilder, Any], None]] = {
    TopicRecord: ImageBuilder._topic,
    RemoveTopicRecord: ImageBuilder._remove_topic,
    PartitionRecord: ImageBuilder._partition,
    PartitionChangeRecord: ImageBuilder._partition_change,
    ClearElrRecord: ImageBuilder._clear_elr,
    ConfigRecord: ImageBuilder._config,
    FeatureLevelRecord: ImageBuilder._feature_level,
    ProducerIdsRecord: ImageBuilder._producer_ids,
    RegisterBrokerRecord: ImageBuilder._register_broker,
    UnregisterBrokerRecord: ImageBuilder._unregister_broker,
    BrokerRegistrationChangeRecord: ImageBuilder._broker_registration_change,
    FenceBrokerRecord: ImageBuilder._fence_broker,
    UnfenceBrokerRecord: ImageBuilder._unfence_broker,
    RegisterControllerRecord: ImageBuilder._register_controller,
    AccessControlEntryRecord: ImageBuilder._acl,
    RemoveAccessControlEntryRecord: ImageBuilder._remove_acl,
    UserScramCredentialRecord: ImageBuilder._scram,
    RemoveUserScramCredentialRecord: ImageBuilder._remove_scram,
    DelegationTokenRecord: ImageBuilder._token,
    RemoveDelegationTokenRecord: ImageBuilder._remove_token,
    ClientQuotaRecord: ImageBuilder._quota,
    BeginTransactionRecord: ImageBuilder._begin,
    EndTransactionRecord: ImageBuilder._end,
    AbortTransactionRecord: ImageBuilder._abort,
    NoOpRecord: ImageBuilder._nothing,
    ZkMigrationStateRecord: ImageBuilder._nothing,
}


def _merged(before: Mapping[K, V], changes: Mapping[K, V | None]) -> Mapping[K, V]:
    """A copy with the changes, or the same mapping if there are none. An empty value removes the key: a resource
    without settings, a feature at level 0, an unregistered node."""
    if not changes:
        return before
    merged = dict(before)
    for key, value in changes.items():
        if value:
            merged[key] = value
        else:
            merged.pop(key, None)
    return merged


def _changed(old: tuple[int, ...], new: Sequence[int] | None) -> tuple[int, ...]:
    return old if new is None else tuple(new)


def _directories(given: Sequence[Uuid] | None, replicas: tuple[int, ...]) -> tuple[Uuid, ...]:
    """Records older than KIP-858 have no directories."""
    if not given:
        return (MIGRATING,) * len(replicas)
    if len(given) != len(replicas):
        raise CorruptMetadata(f"a partition has {len(replicas)} replicas, but {len(given)} directories")
    return tuple(given)


def _endpoints(declared: Sequence[BrokerEndpoint | ControllerEndpoint]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(each.name, each.host, each.port, each.security_protocol) for each in declared)


def _feature_ranges(declared: Sequence[BrokerFeature | ControllerFeature]) -> dict[str, FeatureRange]:
    return {
        each.name: FeatureRange(each.min_supported_version, each.max_supported_version) for each in declared
    }
