"""Under which subject of a registry a schema stands.

`topic` is the rule nearly everybody has: a topic's values have one schema, and it stands under `orders-value`. With
`record` every kind of record has a subject of its own, so that a topic may hold several; `topic-record` keeps them
apart by topic as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.client.errors import BadConfiguration

SubjectRule = str | Callable[[str, bool, str], str]
"""A name, or a function of the topic, whether it is for keys, and the record's full name."""

_CONFLUENT: Final = "io.confluent.kafka.serializers.subject."


def subject_rule(given: SubjectRule) -> Callable[[str, bool, str], str]:
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
