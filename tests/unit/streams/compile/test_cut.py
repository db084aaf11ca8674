"""How topologies are divided into places and stages."""

from __future__ import annotations

from typing import Any

from penstock.streams import Builder
from penstock.streams.compile.cut import Cut, cut, feeds


def numbers(app: Builder, topic: str = "numbers") -> Any:
    return app.stream(topic, key=str, value=int)


def cut_of(app: Builder) -> Cut:
    return cut(app.topology)


def test_a_stateless_topology_is_one_stage_without_domains() -> None:
    app = Builder()
    numbers(app).filter(bool).map_values(str, value=str).to("out")

    (stage,) = cut_of(app).stages

    assert not stage.is_stateful
    assert [source.topics for source in stage.sources] == [("numbers",)]


def test_consecutive_operators_that_keep_the_key_share_a_domain() -> None:
    app = Builder()
    numbers(app).group_by_key().count(name="counts").filter(bool).to_stream().to("out")

    parts = cut_of(app)

    assert [len(stage.domains) for stage in parts.stages] == [1]
    assert parts.crossings == ()


def test_a_key_that_changes_before_state_needs_no_topic() -> None:
    app = Builder()
    numbers(app).select_key(str, key=str).group_by_key().count(name="counts").to("out")

    assert cut_of(app).crossings == ()


def test_a_key_that_changes_after_state_needs_an_internal_topic() -> None:
    app = Builder()
    first = numbers(app).group_by_key().count(name="first").to_stream()
    first.group_by(str, key=str).count(name="second").to("out")

    parts = cut_of(app)

    assert [crossing.topic for crossing in parts.crossings] == ["second-repartition"]
    one, two = parts.stages
    assert two.internal_topics == ["second-repartition"]
    assert feeds(one, two, "app")
    assert not feeds(two, one, "app")


def test_both_sides_of_a_join_end_in_one_domain() -> None:
    app = Builder()
    numbers(app).join(app.table("rows", key=str, value=int), lambda a, b: a + b, value=int).to("out")

    (stage,) = cut_of(app).stages

    assert len(stage.domains) == 1
    assert sorted(source.topics for source in stage.sources) == [("numbers",), ("rows",)]


def test_domains_of_joined_tables_are_merged() -> None:
    app = Builder()
    left = numbers(app).group_by_key().count(name="left")
    right = numbers(app, "more").group_by_key().count(name="right")
    left.join(right, lambda a, b: a + b, value=int).to("out")

    (stage,) = cut_of(app).stages

    assert len(stage.domains) == 1
    assert {entry.domain for entry in stage.entries} == set(stage.domains)


def test_children_of_a_merge_run_in_each_place_of_its_parents() -> None:
    app = Builder()
    plain = numbers(app)
    counted = numbers(app, "more").group_by_key().count(name="counts").to_stream()
    plain.merge(counted).map_values(str, value=str).to("out")

    one, two = cut_of(app).stages

    assert not one.is_stateful
    assert two.is_stateful
    assert any(node.name == "sink-1" for place in one.reading for node in place.nodes)
    assert any(node.name == "sink-1" for place in two.domains for node in place.nodes)


def test_a_foreign_key_join_uses_topics_in_both_directions() -> None:
    app = Builder()
    left, right = app.table("left", key=str, value=str), app.table("right", key=str, value=str)
    left.join(right, lambda a, b: a + b, on=lambda value: value, value=str, name="joined").to("out")

    parts = cut_of(app)

    assert sorted(crossing.kind for crossing in parts.crossings) == ["answer", "subscribe"]


def test_two_sources_that_share_no_state_are_two_stages() -> None:
    app = Builder()
    numbers(app).group_by_key().count(name="one").to("out")
    numbers(app, "more").group_by_key().count(name="two").to("out")

    assert len(cut_of(app).stages) == 2
