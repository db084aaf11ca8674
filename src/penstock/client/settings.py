"""The settings of a client, by Kafka's names: from a mapping with dots, keywords with underscores, or a file.

    ProducerSettings.of("localhost:9092", {"linger.ms": 5}, {"acks": "all"})

`of` checks everything that can be checked without a broker, and raises `BadConfiguration` with the setting, its value
and what is allowed. Settings never change afterwards. `get` returns the declared type however a value was given;
objects (serializers, interceptors, partitioners) are kept as they are. Rules about several settings are in
`setting_checks`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self

from penstock.client.argument_types import shown
from penstock.client.errors import BadArgumentType, BadConfiguration
from penstock.client.option_hints import RENAMED, hint_for
from penstock.client.setting_checks import check_admin, check_connection, check_consumer, check_producer
from penstock.client.setting_values import default_of, take_value
from penstock.config.declare import Setting
from penstock.config.errors import BadSetting, unknown_setting
from penstock.config.tables.clients import ADMIN, CONSUMER, PRODUCER

TABLES: Final[Mapping[str, Mapping[str, Setting]]] = {
    "a producer": PRODUCER,
    "a consumer": CONSUMER,
    "an admin": ADMIN,
}

First = str | Iterable[str] | Mapping[str, object] | None
"""The first argument of a client: bootstrap servers, or a mapping of all settings."""


class ClientSettings(ABC):
    """The common part of producers, consumers and admins. Made by `of` or `of_file` of one of the three."""

    who: ClassVar[str]
    """The kind of client, for messages."""
    short_names: ClassVar[Mapping[str, str]] = {}
    """Short keywords, and the full ones."""

    def __init__(self, values: Mapping[str, Any], *, ignored: tuple[str, ...] = ()) -> None:
        """Internal: use `of`."""
        self._originals = dict(values)
        self._values = {name: default_of(setting) for name, setting in self.table().items()} | self._originals
        self.ignored = ignored
        """Entries of a file that are not settings of this client."""

    @classmethod
    def table(cls) -> Mapping[str, Setting]:
        return TABLES[cls.who]

    @classmethod
    def of(
        cls,
        first: First = None,
        settings: Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> Self:
        """Read and check the first argument, settings with dots and options with underscores."""
        try:
            return cls._checked(cls._collect(first, settings or {}, options or {}))
        except BadSetting as refusal:
            raise BadConfiguration(str(refusal)) from None

    @classmethod
    def of_file(
        cls,
        path: str,
        *,
        settings: Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> Self:
        """Read a properties file; `settings` override it.

        Kafka's tools share one file between all kinds of clients and plug-ins. So names that are not settings of this
        client are kept in `ignored`, where a program can warn of them.
        """
        read = read_settings(path)
        known = {name: text for name, text in read.items() if name in cls.table()}
        try:
            taken = {name: take_value(cls.table()[name], text) for name, text in known.items()}
            taken |= cls._collect(None, settings or {}, options or {})
            return cls._checked(taken, ignored=tuple(name for name in read if name not in known))
        except BadSetting as refusal:
            raise BadConfiguration(str(refusal), about=path) from None

    def get(self, name: str, /) -> Any:
        """The value of a setting, with its declared type; a list is a tuple."""
        return self._values[name]

    def is_set(self, name: str) -> bool:
        """Whether it was set, rather than left at its default."""
        return name in self._originals

    @property
    def originals(self) -> Mapping[str, Any]:
        """The settings that were set, by name: enough to create another client like this one."""
        return MappingProxyType(self._originals)

    @property
    def client_id(self) -> str:
        """The `client.id` of requests."""
        return self.get("client.id") or f"penstock-{self.who.split()[1]}"

    @property
    def cluster_name(self) -> str:
        """The bootstrap servers, as the name of the cluster in `repr`."""
        key = "bootstrap.controllers" if self.is_set("bootstrap.controllers") else "bootstrap.servers"
        return ",".join(self.get(key))

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={value}" for name, value in self._originals.items()
        )  # a secret hides its value
        return f"{type(self).__name__}({shown})"

    @classmethod
    def _collect(
        cls, first: First, settings: Mapping[str, object], options: Mapping[str, object]
    ) -> dict[str, Any]:
        """Values by name from the three sources; a setting in two of them is rejected."""
        taken: dict[str, Any] = {}
        set_as: dict[str, str] = {}

        def take(name: str, key: str, given: object) -> None:
            if given is None:  # None counts as not set, so that programs can pass on optional arguments
                return
            if name in set_as:
                raise BadSetting(key, None, f"set twice, here and as {set_as[name]}")
            set_as[name] = key
            taken[name] = take_value(cls.table()[name], given)

        if isinstance(first, Mapping):
            for key, given in first.items():
                take(cls._name_of(key, "."), key, given)
        elif first is not None:
            servers = first if isinstance(first, str) else _addresses(first)
            take("bootstrap.servers", "the first argument", servers)
        if not isinstance(settings, Mapping):
            raise BadArgumentType(
                f"settings must be a mapping of Kafka's names to values, not {shown(settings)}"
            )
        for key, given in settings.items():
            take(cls._name_of(key, "."), f'settings["{key}"]', given)
        for key, given in options.items():
            take(cls._name_of(key, "_"), key, given)
        return taken

    @classmethod
    def _name_of(cls, key: object, separator: str) -> str:
        """The declared setting, by its name with dots or underscores; `separator` is the right one here."""
        if not isinstance(key, str):
            raise BadSetting(repr(key), None, "the name of a setting is a string")
        name = cls.short_names.get(key) or key.replace("_", ".")
        if name in cls.table():
            return name
        for who, table in TABLES.items():
            if name in table:
                raise BadSetting(key, None, f"is a setting of {who}, not of {cls.who}")
        if message := hint_for(name):
            raise BadSetting(
                key, None, message.replace(".", "_") if separator == "_" and name in RENAMED else message
            )
        known = [*cls.short_names, *(each.replace(".", separator) for each in cls.table())]
        raise unknown_setting(key, known, where=cls.who)

    @classmethod
    def _checked(cls, taken: dict[str, Any], *, ignored: tuple[str, ...] = ()) -> Self:
        settings = cls(taken, ignored=ignored)
        settings._values |= check_connection(settings) | settings._check()
        return settings

    @abstractmethod
    def _check(self) -> dict[str, Any]:
        """Reject contradictions; returns the values that follow from the others."""


class ProducerSettings(ClientSettings):
    who = "a producer"
    short_names: ClassVar = {"serializer": "value.serializer"}

    @property
    def acks(self) -> int:
        """As in a produce request: -1, 0 or 1."""
        acks: str = self.get("acks")
        return -1 if acks == "all" else int(acks)

    def _check(self) -> dict[str, Any]:
        return check_producer(self)


class ConsumerSettings(ClientSettings):
    who = "a consumer"
    short_names: ClassVar = {"deserializer": "value.deserializer", "group": "group.id"}

    def _check(self) -> dict[str, Any]:
        return check_consumer(self)


class AdminSettings(ClientSettings):
    who = "an admin"

    def _check(self) -> dict[str, Any]:
        return check_admin(self)


def read_settings(path: str) -> dict[str, str]:
    """The entries of a properties file, as `--command-config` of Kafka's tools takes it."""
    from penstock.config.properties import BadProperties, decode_properties, parse_properties

    try:
        with open(path, "rb") as file:
            return parse_properties(decode_properties(file.read()))
    except OSError as error:
        raise BadConfiguration(f"the file cannot be read: {error.strerror or error}", about=path) from error
    except BadProperties as problem:
        raise BadConfiguration(str(problem), about=path) from problem


def _addresses(first: Iterable[str]) -> list[str]:
    try:
        return list(first)
    except TypeError:
        kind = type(first).__name__
        message = f"must be addresses (host:port) or a mapping of settings, not {first!r} of type {kind}"
        raise BadSetting("the first argument", None, message) from None
