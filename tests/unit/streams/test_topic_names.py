"""Names of topics are looked at when a topology is built, by the rule that brokers have."""

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
def test_the_rule_is_that_of_brokers(name: str) -> None:
    assert is_topic_name(name) == (fault_of_topic_name(name) is None)


@pytest.mark.parametrize("topic", BAD)
@pytest.mark.parametrize("place", PLACES)
def test_a_name_that_no_topic_can_have_is_refused_where_it_stands(place: str, topic: str) -> None:
    with pytest.raises(TopologyError, match=r"is no name of a topic: .* 1 to 249 ASCII letters") as refused:
        PLACES[place](Builder(), topic)

    assert len(str(refused.value)) < 250


def test_the_longest_name_is_taken() -> None:
    app = Builder()
    app.stream("x" * LENGTH_MAX).to("y" * LENGTH_MAX)


@pytest.mark.parametrize("name", ["bad name!", "", "..", "x" * 201])
def test_names_that_topics_are_made_of_are_refused_where_they_stand(name: str) -> None:
    with pytest.raises(TopologyError, match="is no name for a store: 1 to 200 ASCII letters"):
        key_value_store(name, key=str, value=str)
    with pytest.raises(TopologyError, match="is no name for count: 1 to 200 ASCII letters"):
        Builder().stream("in", key=str, value=str).group_by_key().count(name=name)
    with pytest.raises(BadConfiguration, match=re.escape("application.id=")):
        App(name)


def test_a_topic_for_dead_letters_has_a_name() -> None:
    with pytest.raises(BadConfiguration, match="dead letters!: is no name of a topic"):
        App("a", settings={"errors.dead.letter.queue.topic.name": "dead letters!"})


class Nothing(Processor[str, str, str, str]):
    pass


def test_names_that_are_too_long_together_are_refused_when_the_table_is_made() -> None:
    app = App("a" * 150)
    stream = app.stream("in", key=str, value=str)

    with pytest.raises(
        TopologyError, match=r"the table b+ would have .* 251 characters where 249 are allowed"
    ):
        stream.group_by_key().count(name="b" * 90)
    with pytest.raises(TopologyError, match=r"the store c+ would have .* 251 characters"):
        stream.process(Nothing, stores=[key_value_store("c" * 90, key=str, value=str)])
    app.table("d" * 200, key=str, value=str)  # is its own changelog
    stream.filter(bool, name="e" * 200)  # has no topic


def test_a_topic_between_stages_with_too_long_a_name_is_refused_before_anything_is_made() -> None:
    app = App("a" * 150)
    app.stream("in", key=str, value=str).repartition(name="b" * 90).to("out")

    with pytest.raises(TopologyError, match="253 characters where 249 are allowed"):
        own_topics(app.topology, cut(app.topology), AppSettings.of("a" * 150))


def test_changelogs_of_stores_that_expire_rows_delete_what_is_old() -> None:
    """They were compacted only, and kept every expired window."""

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
