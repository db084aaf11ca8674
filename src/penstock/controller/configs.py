"""Changes of dynamic settings: of topics, nodes, groups and metrics subscriptions.

What a value may be is `penstock.config`'s to say. Here stands what the cluster adds: that the resource
exists, which error a client gets, and which records follow. All changes of one resource are made, or none.
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
    alter_topic,
)
from penstock.config.broker import BrokerSettings
from penstock.config.errors import BadSetting
from penstock.controller.outcome import RECORDS_MAX, Outcome
from penstock.metadata.errors import Refused
from penstock.metadata.features import ELIGIBLE_LEADERS
from penstock.metadata.image import MetadataImage
from penstock.metadata.names import check_topic_name
from penstock.metadata.records import ConfigRecord
from penstock.metadata.resources import CLUSTER_DEFAULTS, ConfigResource, ResourceType
from penstock.protocol.errors import ErrorCode

VALUE_BYTES_MAX = 2**15 - 1  # a string of a record; only a list that grew by APPEND can come to be longer
MIN_ISR = "min.insync.replicas"


class Alteration(NamedTuple):
    """What one resource of a request is to become."""

    resource: ConfigResource
    changes: Sequence[Change]
    is_replacement: bool = False
    """Whether everything that is not named goes back to its default, as in the old AlterConfigs."""


def alter_configs(
    image: MetadataImage, alterations: Sequence[Alteration], *, settings: BrokerSettings, validate_only: bool
) -> Outcome[list[Refused | None]]:
    """The answer has, for each alteration, the reason why it was refused, or None."""
    if len(alterations) > RECORDS_MAX:
        raise Refused(
            ErrorCode.POLICY_VIOLATION, f"One request may name at most {RECORDS_MAX} resources; split it."
        )
    records: list[object] = []
    refusals: list[Refused | None] = []
    for alteration in alterations:
        try:
            altered = _alter(image, alteration, settings)
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
    """The records that give a new topic its settings, checked."""
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
    _check_name(resource, settings.node_id)
    altered = _altered(resource, current, changes, settings)
    _check_min_isr(image, resource, changes)
    _check_exists(image, resource)
    return _records(resource, current, changes, altered)


def _altered(
    resource: ConfigResource, current: Mapping[str, str], changes: list[Change], settings: BrokerSettings
) -> dict[str, str]:
    """The settings after the changes. Which error stands for a bad value differs by resource, as it does in
    Kafka."""
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
    # KAFKA-14136: a node's setting is written even if it stays the same, because that makes the node look again at what
    # it names, a keystore for instance.
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


def _check_name(resource: ConfigResource, node_id: int) -> None:
    if resource.type is ResourceType.BROKER:
        # Only a node itself knows its file, over which its dynamic settings are laid.
        if resource.name not in ("", str(node_id)):
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id {resource.name}: this broker is {node_id}.",
            )
        return
    if not resource.name:
        kind = resource.type.name.lower().replace("_", " ")
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"The {kind} has no name; default settings exist for brokers only."
        )
    if resource.type is ResourceType.TOPIC:
        check_topic_name(resource.name)


def _check_exists(image: MetadataImage, resource: ConfigResource) -> None:
    """Groups and subscriptions come into being by being named, and nodes were looked at by their name."""
    if resource.type is ResourceType.TOPIC and resource.name not in image.topics:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist.")


def _check_min_isr(image: MetadataImage, resource: ConfigResource, changes: Sequence[Change]) -> None:
    """KIP-966: whether a replica outside the ISR still has everything depends on this setting, so it must not
    differ from node to node, nor silently change with their files."""
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
