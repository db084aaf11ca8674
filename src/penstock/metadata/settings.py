"""The settings of this node, its topics and groups: the file, overridden by the dynamic settings of an image.

`DynamicSettings` caches the last result, so a repeated call with an unchanged image is free. Recorded settings must
load again even if the file has changed: a setting that is no longer valid is ignored and logged, as in Kafka, because a
node that does not start cannot be reconfigured.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TypeVar

from penstock.config.broker import BrokerSettings
from penstock.config.errors import BadSetting
from penstock.config.group import GroupSettings
from penstock.config.topic import TopicSettings
from penstock.metadata.image import NO_SETTINGS, MetadataImage
from penstock.metadata.resources import CLUSTER_DEFAULTS, broker_resource, group_resource, topic_resource

logger = logging.getLogger(__name__)

S = TypeVar("S", TopicSettings, GroupSettings)


class DynamicSettings:
    def __init__(self, static: BrokerSettings) -> None:
        self._static = static
        self._resource = broker_resource(static.node_id)
        self._cluster: Mapping[str, str] = NO_SETTINGS
        self._broker: Mapping[str, str] = NO_SETTINGS
        self._current = static
        self._groups: GroupSettings | None = None
        """The settings of all groups without overrides."""

    def of_broker(self, image: MetadataImage) -> BrokerSettings:
        """The settings of this node."""
        cluster, broker = image.settings_of(CLUSTER_DEFAULTS), image.settings_of(self._resource)
        if cluster is not self._cluster or broker is not self._broker:
            self._current = self._overlay(dict(cluster), dict(broker))
            self._cluster, self._broker = cluster, broker
        return self._current

    def of_topic(self, image: MetadataImage, name: str) -> TopicSettings:
        """The settings of a topic on this node."""
        return resolve_topic(self.of_broker(image), image, name)

    def of_group(self, image: MetadataImage, group_id: str) -> GroupSettings:
        """The settings of a group."""
        overrides = image.settings_of(group_resource(group_id))
        broker = self.of_broker(image)
        if overrides:
            return _resolve(GroupSettings, broker, overrides)
        if self._groups is None or self._groups.broker is not broker:
            self._groups = GroupSettings.resolve(broker, {})
        return self._groups

    def _overlay(self, cluster: dict[str, str], broker: dict[str, str]) -> BrokerSettings:
        while True:
            try:
                return self._static.with_dynamic(cluster=cluster, broker=broker)
            except BadSetting as bad:
                # If neither layer has the name, a setting of the file contradicts one of them: drop the narrower
                # layer first.
                is_brokers = bad.key in broker or (broker and bad.key not in cluster)
                _drop(bad, broker if is_brokers else cluster)


def resolve_topic(broker: BrokerSettings, image: MetadataImage, name: str) -> TopicSettings:
    """The settings of a topic on a broker with these settings."""
    return _resolve(TopicSettings, broker, image.settings_of(topic_resource(name)))


def _resolve(settings: type[S], broker: BrokerSettings, recorded: Mapping[str, str]) -> S:
    overrides = dict(recorded)
    while True:
        try:
            return settings.resolve(broker, overrides)
        except BadSetting as bad:
            _drop(bad, overrides)


def _drop(bad: BadSetting, overrides: dict[str, str]) -> None:
    logger.error("ignoring an invalid dynamic setting: %s", bad)
    if bad.key in overrides:
        del overrides[bad.key]
    else:
        overrides.clear()  # they contradict a setting of the file, which takes precedence
