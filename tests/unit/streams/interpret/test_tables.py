"""The content of tables, compared with dicts that do not use changes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.errors import IllegalState
from penstock.streams import (
    Builder,
    Context,
    KeyValueState,
    Record,
    Stream,
    Table,
    TopologyError,
    Transformer,
    Windowed,
    key_value_store,
    session,
    tumbling,
    until_time_limit,
    until_window_closes,
)
from penstock.testing import TopologyTest

Write = tuple[str, str, "str | None"]
"""Topic, key, value."""

values = st.none() | st.sampled_from(["a", "ab", "b", "ba", "x"])
writes = st.lists(st.tuples(st.sampled_from(["left", "right"]), st.sampled_from("abc"), values), max_size=30)


def table(app: Builder, topic: str) -> Table[str, str]:
    return app.table(topic, key=str, value=str)


def ran(app: Builder, found: list[Write]) -> TopologyTest:
    test = TopologyTest(app)
    for time_ms, (topic, key, value) in enumerate(found):
        test.input(topic).send(value, key=key, timestamp_ms=time_ms)
    return test


def last(found: list[Write], topic: str) -> dict[str, str]:
    rows: dict[str, str] = {}
    for written, key, value in found:
        if written == topic:
            rows.pop(key, None)
            if value is not None:
                rows[key] = value
    return rows


@settings(max_examples=60, deadline=None)
@given(writes)
def test_a_table_is_the_last_value_of_each_key(found: list[Write]) -> None:
    app = Builder()
    table(app, "left").to("out")
    table(app, "right").filter(lambda value: "a" in value, name="some").map_values(len).to("lengths")

    test = ran(app, found)

    assert test.table("left").to_dict() == last(found, "left") == test.output("out").to_dict()
    some = {key: value for key, value in last(found, "right").items() if "a" in value}
    assert test.table("some").to_dict() == some
    assert test.output("lengths").to_dict() == {key: len(value) for key, value in some.items()}


@settings(max_examples=60, deadline=None)
@given(writes)
def test_joined_tables_have_the_rows_of_joined_dicts(found: list[Write]) -> None:
    app = Builder()
    left, right = table(app, "left"), table(app, "right")

    def shown(one: str | None, two: str | None) -> str:
        return f"{one} {two}"

    left.join(right, shown, name="inner").to("inner-out")
    left.left_join(right, shown, name="left-rows").to("left-out")
    left.outer_join(right, shown, name="outer").to("outer-out")

    test = ran(app, found)

    lefts, rights = last(found, "left"), last(found, "right")

    def rows(keys: set[str]) -> dict[str, str]:
        return {key: shown(lefts.get(key), rights.get(key)) for key in keys}

    for name, keys in (
        ("inner", lefts.keys() & rights.keys()),
        ("left-rows", set(lefts)),
        ("outer", lefts.keys() | rights.keys()),
    ):
        assert test.table(name).to_dict() == rows(set(keys))
        assert test.output(f"{name.removesuffix('-rows')}-out").to_dict() == rows(set(keys))


@settings(max_examples=60, deadline=None)
@given(writes)
def test_a_foreign_key_join_follows_both_tables(found: list[Write]) -> None:
    app = Builder()
    left, right = table(app, "left"), table(app, "right")

    def reference(value: str) -> str | None:
        return None if value == "x" else value[0]

    left.join(right, lambda one, two: f"{one} {two}", on=reference).to("inner")
    left.left_join(right, lambda one, two: f"{one} {two}", on=reference).to("left-out")

    test = ran(app, found)

    lefts, rights = last(found, "left"), last(found, "right")
    expected = {key: (value, rights.get(reference(value) or "")) for key, value in lefts.items()}
    everything = {key: f"{one} {two}" for key, (one, two) in expected.items()}
    assert test.output("left-out").to_dict() == everything
    assert test.output("inner").to_dict() == {
        key: everything[key] for key, (_, two) in expected.items() if two
    }


@settings(max_examples=60, deadline=None)
@given(writes)
def test_groups_of_a_table_follow_its_changes(found: list[Write]) -> None:
    app = Builder()
    grouped = table(app, "left").group_by(lambda value: (value[0], len(value)), key=str, value=int)
    grouped.count(name="counts")
    grouped.reduce(lambda sum, size: sum + size, lambda sum, size: sum - size, name="sums")
    grouped.aggregate(
        list,
        lambda all, size: sorted([*all, size]),
        lambda all, size: all[: all.index(size)] + all[all.index(size) + 1 :],
        name="lists",
    )
    table(app, "right")

    test = ran(app, found)

    rows = last(found, "left")
    counts = Counter(value[0] for value in rows.values())
    assert {key: count for key, count in test.table("counts").items() if count} == counts
    for key in counts:
        sizes = sorted(len(value) for value in rows.values() if value[0] == key)
        assert test.table("lists").get(key) == sizes
        assert test.table("sums").get(key) == sum(sizes)


@settings(max_examples=60, deadline=None)
@given(writes)
def test_a_stream_joins_the_current_row_of_a_table(found: list[Write]) -> None:
    app = Builder()
    stream: Stream[str, str] = app.stream("left", key=str, value=str)
    stream.join(table(app, "right"), lambda one, two: f"{one} {two}").to("inner")
    stream.left_join(app.table("right"), lambda one, two: f"{one} {two}").to("left-out")

    test = ran(app, found)

    rows: dict[str, str] = {}
    expected: list[tuple[str, str | None]] = []
    for topic, key, value in found:
        if topic == "right":
            rows[key] = value  # type: ignore[assignment]
        elif value is not None:
            expected.append((value, rows.get(key)))
    assert test.output("inner").read_values() == [f"{one} {two}" for one, two in expected if two is not None]
    assert test.output("left-out").read_values() == [f"{one} {two}" for one, two in expected]


def test_a_global_table_is_looked_up_by_any_key() -> None:
    app = Builder()
    countries = app.global_table("countries", key=str, value=str)
    orders = app.stream("orders", key=str, value=dict)
    orders.join(countries, lambda order, country: country, on=lambda order: order.get("country")).to("known")
    orders.left_join(
        countries, lambda key, order, country: f"{key} {country}", on=lambda order: order.get("country")
    ).to("all")
    test = TopologyTest(app)

    test.input("countries").send("Switzerland", key="ch")
    test.input("orders").send({"country": "ch"}, key="1")
    test.input("orders").send({"country": "de"}, key="2")
    test.input("orders").send({}, key="3")

    assert test.output("known").read_values() == ["Switzerland"]
    assert test.output("all").read_values() == ["1 Switzerland", "2 None", "3 None"]
    assert test.table("countries").to_dict() == {"ch": "Switzerland"}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=30))
@pytest.mark.parametrize("windows", [tumbling(0.01, grace=0.003), session(0.005, grace=0.003)], ids=str)
def test_suppressed_windows_are_emitted_once_with_their_last_value(
    windows: Any, found: list[tuple[str, int]]
) -> None:
    app = Builder()
    counts = app.stream("in", key=str, value=int).group_by_key().windowed_by(windows).count(name="counts")
    counts.suppress(until_window_closes()).to("out")
    test = TopologyTest(app)

    for key, time_ms in [*sorted(found, key=lambda record: record[1]), ("z", 1000)]:
        test.input("in").send(1, key=key, timestamp_ms=time_ms)

    given = test.output("out").read_key_values()
    expected = {window: count for window, count in test.table("counts").items() if window.key != "z"}
    assert len(given) == len(expected)
    assert dict(given) == expected


def test_a_time_limit_emits_the_last_change_of_each_key() -> None:
    app = Builder()
    table(app, "left").suppress(until_time_limit(0.01)).to("out")
    test = TopologyTest(app)

    for key, value, time_ms in (("a", "1", 0), ("a", "2", 5), ("b", "3", 9)):
        test.input("left").send(value, key=key, timestamp_ms=time_ms)
    assert test.output("out").is_empty()
    test.input("left").send("4", key="b", timestamp_ms=10)

    assert test.output("out").read_key_values() == [("a", "2")]


def test_a_full_suppression_buffer_emits_the_oldest_or_stops() -> None:
    app = Builder()
    table(app, "left").suppress(until_time_limit(100, max_records=1)).to("out")
    table(app, "right").suppress(until_time_limit(100, max_records=1, full="stop"), name="small")
    test = TopologyTest(app)

    test.input("left").send_pairs([("a", "1"), ("b", "2")])
    assert test.output("out").read_key_values() == [("a", "1")]
    test.input("right").send("1", key="a")
    with pytest.raises(IllegalState, match="small buffers more than 1"):
        test.input("right").send("1", key="b")


def test_a_windowed_table_can_be_grouped_again() -> None:
    app = Builder()
    counts = app.stream("in", key=str, value=int).group_by_key().windowed_by(tumbling(1)).count()
    starts = counts.group_by(lambda window, count: (window.start_ms, count), key=int, value=int)
    starts.reduce(lambda sum, count: sum + count, lambda sum, count: sum - count, name="by-window")
    test = TopologyTest(app)

    for key, time_ms in (("a", 0), ("b", 5), ("a", 6), ("a", 1500)):
        test.input("in").send(1, key=key, timestamp_ms=time_ms)

    assert test.table("by-window").to_dict() == {0: 3, 1000: 1}
    assert test.table("count-1").get(Windowed("a", 0, 1000)) == 2


class Strides(Transformer[str, int, int]):
    """The difference of a value from the previous one."""

    def init(self, context: Context[Any, Any]) -> None:
        self.before: KeyValueState[str, int] = context.store("before")

    def transform(self, key: str, value: int | None) -> int | None:
        before = self.before.get(key) or 0
        self.before.put(key, value)
        return None if value is None else value - before


def test_a_stateful_transformer_also_gets_deleted_keys() -> None:
    app = Builder()
    rows = app.table("rows", key=str, value=int)
    strides = rows.transform_values(
        Strides, stores=[key_value_store("before", key=str, value=int)], name="strides"
    )
    strides.to("out")

    with TopologyTest(app) as test:
        for value in (5, 7, None, 4):
            test.input("rows").send(value, key="a")

        assert test.output("out").read_values() == [5, 2, None, 4]
        assert test.table("strides").get("a") == 4
        assert test.store("before").get("a") == 4


class Forwarding(Transformer[str, int, int]):
    def transform(self, key: str, value: int | None) -> int | None:
        self.context.forward(Record(key, value))
        return value


def test_a_transformer_cannot_forward_records() -> None:
    app = Builder()
    app.table("rows", key=str, value=int).transform_values(Forwarding).to("out")

    with TopologyTest(app) as test, pytest.raises(TopologyError, match="cannot forward records"):
        test.input("rows").send(1, key="a")


def test_a_suppression_buffer_with_too_many_bytes_emits_early_or_stops() -> None:
    app = Builder()
    rows = app.table("rows", key=str, value=str)
    rows.suppress(until_time_limit(60, max_bytes=110)).to("early")
    rows.suppress(until_time_limit(60, max_bytes=1000, full="stop"), name="strict").to("never")

    with TopologyTest(app) as test:
        for key in "abc":  # each takes 53 bytes: 1 for its key, 20 for its value, 4 for its topic, and 28
            test.input("rows").send("x" * 20, key=key)
        assert test.output("early").read_key_values() == [("a", "x" * 20)]
        with pytest.raises(IllegalState, match="strict buffers more than 1000 bytes"):
            test.input("rows").send("x" * 900, key="d")
