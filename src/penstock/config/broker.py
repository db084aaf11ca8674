"""The settings of one node: static ones from its file, and dynamic ones.

`BrokerSettings` is immutable. A dynamic change makes a new object (`with_dynamic`), which replaces the old one in the
node. There are three layers over the declared defaults, each overriding the previous one: the file (static), the
dynamic defaults of the cluster, and the dynamic settings of this broker. Every name is declared in `tables`, except
names with a prefix (`listener.name.internal.ssl.keystore.location`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import IntEnum
from functools import cached_property
from typing import Any, Self

from penstock.config.declare import Dynamic, Setting
from penstock.config.errors import BadSetting, unknown_setting
from penstock.config.listeners import Listener, parse_listeners, parse_protocol_map
from penstock.config.tables import BROKER, BROKER_DYNAMIC
from penstock.config.tables.topic import BROKER_SYNONYMS

LISTENER_PREFIX = "listener.name."

_NOT_SET: Any = object()

# Settings that can be set per listener and SASL mechanism: listener.name.<listener>.<mechanism>.<setting>.
MECHANISM_SETTINGS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)

# Settings of Java plug-ins, which no table can list. They are accepted and ignored.
PLUGIN_PREFIXES = ("config.providers.", "rsm.config.", "rlmm.config.")

# Removed settings that older files still contain, and what to do about them.
REMOVED = {
    "zookeeper.connect": "Kafka 4 and Penstock do not use ZooKeeper; remove this line",
    "inter.broker.protocol.version": "features are upgraded with `kafka-features.sh upgrade`; remove this line",
    "log.message.format.version": "records are stored in format 2 and converted for old clients; remove this line",
    "log.message.downconversion.enable": "old clients are always served; remove this line",
    "log.message.timestamp.difference.max.ms": "use log.message.timestamp.before.max.ms and .after.max.ms instead",
    "control.plane.listener.name": "use controller.listener.names instead",
    "broker.id.generation.enable": "say node.id instead",
    "reserved.broker.max.id": "say node.id instead",
    "offsets.commit.required.acks": "offset commits wait for all in-sync replicas; remove this line",
    "delegation.token.master.key": "use delegation.token.secret.key instead",
}


class Source(IntEnum):
    """The source of a value. The numbers are those of the wire protocol (DescribeConfigs)."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class BrokerSettings:
    """All settings of a node, each with its value."""

    def __init__(
        self,
        static: Mapping[str, str],
        cluster: Mapping[str, str],
        broker: Mapping[str, str],
        data_directory: str,
    ) -> None:
        """Use `load` or `with_dynamic`, which validate their arguments."""
        self.static = static
        """The settings of the file, as text."""
        self.dynamic_cluster = cluster
        """The dynamic defaults of all brokers, as text."""
        self.dynamic_broker = broker
        """The dynamic settings of this broker, as text."""
        self._data_directory = data_directory
        self._values = {name: _parse(name, text) for name, text in self._texts().items()}

    @classmethod
    def load(cls, properties: Mapping[str, str], *, environment: Mapping[str, str] = os.environ) -> Self:
        """Validate the properties of a file; raise `BadSetting` if one is invalid."""
        for name in properties:
            _require_known(name, BROKER)
        settings = cls(_with_aliases(properties), {}, {}, default_data_directory(environment))
        settings.check()
        return settings

    def with_dynamic(self, *, cluster: Mapping[str, str] = {}, broker: Mapping[str, str] = {}) -> Self:
        """A copy with these dynamic settings instead; raise `BadSetting` if one is invalid."""
        check_dynamic(cluster, is_for_one_broker=False)
        check_dynamic(broker, is_for_one_broker=True)
        settings = type(self)(self.static, dict(cluster), dict(broker), self._data_directory)
        settings.check()
        return settings

    def check(self) -> None:
        """Raise `BadSetting` if settings contradict each other."""
        from penstock.config.checks import check_broker  # here, because it imports this module

        check_broker(self)

    def get(self, name: str, /, *, listener: str | None = None) -> Any:
        """The value, in the declared type of the setting. A list is a tuple.

        With `listener`, the value for that listener if it has its own.
        """
        if listener is not None:
            prefixed = f"{LISTENER_PREFIX}{listener.lower()}.{name}"
            if prefixed in self._values:
                return self._values[prefixed]
        value = self._values.get(name, _NOT_SET)
        return self.default(name) if value is _NOT_SET else value

    def is_set(self, name: str) -> bool:
        """Whether the file or a dynamic setting sets it."""
        return name in self._values

    def overridden(self) -> dict[str, str]:
        """The settings that differ from their defaults, as text for people. Secrets are hidden."""
        differing: dict[str, str] = {}
        for name, text in sorted(self._texts().items()):
            setting = find_setting(name)
            if setting is None or setting.is_sensitive:
                differing[name] = "(hidden)"
            elif name not in BROKER_DYNAMIC or self._values.get(name) != self.default(name):
                differing[name] = text
        return differing

    @cached_property
    def ignored(self) -> tuple[str, ...]:
        """The names that are set but have no effect: not implemented yet, or only for Apache Kafka."""
        return tuple(name for name in self._texts() if not _applies(name))

    @property
    def node_id(self) -> int:
        node_id: int = self.get("node.id")
        return node_id

    @property
    def roles(self) -> frozenset[str]:
        return frozenset(self.get("process.roles"))

    @property
    def log_dirs(self) -> tuple[str, ...]:
        directories: tuple[str, ...] = self.get("log.dirs") or self.get("log.dir")
        return directories

    @property
    def metadata_log_dir(self) -> str:
        return self.get("metadata.log.dir") or self.log_dirs[0]

    @cached_property
    def listeners(self) -> tuple[Listener, ...]:
        """The listeners for clients and for controllers."""
        return parse_listeners("listeners", self.get("listeners"), self.security_protocols)

    @cached_property
    def broker_listeners(self) -> tuple[Listener, ...]:
        return tuple(each for each in self.listeners if each.name not in self.controller_listener_names)

    @cached_property
    def controller_listeners(self) -> tuple[Listener, ...]:
        return tuple(each for each in self.listeners if each.name in self.controller_listener_names)

    @cached_property
    def advertised_listeners(self) -> tuple[Listener, ...]:
        """The addresses that clients and other nodes connect to. The node replaces an empty host by its host name, and
        port 0 by the port that the operating system chose."""
        advertised = self.get("advertised.listeners")
        if advertised is None:
            return self.listeners
        return parse_listeners("advertised.listeners", advertised, self.security_protocols)

    @cached_property
    def controller_listener_names(self) -> tuple[str, ...]:
        return tuple(name.upper() for name in self.get("controller.listener.names"))

    @cached_property
    def inter_broker_listener_name(self) -> str:
        name: str = self.get("inter.broker.listener.name") or self.get("security.inter.broker.protocol")
        return name.upper()

    @cached_property
    def security_protocols(self) -> dict[str, str]:
        """Security protocol by listener name. Listeners of controllers need no entry if nothing is encrypted."""
        protocols = parse_protocol_map(self.get("listener.security.protocol.map"))
        if not self.is_set("listener.security.protocol.map"):
            used = {entry.partition(":")[0].upper() for entry in self.get("listeners")}
            used.update(self.controller_listener_names)
            if not used & {"SSL", "SASL_SSL", "SASL_PLAINTEXT"}:
                protocols.update(dict.fromkeys(self.controller_listener_names, "PLAINTEXT"))
        return protocols

    def layers(self) -> tuple[tuple[Source, Mapping[str, str]], ...]:
        """The texts of the layers, highest precedence first."""
        return (
            (Source.DYNAMIC_BROKER, self.dynamic_broker),
            (Source.DYNAMIC_DEFAULT_BROKER, self.dynamic_cluster),
            (Source.STATIC_BROKER, self.static),
        )

    def _texts(self) -> dict[str, str]:
        """The merged texts of all layers.

        A name in a higher layer also overrides its synonyms in a lower one: a dynamic `log.roll.ms` overrides
        `log.roll.hours` in the file.
        """
        texts = dict(self.static)
        for layer in (self.dynamic_cluster, self.dynamic_broker):
            for name in layer:
                for synonym in SYNONYMS_OF.get(name, ()):
                    texts.pop(synonym, None)
            texts.update(layer)
        return texts

    def default(self, name: str) -> Any:
        """The value if the setting is not set."""
        if name == "log.dir":
            return (self._data_directory,)
        return BROKER_DYNAMIC[name].default


def default_data_directory(environment: Mapping[str, str]) -> str:
    """The default log directory: the state directory of the user, as the XDG specification defines it."""
    home = environment.get("HOME") or os.path.expanduser("~")
    state = environment.get("XDG_STATE_HOME", "")
    # The specification says to ignore a relative path.
    return os.path.join(state if os.path.isabs(state) else os.path.join(home, ".local", "state"), "penstock")


def find_setting(name: str) -> Setting | None:
    """The declaration of a name, with or without the prefix of a listener."""
    return BROKER_DYNAMIC.get(_base_name(name))


def is_listener_setting(name: str) -> bool:
    return name.startswith(LISTENER_PREFIX)


def check_dynamic(overrides: Mapping[str, str], *, is_for_one_broker: bool) -> None:
    """Raise `BadSetting` for a setting that cannot be dynamic, or not as a default of all brokers."""
    for name, text in overrides.items():
        _require_known(name, BROKER_DYNAMIC)
        setting = find_setting(name)
        if setting is None or setting.dynamic is Dynamic.READ_ONLY:
            raise BadSetting(
                name,
                None,
                "cannot be changed dynamically; set it in server.properties and restart the broker",
            )
        if _is_key_store_setting(name):
            raise BadSetting(
                name,
                None,
                f"can only be changed dynamically for a single listener: {LISTENER_PREFIX}<listener>.{name}",
            )
        if not is_for_one_broker and _is_per_broker(name, setting):
            raise BadSetting(name, None, "can only be set for a single broker, not as a cluster-wide default")
        setting.parse(text)


# For one listener, too, these are settings of all brokers.
CLUSTER_WIDE_FOR_LISTENERS = ("max.connections", "max.connection.creation.rate", "num.network.threads")


def _is_per_broker(name: str, setting: Setting) -> bool:
    if is_listener_setting(name):
        return setting.name not in CLUSTER_WIDE_FOR_LISTENERS
    return setting.dynamic is Dynamic.PER_BROKER


def _is_key_store_setting(name: str) -> bool:
    return name == "ssl.key.password" or name.startswith(("ssl.keystore.", "ssl.truststore."))


def _applies(name: str) -> bool:
    setting = find_setting(name)
    return setting is not None and setting.applies


def _parse(name: str, text: str) -> Any:
    setting = find_setting(name)
    return text if setting is None else setting.parse(text)


def _base_name(name: str) -> str:
    """The name without the prefix of a listener and SASL mechanism."""
    if not is_listener_setting(name):
        return name
    base = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    for mechanism_setting in MECHANISM_SETTINGS:
        if base.endswith(f".{mechanism_setting}"):
            return mechanism_setting
    return base


def _require_known(name: str, table: Mapping[str, Setting]) -> None:
    if _base_name(name) in table or name.startswith(PLUGIN_PREFIXES):
        return
    if name in REMOVED:
        raise BadSetting(name, None, f"removed from Kafka: {REMOVED[name]}")
    raise unknown_setting(name, list(table), where="Penstock or a Kafka 4.3 broker")


def _with_aliases(properties: Mapping[str, str]) -> dict[str, str]:
    """`broker.id` and `node.id` are the same setting: setting one sets the other."""
    texts = dict(properties)
    for name, alias in (("node.id", "broker.id"), ("broker.id", "node.id")):
        if name in properties and alias not in properties:
            texts[alias] = properties[name]
    return texts


def _synonyms() -> dict[str, tuple[str, ...]]:
    """Names of the same setting in different units, for each of them, in order of precedence."""
    groups = [tuple(s.name for s in synonyms) for synonyms in BROKER_SYNONYMS.values() if len(synonyms) > 1]
    by_name = {name: group for group in groups for name in group}
    del by_name["log.flush.scheduler.interval.ms"]  # it is also a setting of its own
    return by_name


SYNONYMS_OF = _synonyms()
