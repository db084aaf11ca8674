"""The settings of one topic: its overrides over the defaults of the broker.

`TopicSettings` is immutable. When the overrides or the broker's settings change, it is resolved again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from penstock.config.broker import BrokerSettings, Source
from penstock.config.checks import check_compaction_lag, check_local_retention
from penstock.config.errors import BadSetting, unknown_setting
from penstock.config.tables import BROKER, TOPIC
from penstock.config.tables.topic import BROKER_SYNONYMS


class TopicSettings:
    def __init__(self, broker: BrokerSettings, overrides: Mapping[str, str], values: dict[str, Any]) -> None:
        """Use `resolve`, which computes `values` from the other two."""
        self.broker = broker
        self.overrides = overrides
        """The settings of the topic itself, as text."""
        self._values = values

    @classmethod
    def resolve(cls, broker: BrokerSettings, overrides: Mapping[str, str]) -> Self:
        """Apply the overrides to the broker's settings; raise `BadSetting` for an invalid name or value.

        Each value is checked alone. Combinations are checked before a change is recorded (`validate_topic_overrides`):
        recorded overrides must load again even if the broker's settings have changed.
        """
        values = broker_defaults(broker)
        for name, text in overrides.items():
            values[name] = _parse(name, text)
        return cls(broker, dict(overrides), values)

    def get(self, name: str, /) -> Any:
        """The value, in the declared type of the setting. A list is a tuple."""
        return self._values[name]

    def source(self, name: str) -> Source:
        """The layer that the value comes from."""
        if name in self.overrides:
            return Source.TOPIC
        synonyms = BROKER_SYNONYMS.get(name, ())
        for source, texts in self.broker.layers():
            if any(synonym.name in texts for synonym in synonyms):
                return source
        return Source.DEFAULT


def broker_defaults(broker: BrokerSettings) -> dict[str, Any]:
    """The values of all topic settings for a topic without overrides."""
    values = {name: setting.default for name, setting in TOPIC.items()}
    for name, synonyms in BROKER_SYNONYMS.items():
        for synonym in synonyms:
            value = broker.get(synonym.name)
            if value is not None:
                values[name] = value if synonym.factor == 1 else value * synonym.factor
                break
    if values["retention.ms"] < 0:  # log.retention.minutes and .hours may be -1, too
        values["retention.ms"] = -1
    return values


def validate_topic_overrides(
    broker: BrokerSettings, overrides: Mapping[str, str], *, previous: Mapping[str, str] | None = None
) -> TopicSettings:
    """The settings of a topic with these overrides; raise `BadSetting` if the combination is not allowed.

    `previous` are the current overrides. They matter where a transition is forbidden, not a state.
    """
    settings = TopicSettings.resolve(broker, overrides)
    values = {name: settings.get(name) for name in TOPIC}
    check_compaction_lag(values)
    if values["remote.storage.enable"]:
        _check_remote_storage(broker, values)
    else:
        _check_remote_storage_was_off(values, previous or {})
    return settings


def _parse(name: str, text: str) -> Any:
    setting = TOPIC.get(name)
    if setting is None:
        error = unknown_setting(name, list(TOPIC), where="a topic")
        counterpart = [
            topic for topic, synonyms in BROKER_SYNONYMS.items() if name in {s.name for s in synonyms}
        ]
        if name in BROKER and counterpart:
            error = BadSetting(name, None, f"this is a broker setting; for a topic, use {counterpart[0]}")
        raise error
    return setting.parse(text)


def _check_remote_storage(broker: BrokerSettings, values: Mapping[str, Any]) -> None:
    key = "remote.storage.enable"
    if not broker.get("remote.log.storage.system.enable"):
        raise BadSetting(key, "true", "needs a broker with remote.log.storage.system.enable=true")
    if "compact" in values["cleanup.policy"]:
        raise BadSetting(key, "true", "needs a cleanup.policy without compact")
    check_local_retention(values)
    if values["remote.log.copy.disable"]:
        for unit in ("bytes", "ms"):
            local, whole = values[f"local.retention.{unit}"], values[f"retention.{unit}"]
            if local not in (-2, whole):
                raise BadSetting(
                    f"local.retention.{unit}",
                    str(local),
                    f"must be -2 or retention.{unit}={whole} if remote.log.copy.disable=true",
                )


def _check_remote_storage_was_off(values: Mapping[str, Any], previous: Mapping[str, str]) -> None:
    was_on = previous.get("remote.storage.enable", "false").strip().lower() == "true"
    if was_on and not values["remote.log.delete.on.disable"]:
        raise BadSetting(
            "remote.storage.enable",
            "false",
            "needs remote.log.delete.on.disable=true, because the data in the remote store is deleted; to keep it and "
            "stop copying, set remote.log.copy.disable=true instead",
        )
