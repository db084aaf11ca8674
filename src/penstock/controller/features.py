"""The levels of features: those of a new cluster, and changes (UpdateFeatures)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum

from penstock.config.broker import BrokerSettings
from penstock.controller.configs import MIN_ISR
from penstock.controller.elections import partitions_without_isr
from penstock.controller.outcome import Outcome
from penstock.metadata.errors import Refused
from penstock.metadata.features import (
    DEPENDENCIES,
    ELIGIBLE_LEADERS,
    INITIAL_LEVELS,
    KRAFT_LEVEL,
    KRAFT_VERSION,
    METADATA_VERSION,
    NEW_RECORDS,
    SUPPORTED,
)
from penstock.metadata.image import FeatureRange, MetadataImage
from penstock.metadata.records import (
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
)
from penstock.metadata.resources import CLUSTER_DEFAULTS, ConfigResource, ResourceType
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

ABSENT = FeatureRange(0, 0)


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


_UPGRADE_TYPES = frozenset(UpgradeType)


def bootstrap_records(settings: BrokerSettings, given: Sequence[object] | None = None) -> Outcome[None]:
    """The first records of a new cluster: those that it was formatted with, or the newest features."""
    records: list[object] = list(given or ()) or [
        FeatureLevelRecord(name=name, feature_level=level) for name, level in INITIAL_LEVELS.items()
    ]
    levels = {each.name: each.feature_level for each in records if isinstance(each, FeatureLevelRecord)}
    if levels.get(ELIGIBLE_LEADERS, 0) > 0:
        records += _min_isr_records({}, settings)
    return Outcome(records, None)


def update_features(
    image: MetadataImage, request: UpdateFeaturesRequest, *, settings: BrokerSettings, node_id: int
) -> Outcome[None]:
    """Make all updates or none; raises `Refused` for the first invalid one.

    A feature that is named twice gets the last level, as in Kafka.
    """
    records: list[object] = []
    updates = {update.feature: update for update in request.feature_updates}
    levels = {**image.features, **{name: update.max_version_level for name, update in updates.items()}}
    for update in updates.values():
        current = KRAFT_LEVEL if update.feature == KRAFT_VERSION else image.features.get(update.feature, 0)
        _check_update(image, update, current, node_id)
        _check_dependencies(update, levels)
        if update.feature == KRAFT_VERSION:
            continue  # it has only one level, which the quorum stores
        records.append(FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level))
        if update.feature == ELIGIBLE_LEADERS:
            if update.max_version_level == 0:
                records.append(ClearElrRecord(topic_name=""))
                records += _isr_records(image)
            else:
                records += _min_isr_records(image.configs, settings)
    return Outcome([] if request.validate_only else records, None)


def _isr_records(image: MetadataImage) -> Iterator[PartitionChangeRecord]:
    """Without eligible leader replicas, the ISR keeps its last member: a replica that may lead becomes that one."""
    for topic_id, index, partition in partitions_without_isr(image, topic=""):
        member = (*partition.eligible_leaders, *partition.last_known_leaders)[0]
        yield PartitionChangeRecord(partition_id=index, topic_id=topic_id, isr=[member])


def _check_update(image: MetadataImage, update: FeatureUpdateKey, current: int, node_id: int) -> None:
    wanted = update.max_version_level
    if update.upgrade_type not in _UPGRADE_TYPES:
        raise _bad_update(update, "The upgrade type is unknown.")
    if wanted < 0:
        raise _bad_update(update, "A feature version cannot be negative.")
    if update.feature not in SUPPORTED:
        raise _bad_update(update, f"Controller {node_id} does not support this feature.")
    for who, supported in _supporters(image, update.feature, node_id):
        if wanted not in supported:
            raise _bad_update(update, f"{who} only supports versions {supported}.")
    if wanted < current and update.upgrade_type == UpgradeType.UPGRADE:
        raise _bad_update(
            update, "This is a downgrade: use the upgrade type SAFE_DOWNGRADE or UNSAFE_DOWNGRADE."
        )
    if wanted > current and update.upgrade_type != UpgradeType.UPGRADE:
        raise _bad_update(update, "This is an upgrade, but the upgrade type is a downgrade.")
    if wanted < current and update.feature == KRAFT_VERSION:
        raise _bad_update(update, "This feature cannot be downgraded.")
    if update.feature == METADATA_VERSION and any(wanted < level <= current for level in NEW_RECORDS):
        why = (
            "Refusing to perform the requested downgrade because it might delete metadata information."
            if update.upgrade_type == UpgradeType.SAFE_DOWNGRADE
            else "Unsafe metadata downgrade is not supported in this version."
        )
        raise _bad_update(update, why)


def _check_dependencies(update: FeatureUpdateKey, levels: Mapping[str, int]) -> None:
    """`levels` are those of all features after the request."""
    for (feature, level), (other, needed) in DEPENDENCIES.items():
        if levels.get(feature, 0) >= level and levels.get(other, 0) < needed:
            raise _bad_update(
                update, f"{feature} at level {level} needs {other} at level {needed} or higher."
            )


def _supporters(image: MetadataImage, feature: str, node_id: int) -> Iterator[tuple[str, FeatureRange]]:
    """All nodes that must support a level: this controller, the brokers and the other controllers."""
    yield f"Controller {node_id}", SUPPORTED[feature]
    for broker in image.brokers.values():
        yield f"Broker {broker.node_id}", broker.features.get(feature, ABSENT)
    for controller in image.controllers.values():
        if controller.node_id != node_id:
            yield f"Controller {controller.node_id}", controller.features.get(feature, ABSENT)


def _min_isr_records(
    configs: Mapping[ConfigResource, Mapping[str, str]], settings: BrokerSettings
) -> Iterator[ConfigRecord]:
    """With eligible leader replicas, `min.insync.replicas` is a setting of the cluster and not of a broker
    (KIP-966)."""
    if MIN_ISR not in configs.get(CLUSTER_DEFAULTS, {}):
        yield _min_isr_record("", str(settings.get(MIN_ISR)))
    for resource, values in configs.items():
        if resource != CLUSTER_DEFAULTS and resource.type is ResourceType.BROKER and MIN_ISR in values:
            yield _min_isr_record(resource.name, None)


def _min_isr_record(name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=ResourceType.BROKER, resource_name=name, name=MIN_ISR, value=value)


def _bad_update(update: FeatureUpdateKey, why: str) -> Refused:
    return Refused(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.max_version_level} for feature {update.feature}. {why}",
    )
