"""Programs become topologies; mistakes are reported on the line that makes them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from penstock.client.errors import IllegalState
from penstock.streams import (
    Builder,
    Processor,
    Stream,
    Table,
    TopologyError,
    key_value_store,
    session,
    tumbling,
    unlimited,
    until_time_limit,
    until_window_closes,
    within,
)
from penstock.streams import topology as t


@dataclass
class Order:
    customer: str
    amount: float


def orders(app: Builder) -> Stream[str, Order]:
    return app.stream("orders", key=str, value=Order)


def customers(app: Builder) -> Table[str, str]:
    return app.table("customers", key=str, value=str)


def types(stream: Any) -> tuple[str | None, str | None]:
    node = stream._node
    return tuple(None if serde is None else serde.name for serde in (node.key, node.value))  # type: ignore[return-value]


def test_word_count_is_five_nodes_and_knows_its_types() -> None:
    app = Builder()
    words = app.stream("lines", value=str).flat_map(str.split)
    counts = words.group_by_value().count(name="counts")
    counts.to("word-counts")

    kinds = [type(node) for node in app.topology.nodes]
    assert kinds == [t.Source, t.FlatMap, t.Map, t.Aggregate, t.ToStream, t.Sink]
    assert types(words) == ("bytes", "str")
    assert types(counts) == ("str", "int")
    assert list(app.topology.stores) == ["counts"]


def test_generated_names_are_counted_per_operator() -> None:
    def table_of(app: Builder, filters: int) -> str:
        stream = orders(app)
        for _ in range(filters):
            stream = stream.filter(lambda order: True)
        return stream.group_by_key().count().name

    assert table_of(Builder(), 0) == table_of(Builder(), 5) == "count-1"


def test_types_come_from_annotations_and_arguments() -> None:
    app = Builder()

    def amount(order: Order) -> float:
        return order.amount

    def both(key: str, order: Order) -> tuple[bytes, int]:
        return key.encode(), 1

    stream = orders(app)
    assert types(stream.map_values(amount)) == ("str", "float")
    assert types(stream.map(both)) == ("bytes", "int")
    assert types(stream.map(lambda order: order.amount, value=float)) == ("str", "float")
    assert types(stream.map_values(lambda order: order.amount)) == ("str", None)
    assert types(stream.select_key(lambda order: order.customer, key=str)) == ("str", "Order")
    assert types(stream.filter(lambda order: True)) == ("str", "Order")
    assert types(stream.group_by_key().aggregate(float, lambda total, order: total)) == ("str", "float")
    assert types(stream.group_by_key().windowed_by(tumbling(5)).count()) == ("windowed str", "int")


def test_a_table_is_found_again_by_its_name() -> None:
    app = Builder()
    table = customers(app)
    counts = orders(app).group_by_key().count(name="counts")

    assert app.table("customers") is table
    assert app.table("counts") is counts
    with pytest.raises(TopologyError, match="tables: customers, counts"):
        app.table("unknown")


def test_the_state_of_a_topology_that_is_not_running_cannot_be_queried() -> None:
    app = Builder()

    with pytest.raises(IllegalState, match="is not running"):
        customers(app).get("ada")
    with pytest.raises(TopologyError, match="give it a name"):
        app.table("customers").filter(lambda name: True).get("ada")


def test_sources_may_be_several_topics_or_a_pattern() -> None:
    app = Builder()
    app.stream(["a", "b"])
    app.stream(re.compile("logs-.*"))

    assert [source.topics for source in app.topology.sources] == [("a", "b"), ()]
    assert app.topology.sources[1].pattern == "logs-.*"


def test_through_is_a_sink_and_a_source() -> None:
    app = Builder()
    orders(app).through("seen").to("out")

    assert [sink.topic for sink in app.topology.sinks] == ["seen", "out"]
    assert app.topology.sources[1].topics == ("seen",)
    assert app.topology.sources[1].value == app.topology.sources[0].value


class Nothing(Processor[Any, Any, Any, Any]):
    pass


MISTAKES: dict[str, tuple[Callable[[Builder], object], str]] = {
    "no topic": (lambda app: app.stream([]), "at least one topic"),
    "an empty name": (lambda app: app.stream(""), "is not a valid topic name"),
    "a time for topics that are not known": (
        lambda app: app.stream(re.compile("a.*"), reset=timedelta(hours=1)),
        "named topics",
    ),
    "a bad reset": (lambda app: app.stream("a", reset="never"), "earliest"),  # type: ignore[call-overload]
    "a bad name": (lambda app: orders(app).filter(bool, name="a b"), "is not a valid"),
    "a name twice": (
        lambda app: orders(app).filter(bool, name="once").filter(bool, name="once"),
        "the name once is already used",
    ),
    "a stream of another app": (lambda app: orders(app).merge(orders(Builder())), "different apps"),
    "merge of one": (lambda app: orders(app).merge(), "at least one other"),
    "split by nothing": (lambda app: orders(app).split(), "at least one predicate"),
    "a key that map keeps": (
        lambda app: orders(app).map(lambda order: order, key=str),  # type: ignore[call-overload]
        "cannot change the key",
    ),
    "a group of unknown type": (
        lambda app: orders(app).group_by(lambda order: order.customer).count(),
        "the type of the keys of group-by-1 is not known",
    ),
    "a fold of unknown type": (
        lambda app: orders(app).map_values(lambda order: 1).group_by_key().reduce(max),
        "is not known",
    ),
    "an aggregate of unknown type": (
        lambda app: orders(app).group_by_key().aggregate(set, lambda all, order: all),
        "does not show it",
    ),
    "repartition of unknown type": (
        lambda app: orders(app).map_values(lambda order: 1).repartition(),
        "is not known",
    ),
    "no partition": (lambda app: orders(app).repartition(partitions=0), "at least one partition"),
    "sessions without a merger": (
        lambda app: orders(app).group_by_key().windowed_by(session(5)).aggregate(int, lambda sum, order: sum),
        "merger",
    ),
    "a merger without sessions": (
        lambda app: orders(app).group_by_key().aggregate(int, lambda sum, order: sum, merger=max),
        "for session windows only",
    ),
    "windows that are none": (lambda app: orders(app).group_by_key().windowed_by(60), "tumbling"),  # type: ignore[arg-type]
    "an invalid emit": (
        lambda app: orders(app).group_by_key().windowed_by(tumbling(1), emit="soon"),  # type: ignore[arg-type]
        "`update` or `close`",
    ),
    "an end that never comes": (
        lambda app: orders(app).group_by_key().windowed_by(unlimited(), emit="close"),
        "never closes",
    ),
    "results of a window without an end": (
        lambda app: (
            orders(app).group_by_key().windowed_by(unlimited()).count().suppress(until_window_closes())
        ),
        "no end and never closes",
    ),
    "an invalid bound": (
        lambda app: customers(app).suppress(until_time_limit(1, max_bytes=-1)),
        "max_bytes",
    ),
    "a grace for a table without a history": (
        lambda app: orders(app).join(customers(app), lambda order, name: name, grace=5),
        "grace needs a versioned table",
    ),
    "a grace that is longer than the history": (
        lambda app: orders(app).join(
            app.table("c", key=str, value=str, history=4), lambda order, name: name, grace=5
        ),
        "as long as the grace",
    ),
    "a grace for streams": (
        lambda app: orders(app).join(orders(app), lambda a, b: a, within=within(1), grace=5),  # type: ignore[call-overload]
        "a grace of its own",
    ),
    "a suppressed table with a history": (
        lambda app: app.table("c", key=str, value=str, history=4).suppress(until_time_limit(1)),
        "gaps",
    ),
    "something other than a transformer": (
        lambda app: customers(app).transform_values(5),  # type: ignore[arg-type]
        "Transformer class",
    ),
    "streams that meet at no time": (
        lambda app: orders(app).join(orders(app), lambda one, two: one),  # type: ignore[call-overload]
        "needs a window",
    ),
    "keys that never meet": (
        lambda app: orders(app).join(
            app.table("numbers", key=int, value=str),  # type: ignore[arg-type]
            lambda order, name: name,
        ),
        "keys of type str and int never match",
    ),
    "a table with a window": (
        lambda app: orders(app).join(customers(app), lambda order, name: name, within=within(5)),  # type: ignore[call-overload]
        "remove `within`",
    ),
    "a global table without a key": (
        lambda app: orders(app).join(  # type: ignore[call-overload]
            app.global_table("all", key=str, value=str), lambda order, name: name
        ),
        "needs `on`",
    ),
    "a table joined with a stream": (
        lambda app: customers(app).join(orders(app), lambda name, order: name),  # type: ignore[call-overload]
        "a table joins a table",
    ),
    "windows that never close": (
        lambda app: customers(app).suppress(until_window_closes()),
        "only a table of windows",
    ),
    "counts that have no windows": (
        lambda app: orders(app).group_by_key().count().suppress(until_window_closes()),
        "only a table of windows",
    ),
    "a group of a table of unknown type": (
        lambda app: customers(app).group_by(lambda name: (name, 1)).count(),
        "keys of its group_by",
    ),
    "two stores of one name": (
        lambda app: orders(app).process(
            Nothing,
            stores=[key_value_store("s", key=str, value=int), key_value_store("s", key=str, value=int)],
        ),
        "two stores are called s",
    ),
    "something other than a store": (
        lambda app: orders(app).process(Nothing, stores=["s"]),
        "is not a store",
    ),  # type: ignore[list-item]
    "a named table of unknown type": (
        lambda app: customers(app).map_values(lambda name: 1, name="ones"),
        "is not known",
    ),
    "a table without types": (lambda app: app.table("numbers", key=str), "value="),  # type: ignore[call-overload]
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_rejected_when_the_topology_is_built(mistake: str) -> None:
    program, message = MISTAKES[mistake]

    with pytest.raises(TopologyError, match=message):
        program(Builder())
