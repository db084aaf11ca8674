"""The settings of an application, by Kafka's names.

    AppSettings.of("word-count", "localhost:9092", {"commit.interval.ms": 500}, {"replication_factor": 3})

The streams settings are declared in `config.tables.streams`. Other client settings are passed to the clients inside
the application: to all of them by the plain name, or to one kind with the prefix `consumer.`, `producer.` or
`admin.`. The prefix `topic.` sets a topic setting for internal topics. Unknown names are rejected; the error suggests
the closest match. Settings are immutable.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from penstock.client.errors import BadConfiguration
from penstock.client.setting_values import default_of, take_value
from penstock.config.errors import BadSetting, unknown_setting
from penstock.config.tables.clients import ADMIN, CONSUMER, PRODUCER
from penstock.config.tables.streams import EXACTLY_ONCE, STREAMS
from penstock.config.tables.topic import SETTINGS as TOPIC_SETTINGS
from penstock.streams.topic_names import ALLOWED, PART_ALLOWED, is_part, is_topic_name

TOPIC: Final = {setting.name for setting in TOPIC_SETTINGS}
CLIENTS: Final = {"consumer": CONSUMER, "producer": PRODUCER, "admin": ADMIN}
_PREFIXES: Final = {
    "main.consumer.": "consumer",
    "restore.consumer.": "consumer",
    "global.consumer.": "consumer",
    **{f"{kind}.": kind for kind in CLIENTS},
}
_JAVA_HANDLERS: Final = {
    "org.apache.kafka.streams.errors.LogAndFailExceptionHandler": "fail",
    "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler": "continue",
    "org.apache.kafka.streams.errors.LogAndFailProcessingExceptionHandler": "fail",
    "org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler": "continue",
}


class AppSettings:
    """All settings of an application; created by `of`."""

    def __init__(
        self, values: Mapping[str, Any], clients: Mapping[str, Any], topics: Mapping[str, str]
    ) -> None:
        self._originals = dict(values)
        self.clients = dict(clients)
        """Settings passed to the clients, by name, without `bootstrap.servers` and `client.id`."""
        self.topics = dict(topics)
        """Settings of internal topics."""

    @classmethod
    def of(
        cls,
        application_id: str | None = None,
        brokers: str | None = None,
        settings: Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> Self:
        """Parse settings with dots and options with underscores. Raises `BadConfiguration` for invalid ones."""
        if not isinstance(settings, Mapping | None):
            raise BadConfiguration(f"settings must be a dict of names and values, not {settings!r}")
        given: dict[str, tuple[str, object]] = {}

        def take(name: str, key: str, value: object) -> None:
            if value is None:
                return
            if name in given:
                raise BadSetting(key, None, f"given twice, here and as {given[name][0]}")
            given[name] = key, value

        try:
            take("application.id", "the name of the app", application_id)
            take("bootstrap.servers", "brokers", brokers)
            for key, value in (settings or {}).items():
                take(key, f'settings["{key}"]', value)
            for key, value in (options or {}).items():
                take(key.replace("_", "."), key, value)
            return cls._taken(given)
        except BadSetting as refusal:
            raise BadConfiguration(str(refusal)) from None

    @classmethod
    def _taken(cls, given: Mapping[str, tuple[str, object]]) -> Self:
        own: dict[str, Any] = {}
        clients: dict[str, Any] = {}
        topics: dict[str, str] = {}
        for name, (_, value) in given.items():
            if name in STREAMS:
                own[name] = _handler(name, take_value(STREAMS[name], value))
            elif name.startswith("topic.") and name.removeprefix("topic.") in TOPIC:
                topics[name.removeprefix("topic.")] = str(value)
            else:
                plain, table = _of_client(name)
                if table is None:
                    known = [*STREAMS, *CONSUMER, *PRODUCER]
                    raise unknown_setting(name, known, where="a streams application")
                clients[plain] = take_value(table[plain], value)
        if own.get("application.id") is None:
            raise BadSetting("application.id", None, "required: every application needs a name")
        _check_name(own["application.id"])
        dead_letters = "errors.dead.letter.queue.topic.name"
        _check_topic(dead_letters, own.get(dead_letters))
        return cls(own, clients, topics)

    def get(self, name: str, /) -> Any:
        """The value of a declared setting, of its declared type."""
        return self._originals[name] if name in self._originals else default_of(STREAMS[name])

    @property
    def application_id(self) -> str:
        name: str = self.get("application.id")
        return name

    @property
    def client(self) -> dict[str, Any]:
        """The settings of every client inside the application."""
        name = self.get("client.id") or self.application_id
        servers = ",".join(self.get("bootstrap.servers"))
        return {"bootstrap.servers": servers, "client.id": name, **self.clients}

    @property
    def is_exactly_once(self) -> bool:
        return self.get("processing.guarantee") in EXACTLY_ONCE

    @property
    def deserialization_handler(self) -> str:
        """`fail` or `continue`."""
        older = self.get("default.deserialization.exception.handler")
        newer = self.get("deserialization.exception.handler")
        return str(older if older is not None and newer == "fail" else newer)

    @property
    def caches(self) -> bool:
        """Whether only the last update of a key in a batch is forwarded."""
        older, newer = (
            self.get(name) for name in ("cache.max.bytes.buffering", "statestore.cache.max.bytes")
        )
        is_older_meant = "statestore.cache.max.bytes" not in self._originals
        return bool(older if is_older_meant else newer)

    @property
    def state_folder(self) -> str:
        """The folder of this application's checkpoints: a path, or a URL that Spark can read."""
        folder = self.get("state.dir") or str(default_state_folder(os.environ))
        return f"{folder.rstrip('/')}/{self.application_id}"

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in {**self._originals, **self.clients}.items())
        return f"{type(self).__name__}({shown})"


def default_state_folder(environment: Mapping[str, str]) -> Path:
    state = environment.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return base / "penstock" / "streams"


def _of_client(name: str) -> tuple[str, Mapping[str, Any] | None]:
    """The client's name of a setting, and the table that declares it."""
    for prefix, kind in _PREFIXES.items():
        if name.startswith(prefix) and (plain := name.removeprefix(prefix)) in CLIENTS[kind]:
            return plain, CLIENTS[kind]
    for table in CLIENTS.values():
        if name in table:
            return name, table
    return name, None


def _handler(name: str, value: Any) -> Any:
    """Handlers are `fail` or `continue`; the class names of Kafka's handlers are accepted too."""
    if not name.endswith("exception.handler") or not isinstance(value, str):
        return value
    word = _JAVA_HANDLERS.get(value, value)
    if word not in ("fail", "continue"):
        raise BadSetting(name, value, "must be fail or continue")
    return word


def _check_name(name: str) -> None:
    """The name is a prefix of topic names and a folder in `state.dir`."""
    if not is_part(name):
        raise BadSetting("application.id", name, f"is a prefix of topic names, so it must be {PART_ALLOWED}")


def _check_topic(name: str, topic: Any) -> None:
    if topic is not None and not is_topic_name(topic):
        raise BadSetting(name, topic, f"is not a valid topic name: {ALLOWED}")
