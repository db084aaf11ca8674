"""Which schema a serializer writes by, and under which subject of a registry it stands.

`topic` is the rule nearly everybody has: a topic's values have one schema, and it stands under `orders-value`. With
`record` every kind of record has a subject of its own, so that a topic may hold several; `topic-record` keeps them
apart by topic as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from penstock.client.errors import BadConfiguration
from penstock.client.serializers.registry import Registered, Registry, Schema, registry_of

SubjectRule = str | Callable[[str, bool, str], str]
"""A name, or a function of the topic, whether it is for keys, and the record's full name."""

_CONFLUENT: Final = "io.confluent.kafka.serializers.subject."


class Registering:
    """How a serializer comes by the schema of a topic: it brings its own, or takes the newest that there is."""

    def __init__(
        self,
        registry: Registry | str | Sequence[str],
        *,
        subject: SubjectRule,
        auto_register: bool,
        use_latest: bool,
    ) -> None:
        self.registry = registry_of(registry)
        self._subject = _rule(subject)
        self._auto_register = auto_register
        self._use_latest = use_latest

    def schema_for(self, topic: str, schema: Schema | None, *, is_key: bool, record: str) -> Registered:
        """The schema to write by, with the id that each value begins with."""
        subject = self._subject(topic, is_key, record)
        if self._use_latest:
            return self.registry.latest(subject)
        assert schema is not None, "whoever does not take the newest has one"
        ask = self.registry.register if self._auto_register else self.registry.find
        return Registered(ask(subject, schema), schema)


def _rule(given: SubjectRule) -> Callable[[str, bool, str], str]:
    if callable(given):
        return given
    if given not in _RULES:
        known = ", ".join(name for name in _RULES if "." not in name)
        raise BadConfiguration(f"there is no rule for subjects called {given}; there are {known}")
    return _RULES[given]


def _by_topic(topic: str, is_key: bool, record: str) -> str:
    return f"{topic}-{'key' if is_key else 'value'}"


def _by_record(topic: str, is_key: bool, record: str) -> str:
    return record


def _by_topic_and_record(topic: str, is_key: bool, record: str) -> str:
    return f"{topic}-{record}"


_RULES: Final = {
    "topic": _by_topic,
    "record": _by_record,
    "topic-record": _by_topic_and_record,
    f"{_CONFLUENT}TopicNameStrategy": _by_topic,
    f"{_CONFLUENT}RecordNameStrategy": _by_record,
    f"{_CONFLUENT}TopicRecordNameStrategy": _by_topic_and_record,
}
