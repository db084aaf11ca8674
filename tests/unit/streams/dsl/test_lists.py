"""Where a list is expected, a single object or a string is rejected at once. Python would iterate over its
characters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.client.errors import BadConfiguration
from penstock.streams import App, Builder, Processor, Stream, TopologyError, Transformer, key_value_store
from penstock.testing import TopologyTest

SEEN = key_value_store("seen", key=str, value=str)


def stream() -> Stream[str, str]:
    return Builder().stream("in", key=str, value=str)


def test_one_topic_is_one_topic() -> None:
    app = Builder()
    app.stream("abc")

    assert app.topology.sources[0].topics == ("abc",)


@pytest.mark.parametrize("topics", [b"abc", 3, None])
def test_only_topics_and_lists_of_topics_are_accepted(topics: Any) -> None:
    with pytest.raises(TopologyError, match="a topic, a list of topics or a pattern"):
        Builder().stream(topics)


@pytest.mark.parametrize("stores", ["seen", b"seen", SEEN, None])
@pytest.mark.parametrize(
    "build",
    [
        lambda stores: stream().process(Processor, stores=stores),
        lambda stores: stream().process_values(Processor, stores=stores),
        lambda stores: stream().to_table().transform_values(Transformer, stores=stores),
    ],
    ids=["process", "process_values", "transform_values"],
)
def test_stores_are_a_list(build: Callable[[Any], object], stores: Any) -> None:
    with pytest.raises(TopologyError, match=r"stores must be a list: stores=\[\.\.\.\]"):
        build(stores)


@pytest.mark.parametrize("other", ["out", ["out"], None])
def test_merge_takes_streams(other: Any) -> None:
    with pytest.raises(TopologyError, match="merge takes streams as separate arguments"):
        stream().merge(other)


@pytest.mark.parametrize("settings", ["state.dir=/tmp", ["state.dir"]])
def test_settings_are_a_dict(settings: Any) -> None:
    with pytest.raises(BadConfiguration, match="settings must be a dict"):
        App("app", settings=settings)


def copying() -> TopologyTest:
    app = Builder()
    app.stream("in", key=str, value=str).to("out")
    return TopologyTest(app)


def test_send_all_does_not_send_the_characters_of_a_string() -> None:
    with copying() as test, pytest.raises(TopologyError, match="send_all takes a list"):
        test.input("in").send_all("abc")


def test_send_pairs_does_not_take_a_string_of_two_characters_for_a_pair() -> None:
    pairs: Any = ["ab"]
    with copying() as test, pytest.raises(TopologyError, match="send_pairs takes pairs"):
        test.input("in").send_pairs(pairs)


@pytest.mark.parametrize("headers", ["ab", b"ab", ["ab"], [("a", b"1", 2)]])
def test_headers_are_a_dict_or_pairs(headers: Any) -> None:
    with copying() as test, pytest.raises(TopologyError, match="headers must be a dict or a list of"):
        test.input("in").send("v", headers=headers)


@pytest.mark.parametrize("operator", ["flat_map", "flat_map_values"])
def test_flat_map_does_not_split_strings_into_characters(operator: str) -> None:
    app = Builder()
    getattr(app.stream("in", key=str, value=str), operator)(str.upper, name="upper").to("out")

    with TopologyTest(app) as test, pytest.raises(Exception, match="upper: the function must return a list"):
        test.input("in").send("abc")
