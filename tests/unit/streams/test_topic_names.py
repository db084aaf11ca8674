"""Topic names are checked when a topology is built, by the brokers' rule."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.errors import BadConfiguration
from penstock.metadata.names import fault_of_topic_name
from penstock.streams import (
    App,
    Builder,
    Processor,
    Record,
    TopologyError,
    key_value_store,
    session_store,
    window_store,
)
from penstock.streams.compile.cut import cut
from penstock.streams.compile.topics import own_topics
from penstock.streams.settings import AppSettings
from penstock.streams.topic_names import LENGTH_MAX, is_topic_name

BAD = ["bad name!", "", ".", "..", "größe", "a/b", "line\n", "x" * (LENGTH_MAX + 1)]

PLACES: dict[str, Callable[[Builder, str], object]] = {
    "a stream": lambda app, topic: app.stream(topic),
    "one of several": lambda app, topic: app.stream(["good", topic]),
    "a table": lambda app, topic: app.table(topic, key=str, value=str),
    "a table with a name": lambda app, topic: app.table(topic, key=str, value=str, name="fine"),
    "a global table": lambda app, topic: app.global_table(topic, key=str, value=str),
    "a sink": lambda app, topic: app.stream("in", key=str, value=str).to(topic),
    "a way through": lambda app, topic: app.stream("in", key=str, value=str).through(topic),
    "a table's sink": lambda app, topic: app.table("in", key=str, value=str).to(topic),
}


@given(st.text(max_size=LENGTH_MAX + 2) | st.text("abcXYZ019._-", max_size=LENGTH_MAX + 2))
def test_the_rule_is_the_brokers_rule(name: str) -> None:
    assert is_topic_name(name) == (fault_of_topic_name(name) is None)


@pytest.mark.parametrize("topic", BAD)
@pytest.mark.parametrize("place", PLACES)
def test_an_invalid_topic_name_is_rejected_where_it_is_given(place: str, topic: str) -> None:
    with pytest.raises(
        TopologyError, match=r"is not a valid topic name: .* 1 to 249 ASCII letters"
    ) as refused:
        PLACES[place](Builder(), topic)

    assert len(str(refused.value)) < 250


def test_the_longest_name_is_accepted() -> None:
    app = Builder()
    app.stream("x" * LENGTH_MAX).to("y" * LENGTH_MAX)


@pytest.mark.parametrize("name", ["bad name!", "", "..", "x" * 201])
def test_invalid_parts_of_topic_names_are_rejected_where_they_are_given(name: str) -> None:
    with pytest.raises(TopologyError, match="is not a valid store name: 1 to 200 ASCII letters"):
        key_value_store(name, key=str, value=str)
    with pytest.raises(TopologyError, match="is not a valid name for count: 1 to 200 ASCII letters"):
        Builder().stream("in", key=str, value=str).group_by_key().count(name=name)
    with pytest.raises(BadConfiguration, match=re.escape("application.id=")):
        App(name)


def test_the_dead_letter_topic_needs_a_valid_name() -> None:
    with pytest.raises(BadConfiguration, match="dead letters!: is not a valid topic name"):
        App("a", settings={"errors.dead.letter.queue.topic.name": "dead letters!"})


class Nothing(Processor[str, str, str, str]):
    pass


def test_a_generated_topic_name_that_is_too_long_is_rejected_with_its_table() -> None:
    app = App("a" * 150)
    stream = app.stream("in", key=str, value=str)

    with pytest.raises(TopologyError, match=r"of the table b+ has 251 characters; at most 249"):
        stream.group_by_key().count(name="b" * 90)
    with pytest.raises(TopologyError, match=r"of the store c+ has 251 characters"):
        stream.process(Nothing, stores=[key_value_store("c" * 90, key=str, value=str)])
    app.table("d" * 200, key=str, value=str)  # is its own changelog
    stream.filter(bool, name="e" * 200)  # has no topic


def test_an_internal_topic_name_that_is_too_long_is_rejected_before_anything_is_created() -> None:
    app = App("a" * 150)
    app.stream("in", key=str, value=str).repartition(name="b" * 90).to("out")

    with pytest.raises(TopologyError, match="253 characters; at most 249"):
        own_topics(app.topology, cut(app.topology), AppSettings.of("a" * 150))


def test_changelogs_of_windowed_stores_expire_old_rows() -> None:
    """They were only compacted, and kept every expired window."""

    class Nothing(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            pass

    app = App("app")
    stores = [
        window_store("windows", key=str, value=str, window=1, retention=60),
        session_store("sessions", key=str, value=str, retention=30),
        key_value_store("values", key=str, value=str),
    ]
    app.stream("in", key=str, value=str).process(Nothing, stores=stores)
    settings = AppSettings.of("app", settings={"windowstore.changelog.additional.retention.ms": 1000})

    topics = {topic.name: topic.config for topic in own_topics(app.topology, cut(app.topology), settings)}

    assert topics == {
        "app-windows-changelog": {"cleanup.policy": "compact,delete", "retention.ms": "61000"},
        "app-sessions-changelog": {"cleanup.policy": "compact,delete", "retention.ms": "31000"},
        "app-values-changelog": {"cleanup.policy": "compact"},
    }
