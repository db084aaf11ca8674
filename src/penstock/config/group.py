"""The settings of one group: its overrides over the defaults of the broker, within the broker's bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from penstock.config.broker import BrokerSettings
from penstock.config.checks import GROUP_BOUNDS
from penstock.config.errors import BadSetting, unknown_setting
from penstock.config.tables import GROUP
from penstock.config.tables.group import BROKER_SYNONYMS


class GroupSettings:
    def __init__(self, broker: BrokerSettings, overrides: Mapping[str, str], values: dict[str, Any]) -> None:
        """Use `resolve`, which computes `values` from the other two."""
        self.broker = broker
        self.overrides = overrides
        """The settings of the group itself, as text."""
        self._values = values

    @classmethod
    def resolve(cls, broker: BrokerSettings, overrides: Mapping[str, str]) -> Self:
        """Apply the overrides to the broker's settings; raise `BadSetting` for an invalid name or value."""
        values = {name: setting.default for name, setting in GROUP.items()}
        values.update((name, broker.get(synonym)) for name, synonym in BROKER_SYNONYMS.items())
        for name, text in overrides.items():
            if name not in GROUP:
                raise unknown_setting(name, list(GROUP), where="a group")
            values[name] = GROUP[name].parse(text)
        return cls(broker, dict(overrides), values)

    def get(self, name: str, /) -> Any:
        """The value, in the declared type of the setting."""
        return self._values[name]


def validate_group_overrides(broker: BrokerSettings, overrides: Mapping[str, str]) -> GroupSettings:
    """The settings of a group with these overrides; raise `BadSetting` if they violate the broker's bounds."""
    settings = GroupSettings.resolve(broker, overrides)
    for kind, names in GROUP_BOUNDS.items():
        for name in names:
            _check_bounds(settings, f"{kind}.{name}", f"group.{kind}.min.{name}", f"group.{kind}.max.{name}")
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if settings.get(heartbeat) >= settings.get(session):
            value = settings.get(heartbeat)
            raise BadSetting(heartbeat, str(value), f"must be less than {session}={settings.get(session)}")
    standbys, most = (
        settings.get("streams.num.standby.replicas"),
        broker.get("group.streams.max.standby.replicas"),
    )
    if standbys > most:
        raise BadSetting(
            "streams.num.standby.replicas",
            str(standbys),
            f"must be at most group.streams.max.standby.replicas={most}",
        )
    return settings


def _check_bounds(settings: GroupSettings, name: str, lower: str, upper: str) -> None:
    value, least, most = settings.get(name), settings.broker.get(lower), settings.broker.get(upper)
    if not least <= value <= most:
        raise BadSetting(name, str(value), f"must be between {lower}={least} and {upper}={most}")
