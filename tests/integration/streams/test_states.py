"""Querying a table without state: the error says why, and what to do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock import errors
from penstock.client.cluster import TopicPartition
from penstock.client.errors import IllegalState
from penstock.streams import App
from penstock.testing import Broker

pytestmark = pytest.mark.penstock_only("uses penstock.testing")

CHANGELOG = "word-count-counts-changelog"


@pytest.fixture
def running() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def word_count(broker: Broker) -> App:
    app = App("word-count", broker.bootstrap_servers)
    app.stream("lines", value=str).flat_map(str.split).group_by_value().count(name="counts").to("word-counts")
    app.table("people", key=str, value=str)
    return app


def has_run(broker: Broker) -> None:
    """What the first batch of an application leaves in a cluster, in addition to its results."""
    admin = broker.admin()
    admin.create_topic("lines", 1)
    admin.alter_group_offsets("word-count", {TopicPartition("lines", 0): 1})


def test_a_table_of_an_app_that_has_not_run_is_reported(running: Broker) -> None:
    counts = word_count(running).table("counts")

    with pytest.raises(IllegalState, match=r"word-count has not run yet.*app\.run\(\)"):
        counts.get("alice")
    with pytest.raises(IllegalState, match="word-count has not run yet"):
        list(counts.items())


def test_a_table_with_a_deleted_changelog_is_reported(running: Broker) -> None:
    has_run(running)
    running.admin().create_topic(CHANGELOG, 1)
    counts = word_count(running).table("counts")
    with running.producer() as producer:
        producer.send(CHANGELOG, key=b"alice", value=(3).to_bytes(8, "big"))
    assert counts.get("alice") == 3

    running.admin().delete_topic(CHANGELOG)

    with pytest.raises(IllegalState, match=rf"word-count has run, but its topic {CHANGELOG} was deleted"):
        counts.get("alice")


def test_a_table_of_an_unknown_topic_names_the_topic(running: Broker) -> None:
    with pytest.raises(errors.UnknownTopicOrPartition, match="people"):
        word_count(running).table("people").get("alice")


def test_a_recreated_changelog_is_read_from_the_start(running: Broker) -> None:
    admin = running.admin()
    counts = word_count(running).table("counts")
    found = []
    for keys in ((b"alice", b"bob"), (b"carol",)):
        admin.create_topic(CHANGELOG, 1)
        with running.producer() as producer:
            for key in keys:
                producer.send(CHANGELOG, key=key, value=(1).to_bytes(8, "big"))
        found.append(dict(counts.items()))
        admin.delete_topic(CHANGELOG)

    assert found == [{"alice": 1, "bob": 1}, {"carol": 1}]
