"""Configs of topics, brokers, groups, loggers and client metrics: describe and alter."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls
from penstock.client.admin.operations import UnknownMember
from penstock.client.admin.results import Results, only


class ResourceType(enum.IntEnum):
    """Types of resources with configs; the numbers are those of the protocol."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A resource with configs: `ConfigResource.topic("orders")`, `ConfigResource.broker(1)`, ..."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        kind = self.type.name.lower().replace("_", " ")
        return f"{kind} {self.name}" if self.name else "all brokers"

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int) -> ConfigResource:
        return cls(ResourceType.BROKER, str(node_id))

    @classmethod
    def all_brokers(cls) -> ConfigResource:
        """The cluster-wide defaults of all brokers."""
        return cls(ResourceType.BROKER, "")

    @classmethod
    def broker_logger(cls, node_id: int) -> ConfigResource:
        return cls(ResourceType.BROKER_LOGGER, str(node_id))

    @classmethod
    def group(cls, group_id: str) -> ConfigResource:
        return cls(ResourceType.GROUP, group_id)

    @classmethod
    def client_metrics(cls, name: str) -> ConfigResource:
        return cls(ResourceType.CLIENT_METRICS, name)

    @staticmethod
    def _example(name: str) -> str:
        """The resource that a plain name probably means, as code."""
        return f"ConfigResource.topic({name!r})"

    @property
    def node_id(self) -> int | None:
        """The only broker that can answer for it; None if any can."""
        if self.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and self.name.isdecimal():
            return int(self.name)
        return None


class ConfigSource(UnknownMember, enum.IntEnum):
    """Where a value comes from, most specific first."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    FILE = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigType(UnknownMember, enum.IntEnum):
    """The type of a config."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSynonym:
    """A config that the value may come from."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One config and its value as text; None if it is sensitive or not set."""

    name: str
    value: str | None
    source: ConfigSource = ConfigSource.UNKNOWN
    is_read_only: bool = False
    is_sensitive: bool = False
    type: ConfigType = ConfigType.UNKNOWN
    documentation: str | None = None
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT


Config = dict[str, ConfigEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """Changes to the configs of a resource. Configs that are not named stay as they are."""

    set: Mapping[str, object] = field(default_factory=dict)
    unset: Sequence[str] = ()
    """Reset to the default."""
    append: Mapping[str, object] = field(default_factory=dict)
    """Add to configs that are lists."""
    subtract: Mapping[str, object] = field(default_factory=dict)


class ConfigsAdmin(AdminCalls):
    async def describe_config(
        self,
        resource: ConfigResource,
        *,
        names: Iterable[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
        timeout: float | None = None,
    ) -> Config:
        """The configs of one resource by name; all of them, or those in `names`."""
        described = self.describe_configs(
            [resource], names=names, synonyms=synonyms, documentation=documentation, timeout=timeout
        )
        return await only(described)

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Iterable[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, Config]:
        """The configs of several resources; see `describe_config`."""
        call = self._begin("describe settings", timeout)
        wanted_names = None if names is None else list(names)

        async def ask(
            node_id: int | None, resources: list[ConfigResource]
        ) -> Results[ConfigResource, Config]:
            request = wire.configs.describe_request(
                resources, names=wanted_names, synonyms=synonyms, documentation=documentation
            )
            return wire.configs.read_described(await call.ask_node(node_id, request))

        return await call.run_each(resources, call.by_node(_owners, ask))

    async def alter_config(
        self,
        resource: ConfigResource,
        set: Mapping[str, object] | None = None,
        *,
        unset: Sequence[str] = (),
        append: Mapping[str, object] | None = None,
        subtract: Mapping[str, object] | None = None,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Change configs of one resource: `alter_config(ConfigResource.topic("orders"), {"retention.ms": 60000})`."""
        change = ConfigChange(set=set or {}, unset=unset, append=append or {}, subtract=subtract or {})
        await only(self.alter_configs({resource: change}, validate_only=validate_only, timeout=timeout))

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, ConfigChange],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, None]:
        """Change configs of several resources. The change of each resource is atomic."""
        call = self._begin("alter settings", timeout)

        async def ask(node_id: int | None, resources: list[ConfigResource]) -> Results[ConfigResource, None]:
            request = wire.configs.alter_request(
                {resource: changes[resource] for resource in resources}, validate_only=validate_only
            )
            return wire.configs.read_altered(await call.ask_node(node_id, request))

        return await call.run_each(changes, call.by_node(_owners, ask))

    async def list_config_resources(
        self, types: Iterable[ResourceType] = (), *, timeout: float | None = None
    ) -> list[ConfigResource]:
        """All resources with configs of their own; of the given types, or all."""
        call = self._begin("list resources", timeout)
        request = wire.configs.list_request(list(types))
        return wire.configs.read_listed(await call.ask(request))


async def _owners(resources: list[ConfigResource]) -> Results[ConfigResource, int | None]:
    """Each broker is asked about itself, and any broker about the rest."""
    return {resource: resource.node_id for resource in resources}
