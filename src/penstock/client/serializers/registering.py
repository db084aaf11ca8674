"""The schema of a serializer, and its subject in the registry.

`topic` is the usual rule: a topic's values have one schema, with the subject `orders-value`. With `record` every record
type has its own subject, so that a topic may have several; `topic-record` does so for each topic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from penstock.client.errors import BadConfiguration
from penstock.client.serializers.registry import Registered, Registry, Schema, registry_of

SubjectRule = str | Callable[[str, bool, str], str]
"""A rule's name, or a function of the topic, whether it is a key, and the record's full name."""

_CONFLUENT: Final = "io.confluent.kafka.serializers.subject."


class Registering:
    """Finds the schema for a topic: the serializer's own, or the subject's latest one."""

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
        """The schema to write with, and its id."""
        subject = self._subject(topic, is_key, record)
        if self._use_latest:
            return self.registry.latest(subject)
        assert schema is not None, "without use_latest there is a schema"
        ask = self.registry.register if self._auto_register else self.registry.find
        return Registered(ask(subject, schema), schema)


def _rule(given: SubjectRule) -> Callable[[str, bool, str], str]:
    if callable(given):
        return given
    if given not in _RULES:
        known = ", ".join(name for name in _RULES if "." not in name)
        raise BadConfiguration(f"unknown subject rule {given}; known are {known}")
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
