"""Settings of topics, brokers, groups, loggers and client metrics: describe and alter."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.client.admin import wire
from penstock.client.admin.calls import AdminCalls
from penstock.client.admin.outcome import Answers, only


class ResourceType(enum.IntEnum):
    """What can have settings, as on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """One thing that has settings; `ConfigResource.topic("orders")` and its like are the short way to one."""

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
        """The defaults that hold for every broker of the cluster, unless one says otherwise for itself."""
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
        """How to write the resource that a plain name probably means."""
        return f"ConfigResource.topic({name!r})"

    @property
    def node_id(self) -> int | None:
        """The only broker that can answer for it; None where any can."""
        if self.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and self.name.isdecimal():
            return int(self.name)
        return None


class ConfigSource(enum.IntEnum):
    """Where a value comes from, nearest first."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    FILE = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8

    @classmethod
    def _missing_(cls, number: object) -> ConfigSource:
        return cls.UNKNOWN


class ConfigType(enum.IntEnum):
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

    @classmethod
    def _missing_(cls, number: object) -> ConfigType:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSynonym:
    """A setting that would decide, or has decided, the value of another."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One setting and its value, as text; None where it is secret or not set."""

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
    """What is to become of a resource's settings; what is not named stays as it is."""

    set: Mapping[str, object] = field(default_factory=dict)
    unset: Sequence[str] = ()
    """Back to the default."""
    append: Mapping[str, object] = field(default_factory=dict)
    """To settings that are lists."""
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
        """The settings of one resource by name; all of them, or those in `names`."""
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
        call = self._begin("describe settings", timeout)
        wanted_names = None if names is None else list(names)

        async def ask(
            node_id: int | None, resources: list[ConfigResource]
        ) -> Answers[ConfigResource, Config]:
            request = wire.configs.describe_request(
                resources, names=wanted_names, synonyms=synonyms, documentation=documentation
            )
            return wire.configs.read_described(await call.ask_node(node_id, request))

        return await call.each(resources, call.to(_owners, ask))

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
        """Change settings of one resource: `alter_config(ConfigResource.topic("orders"), {"retention.ms": 60000})`."""
        change = ConfigChange(set=set or {}, unset=unset, append=append or {}, subtract=subtract or {})
        await only(self.alter_configs({resource: change}, validate_only=validate_only, timeout=timeout))

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, ConfigChange],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, None]:
        """Change settings of several resources; each is changed as a whole or not at all."""
        call = self._begin("alter settings", timeout)

        async def ask(node_id: int | None, resources: list[ConfigResource]) -> Answers[ConfigResource, None]:
            request = wire.configs.alter_request(
                {resource: changes[resource] for resource in resources}, validate_only=validate_only
            )
            return wire.configs.read_altered(await call.ask_node(node_id, request))

        return await call.each(changes, call.to(_owners, ask))

    async def list_config_resources(
        self, types: Iterable[ResourceType] = (), *, timeout: float | None = None
    ) -> list[ConfigResource]:
        """Everything that has settings of its own; of the given types, or all."""
        call = self._begin("list resources", timeout)
        request = wire.configs.list_request(list(types))
        return wire.configs.read_listed(await call.ask(request))


async def _owners(resources: list[ConfigResource]) -> Answers[ConfigResource, int | None]:
    """Each broker is asked about itself, and any of them about all the rest."""
    return {resource: resource.node_id for resource in resources}
