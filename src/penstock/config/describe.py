"""The entries of a DescribeConfigs response.

An entry contains the value of a setting, its source, and its synonyms in order of precedence. The content and order
are exactly those of Kafka, because its tools print them. A password is never shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from penstock.config.broker import SYNONYMS_OF, BrokerSettings, Source, find_setting
from penstock.config.declare import Dynamic, Setting
from penstock.config.group import GroupSettings
from penstock.config.tables import BROKER, BROKER_DYNAMIC, CLIENT_METRICS, GROUP, TOPIC
from penstock.config.tables import group as group_table
from penstock.config.tables import topic as topic_table
from penstock.config.topic import TopicSettings

UNKNOWN_TYPE = 0


@dataclass(frozen=True, slots=True)
class Synonym:
    """One of the places that can set the value, the strongest first."""

    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A setting of a resource, as DescribeConfigs describes it."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    is_sensitive: bool
    type: int
    synonyms: tuple[Synonym, ...]
    documentation: str | None

    @property
    def is_default(self) -> bool:
        """Version 0 of the protocol has this instead of the source."""
        return self.source is Source.DEFAULT


def describe_broker(settings: BrokerSettings, names: Collection[str] | None = None) -> list[Entry]:
    """All settings of this broker, or only `names`."""
    set_names = {name for _, texts in settings.layers() for name in texts}
    shown = {name for name, setting in BROKER.items() if not setting.is_internal} | set_names
    return [_describe_broker_setting(settings, name) for name in _pick(shown, names)]


def describe_cluster(settings: BrokerSettings, names: Collection[str] | None = None) -> list[Entry]:
    """The dynamic defaults of all brokers: the broker resource with an empty name."""
    entries = []
    for name in _pick(settings.dynamic_cluster, names):
        setting = find_setting(name)
        text = None if _is_sensitive(setting) else settings.dynamic_cluster[name]
        synonyms = (Synonym(name, text, Source.DYNAMIC_DEFAULT_BROKER),)
        entries.append(_entry(name, setting, text, synonyms, read_only=_is_read_only(name)))
    return entries


def describe_topic(settings: TopicSettings, names: Collection[str] | None = None) -> list[Entry]:
    """All settings of a topic, or only `names`."""
    shown = {name for name, setting in TOPIC.items() if not setting.is_internal or name in settings.overrides}
    entries = []
    for name in _pick(shown, names):
        text = TOPIC[name].show(settings.get(name))
        synonyms: tuple[Synonym, ...] = ()
        if name in settings.overrides:
            synonyms += (Synonym(name, text, Source.TOPIC),)
        if name in topic_table.BROKER_SYNONYMS:
            # Kafka uses only the first synonym: retention that the file sets in hours is shown as a default.
            synonyms += _broker_synonyms(settings.broker, topic_table.BROKER_SYNONYMS[name][0].name)
        entries.append(_entry(name, TOPIC[name], text, synonyms))
    return entries


def describe_group(settings: GroupSettings, names: Collection[str] | None = None) -> list[Entry]:
    """All settings of a group, or only `names`."""
    entries = []
    for name in _pick(GROUP, names):
        text = GROUP[name].show(settings.get(name))
        synonyms: tuple[Synonym, ...] = ()
        if name in settings.overrides:
            synonyms += (Synonym(name, text, Source.GROUP),)
        if name in group_table.BROKER_SYNONYMS:
            synonyms += _broker_synonyms(settings.broker, group_table.BROKER_SYNONYMS[name])
        else:
            synonyms += (Synonym(name, GROUP[name].show(GROUP[name].default), Source.DEFAULT),)
        entries.append(_entry(name, GROUP[name], text, synonyms))
    return entries


def describe_client_metrics(
    overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[Entry]:
    """All settings of a client metrics subscription, or only `names`."""
    entries = []
    for name in _pick(CLIENT_METRICS, names):
        setting = CLIENT_METRICS[name]
        is_set = name in overrides
        text = setting.show(setting.parse(overrides[name]) if is_set else setting.default)
        synonyms = (Synonym(name, text, Source.CLIENT_METRICS),) if is_set else ()
        entries.append(_entry(name, setting, text, synonyms))
    return entries


def _describe_broker_setting(settings: BrokerSettings, name: str) -> Entry:
    setting = find_setting(name)
    text: str | None = None
    if setting is not None and not setting.is_sensitive:
        text = setting.show(settings.get(name))
    return _entry(name, setting, text, _broker_synonyms(settings, name), read_only=_is_read_only(name))


def _broker_synonyms(settings: BrokerSettings, name: str) -> tuple[Synonym, ...]:
    """The values of a name and its synonyms, starting at the first with this very name."""
    synonyms = list(_all_broker_synonyms(settings, name))
    while synonyms and synonyms[0].name != name:
        synonyms.pop(0)
    return tuple(synonyms)


def _all_broker_synonyms(settings: BrokerSettings, name: str) -> Iterator[Synonym]:
    chain = SYNONYMS_OF.get(name, (name,))
    setting = find_setting(name)
    # A setting of one listener: the setting of all listeners is its synonym.
    if setting is not None and setting.name != name:
        chain = (name, setting.name)
    for source, texts in settings.layers():
        for each in chain:
            if each in texts:
                yield Synonym(each, None if _is_sensitive(setting) else texts[each], source)
    for each in chain:
        if each in BROKER and (default := settings.default(each)) is not None:
            yield Synonym(each, BROKER[each].show(default), Source.DEFAULT)


def _entry(
    name: str,
    setting: Setting | None,
    text: str | None,
    synonyms: tuple[Synonym, ...],
    *,
    read_only: bool = False,
) -> Entry:
    is_declared = setting is not None and setting.name == name
    return Entry(
        name=name,
        value=text,
        source=synonyms[0].source if synonyms else Source.DEFAULT,
        read_only=read_only,
        is_sensitive=_is_sensitive(setting),
        type=UNKNOWN_TYPE if setting is None else int(setting.type),
        synonyms=synonyms,
        documentation=setting.documentation if setting is not None and is_declared else None,
    )


def _is_sensitive(setting: Setting | None) -> bool:
    """An unknown setting may be a secret."""
    return setting is None or setting.is_sensitive


def _is_read_only(name: str) -> bool:
    return name not in BROKER_DYNAMIC or BROKER_DYNAMIC[name].dynamic is Dynamic.READ_ONLY


def _pick(shown: Collection[str], names: Collection[str] | None) -> list[str]:
    """An empty list of names means all, like None."""
    return sorted(shown if not names else set(shown).intersection(names))
