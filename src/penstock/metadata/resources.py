"""The resources with dynamic settings: topics, brokers, groups, client metrics subscriptions."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class ResourceType(IntEnum):
    """Kafka's numbers, in requests and in the metadata log."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32

    @classmethod
    def of(cls, number: int) -> ResourceType:
        """The type with this number, or UNKNOWN for a type that only newer clients know."""
        try:
            return cls(number)
        except ValueError:
            return cls.UNKNOWN


class ConfigResource(NamedTuple):
    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name} {self.name!r}"


CLUSTER_DEFAULTS = ConfigResource(ResourceType.BROKER, "")
"""The dynamic defaults of all brokers."""


def topic_resource(name: str) -> ConfigResource:
    return ConfigResource(ResourceType.TOPIC, name)


def group_resource(group_id: str) -> ConfigResource:
    return ConfigResource(ResourceType.GROUP, group_id)


def broker_resource(node_id: int) -> ConfigResource:
    return ConfigResource(ResourceType.BROKER, str(node_id))
