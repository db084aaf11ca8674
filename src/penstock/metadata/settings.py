"""Settings as an image has them: the node's file, with what was said at run time laid over it.

`DynamicSettings` is a view: it remembers only the last answer, so asking again for an unchanged image costs
nothing. What was recorded must load again, whatever the file has become since: a recorded setting that the
node can not take any more is left out and said so, as in Kafka, for a node that does not start could not be
told anything better.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock.config.broker import BrokerSettings
from penstock.config.errors import BadSetting
from penstock.config.group import GroupSettings
from penstock.config.topic import TopicSettings
from penstock.metadata.image import NO_SETTINGS, MetadataImage
from penstock.metadata.resources import CLUSTER_DEFAULTS, broker_resource, group_resource, topic_resource

logger = logging.getLogger(__name__)


class DynamicSettings:
    def __init__(self, static: BrokerSettings) -> None:
        self._static = static
        self._resource = broker_resource(static.node_id)
        self._cluster: Mapping[str, str] = NO_SETTINGS
        self._broker: Mapping[str, str] = NO_SETTINGS
        self._current = static
        self._groups: GroupSettings | None = None
        """For groups of which nothing was said; there may be thousands."""

    def of_broker(self, image: MetadataImage) -> BrokerSettings:
        """What holds for this node."""
        cluster, broker = image.settings_of(CLUSTER_DEFAULTS), image.settings_of(self._resource)
        if cluster is not self._cluster or broker is not self._broker:
            self._current = self._overlay(dict(cluster), dict(broker))
            self._cluster, self._broker = cluster, broker
        return self._current

    def of_topic(self, image: MetadataImage, name: str) -> TopicSettings:
        """What holds for a topic on this node."""
        return resolve_topic(self.of_broker(image), image, name)

    def of_group(self, image: MetadataImage, group_id: str) -> GroupSettings:
        """What holds for a group; for most of them, that is what the broker says of all."""
        overrides = image.settings_of(group_resource(group_id))
        broker = self.of_broker(image)
        if overrides:
            return resolve_group(broker, overrides)
        if self._groups is None or self._groups.broker is not broker:
            self._groups = GroupSettings.resolve(broker, {})
        return self._groups

    def _overlay(self, cluster: dict[str, str], broker: dict[str, str]) -> BrokerSettings:
        while True:
            try:
                return self._static.with_dynamic(cluster=cluster, broker=broker)
            except BadSetting as bad:
                # What names neither layer is the file's, at odds with one of them: the narrower one gives way first.
                is_brokers = bad.key in broker or (broker and bad.key not in cluster)
                _leave_out(bad, broker if is_brokers else cluster)


def resolve_topic(broker: BrokerSettings, image: MetadataImage, name: str) -> TopicSettings:
    """A topic's settings over a node's."""
    overrides = dict(image.settings_of(topic_resource(name)))
    while True:
        try:
            return TopicSettings.resolve(broker, overrides)
        except BadSetting as bad:
            _leave_out(bad, overrides)


def resolve_group(broker: BrokerSettings, recorded: Mapping[str, str]) -> GroupSettings:
    """A group's settings over a node's."""
    overrides = dict(recorded)
    while True:
        try:
            return GroupSettings.resolve(broker, overrides)
        except BadSetting as bad:
            _leave_out(bad, overrides)


def _leave_out(bad: BadSetting, overrides: dict[str, str]) -> None:
    logger.error("a recorded setting is not in force: %s", bad)
    if bad.key in overrides:
        del overrides[bad.key]
    else:
        overrides.clear()  # two settings are at odds and the one named is the file's: the file wins
