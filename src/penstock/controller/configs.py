"""Changes of dynamic settings: of topics, brokers, groups and client metrics subscriptions.

`penstock.config` validates the values. This module checks that the resource exists, chooses the error code, and creates
the records. The changes of one resource are made all or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.config.alter import (
    Change,
    Operation,
    alter_broker,
    alter_client_metrics,
    alter_cluster,
    alter_group,
    alter_other_broker,
    alter_topic,
)
from penstock.config.broker import BrokerSettings
from penstock.config.errors import BadSetting
from penstock.controller.elections import partitions_without_isr
from penstock.controller.outcome import RECORDS_MAX, Outcome
from penstock.metadata.errors import Refused, unknown_topic
from penstock.metadata.features import ELIGIBLE_LEADERS
from penstock.metadata.image import MetadataImage
from penstock.metadata.names import check_topic_name
from penstock.metadata.records import ClearElrRecord, ConfigRecord, PartitionChangeRecord
from penstock.metadata.resources import CLUSTER_DEFAULTS, ConfigResource, ResourceType
from penstock.protocol.errors import ErrorCode

VALUE_BYTES_MAX = 2**15 - 1  # of a string in a record; only a list that grew by APPEND can be longer
MIN_ISR = "min.insync.replicas"


class Alteration(NamedTuple):
    """The changes of one resource."""

    resource: ConfigResource
    changes: Sequence[Change]
    is_replacement: bool = False
    """Whether settings that are not named return to their defaults, as in AlterConfigs."""


def alter_configs(
    image: MetadataImage, alterations: Sequence[Alteration], *, settings: BrokerSettings, validate_only: bool
) -> Outcome[list[Refused | None]]:
    """The response has, for each alteration, why it was refused, or None."""
    if len(alterations) > RECORDS_MAX:
        raise Refused(
            ErrorCode.POLICY_VIOLATION, f"One request may name at most {RECORDS_MAX} resources; split it."
        )
    records: list[object] = []
    refusals: list[Refused | None] = []
    for alteration in alterations:
        try:
            altered: list[object] = list(_alter(image, alteration, settings))
            altered += _cleared_eligible_leaders(image, altered)
            if len(records) + len(altered) > RECORDS_MAX:
                raise Refused(
                    ErrorCode.POLICY_VIOLATION,
                    f"One request may change at most {RECORDS_MAX} settings; split it.",
                )
            records += altered
            refusals.append(None)
        except Refused as refused:
            refusals.append(refused)
    return Outcome([] if validate_only else records, refusals)


def new_topic_settings(
    name: str, values: Mapping[str, str], *, settings: BrokerSettings
) -> list[ConfigRecord]:
    """Validate the settings of a new topic and return their records."""
    changes = [Change(key, Operation.SET, value) for key, value in values.items()]
    try:
        altered = alter_topic(settings, {}, changes)
    except BadSetting as bad:
        raise Refused(ErrorCode.INVALID_CONFIG, str(bad)) from bad
    resource = ConfigResource(ResourceType.TOPIC, name)
    return [_record(resource, key, value) for key, value in altered.items()]


def _alter(image: MetadataImage, alteration: Alteration, settings: BrokerSettings) -> list[ConfigRecord]:
    resource = alteration.resource
    current = image.settings_of(resource)
    changes = list(alteration.changes)
    if alteration.is_replacement:
        named = {change.name for change in changes}
        changes += [Change(name, Operation.DELETE) for name in current if name not in named]
    _check_name(resource)
    altered = _altered(resource, current, changes, settings)
    _check_min_isr(image, resource, changes)
    _check_exists(image, resource)
    return _records(resource, current, changes, altered)


def _cleared_eligible_leaders(image: MetadataImage, altered: Sequence[object]) -> list[object]:
    """Whether a replica is eligible depends on `min.insync.replicas`, so a new value clears the set (KIP-966). A
    partition with an empty ISR keeps it: nothing was committed since then, and no other replica could be elected."""
    if not image.features.get(ELIGIBLE_LEADERS):
        return []
    records: list[object] = []
    for record in altered:
        if isinstance(record, ConfigRecord) and record.name == MIN_ISR:
            name = record.resource_name
            records.append(ClearElrRecord(topic_name=name))
            records += [
                PartitionChangeRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    eligible_leader_replicas=list(partition.eligible_leaders),
                    last_known_elr=list(partition.last_known_leaders),
                )
                for topic_id, index, partition in partitions_without_isr(image, name)
            ]
    return records


def _altered(
    resource: ConfigResource, current: Mapping[str, str], changes: list[Change], settings: BrokerSettings
) -> dict[str, str]:
    """The settings after the changes. The error code of an invalid value depends on the resource, as in Kafka."""
    error = ErrorCode.INVALID_CONFIG
    try:
        match resource.type:
            case ResourceType.TOPIC:
                return alter_topic(settings, current, changes)
            case ResourceType.GROUP:
                return alter_group(settings, current, changes)
            case ResourceType.CLIENT_METRICS:
                error = ErrorCode.INVALID_REQUEST
                return alter_client_metrics(current, changes)
            case ResourceType.BROKER:
                error = ErrorCode.INVALID_REQUEST
                if resource == CLUSTER_DEFAULTS:
                    return alter_cluster(settings, changes)
                if resource.name != str(settings.node_id):
                    return alter_other_broker(current, changes)
                return alter_broker(settings, changes)
    except BadSetting as bad:
        raise Refused(error, str(bad)) from bad
    raise Refused(ErrorCode.INVALID_REQUEST, f"{resource} has no settings.")


def _records(
    resource: ConfigResource,
    current: Mapping[str, str],
    changes: Sequence[Change],
    altered: Mapping[str, str],
) -> list[ConfigRecord]:
    # A broker setting is written even if it is unchanged, because the broker then reloads the file that it names, such
    # as a keystore (KAFKA-14136).
    writes_unchanged = resource.type is ResourceType.BROKER
    return [
        _record(resource, name, altered.get(name))
        for name in dict.fromkeys(change.name for change in changes)
        if writes_unchanged or altered.get(name) != current.get(name)
    ]


def _record(resource: ConfigResource, name: str, value: str | None) -> ConfigRecord:
    if value is not None and len(value.encode()) > VALUE_BYTES_MAX:
        raise Refused(
            ErrorCode.INVALID_CONFIG, f"The value of {name} is longer than {VALUE_BYTES_MAX} bytes."
        )
    return ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)


def _check_name(resource: ConfigResource) -> None:
    if resource.type is ResourceType.BROKER:
        if resource.name and not resource.name.isdecimal():
            raise Refused(ErrorCode.INVALID_REQUEST, f"{resource.name!r} is not a broker id.")
        return
    if not resource.name:
        kind = resource.type.name.lower().replace("_", " ")
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"The {kind} has no name; default settings exist for brokers only."
        )
    if resource.type is ResourceType.TOPIC:
        check_topic_name(resource.name)


def _check_exists(image: MetadataImage, resource: ConfigResource) -> None:
    """Groups and subscriptions need not exist."""
    if resource.type is ResourceType.TOPIC and resource.name not in image.topics:
        raise unknown_topic(resource.name)
    if resource.type is ResourceType.BROKER and resource.name:
        node_id = int(resource.name)
        if node_id not in image.brokers and node_id not in image.controllers:
            raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {node_id} is registered.")


def _check_min_isr(image: MetadataImage, resource: ConfigResource, changes: Sequence[Change]) -> None:
    """Eligible leader replicas depend on this setting, so all brokers must have the same value, and it must not change
    with their files (KIP-966)."""
    if resource.type is not ResourceType.BROKER or not image.features.get(ELIGIBLE_LEADERS):
        return
    for change in changes:
        if change.name != MIN_ISR:
            continue
        if resource != CLUSTER_DEFAULTS:
            raise Refused(
                ErrorCode.INVALID_CONFIG,
                f"{MIN_ISR} cannot be set for a single broker while {ELIGIBLE_LEADERS} is enabled.",
            )
        if change.operation is Operation.DELETE:
            raise Refused(
                ErrorCode.INVALID_CONFIG,
                f"The cluster's {MIN_ISR} cannot be removed while {ELIGIBLE_LEADERS} is enabled.",
            )
