"""Changes of settings at run time (IncrementalAlterConfigs, AlterConfigs), checked before they are recorded.

Each function returns the overrides of the resource after the change, or raises `BadSetting`. It changes nothing.
AlterConfigs replaces all overrides: that is a call with `current={}` and SET operations only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from penstock.config.broker import BrokerSettings, find_setting
from penstock.config.declare import Setting
from penstock.config.errors import BadSetting, unknown_setting
from penstock.config.group import validate_group_overrides
from penstock.config.tables import CLIENT_METRICS, GROUP, TOPIC
from penstock.config.topic import validate_topic_overrides
from penstock.config.values import SettingType


class Operation(IntEnum):
    """The numbers are those of the wire protocol."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    name: str
    operation: Operation
    value: str | None = None


def alter_topic(
    broker: BrokerSettings, current: Mapping[str, str], changes: Iterable[Change]
) -> dict[str, str]:
    """A topic's overrides after the changes."""
    altered = _apply(current, changes, TOPIC)
    validate_topic_overrides(broker, altered, previous=current)
    return altered


def alter_broker(settings: BrokerSettings, changes: Iterable[Change]) -> dict[str, str]:
    """The dynamic settings of this broker after the changes."""
    changes = list(changes)
    altered = _apply(
        settings.dynamic_broker, changes, {change.name: find_setting(change.name) for change in changes}
    )
    settings.with_dynamic(cluster=settings.dynamic_cluster, broker=altered)
    return altered


def alter_other_broker(current: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """The dynamic settings of another broker after the changes. That broker has checked the values, because only it
    knows its file."""
    changes = list(changes)
    return _apply(current, changes, {change.name: find_setting(change.name) for change in changes})


def alter_cluster(settings: BrokerSettings, changes: Iterable[Change]) -> dict[str, str]:
    """The dynamic settings of all brokers after the changes."""
    changes = list(changes)
    altered = _apply(
        settings.dynamic_cluster, changes, {change.name: find_setting(change.name) for change in changes}
    )
    settings.with_dynamic(cluster=altered, broker=settings.dynamic_broker)
    return altered


def alter_group(
    broker: BrokerSettings, current: Mapping[str, str], changes: Iterable[Change]
) -> dict[str, str]:
    """A group's overrides after the changes."""
    altered = _apply(current, changes, GROUP)
    validate_group_overrides(broker, altered)
    return altered


def alter_client_metrics(current: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """A metrics subscription after the changes."""
    altered = _apply(current, changes, CLIENT_METRICS)
    for name, text in altered.items():
        if name not in CLIENT_METRICS:
            raise unknown_setting(name, list(CLIENT_METRICS), where="a metrics subscription")
        CLIENT_METRICS[name].parse(text)
    return altered


def _apply(
    current: Mapping[str, str], changes: Iterable[Change], table: Mapping[str, Setting | None]
) -> dict[str, str]:
    """The overrides after the changes. Only the operations are checked, not the resulting values."""
    altered = dict(current)
    for change in changes:
        if change.operation is Operation.DELETE:
            altered.pop(change.name, None)
        elif change.value is None:
            raise BadSetting(change.name, None, f"{change.operation.name} needs a value")
        elif change.operation is Operation.SET:
            altered[change.name] = change.value
        else:
            altered[change.name] = _alter_list(change, altered.get(change.name), table.get(change.name))
    return altered


def _alter_list(change: Change, current: str | None, setting: Setting | None) -> str:
    """Add items to a list, or remove them.

    A list that is not set starts from the declared default, not from the broker's value, as in Kafka.
    """
    if setting is None or setting.type is not SettingType.LIST:
        raise BadSetting(change.name, None, f"is not a list, so {change.operation.name} is not possible")
    assert change.value is not None
    if current is None:
        current = ",".join(setting.default or ())
    items = [item for item in current.split(",") if item]
    for item in change.value.split(","):
        if change.operation is Operation.APPEND and item not in items:
            items.append(item)
        elif change.operation is Operation.SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)
