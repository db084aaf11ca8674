"""Every operator of streams and tables, with its result types. Never run: type checkers read it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.serializers import AvroDeserializer, AvroSerializer
from penstock.streams import (
    App,
    AppFailed,
    Builder,
    CogroupedStream,
    Context,
    GlobalTable,
    GroupedStream,
    GroupedTable,
    KeyValueState,
    Processor,
    Record,
    Serde,
    SessionState,
    Store,
    Stream,
    Table,
    TopologyError,
    Transformer,
    Windowed,
    WindowedStream,
    WindowState,
    hopping,
    key_value_store,
    serde,
    session,
    session_store,
    sliding,
    tumbling,
    unlimited,
    until_time_limit,
    until_window_closes,
    window_store,
    within,
)
from penstock.testing import TopologyTest


@dataclass
class Order:
    customer: str
    amount: float


@dataclass
class Customer:
    name: str
    country: str


def word_count() -> None:
    app = App("word-count", brokers="localhost:9092")
    words = app.stream("lines", value=str).flat_map(str.split)
    counts = words.group_by_value().count(name="counts")
    counts.to("word-counts")
    try:
        app.run()
    except AppFailed as failure:
        print(failure)
    known: Stream[bytes, str] = words
    table: Table[str, int] = counts
    print(known, table, app.describe(), app.plot("topology.svg"))


def sources(app: Builder) -> None:
    raw: Stream[bytes, bytes] = app.stream(["a", "b"])
    keyed: Stream[str, bytes] = app.stream(re.compile("logs-.*"), key=str)
    orders: Stream[str, Order] = app.stream(
        "orders", key=str, value=Order, timestamp=lambda order: 5, reset="latest", name="orders-in"
    )
    customers: Table[str, Customer] = app.table("customers", key=str, value=Customer)
    countries: GlobalTable[str, str] = app.global_table("countries", key=str, value=str)
    avro: Serde[Any] = serde(
        AvroSerializer("http://localhost:8081", "{}"), AvroDeserializer("http://localhost:8081")
    )
    print(raw, keyed, orders, customers, countries, countries.store, app.stream("typed", value=avro))


def stateless(stream: Stream[str, Order], other: Stream[str, Order]) -> None:
    print(stream.name)
    some: Stream[str, Order] = stream.filter(lambda order: order.amount > 5)
    others: Stream[str, Order] = stream.filter_not(lambda key, order: key == order.customer)
    amounts: Stream[str, float] = stream.map(lambda order: order.amount, value=float)
    pairs: Stream[float, str] = stream.map(lambda key, order: (order.amount, key), key=float, value=str)
    same: Stream[str, int] = stream.map_values(lambda key, order: len(key), value=int, name="lengths")
    letters: Stream[str, str] = stream.flat_map(lambda order: list(order.customer), value=str)
    swapped: Stream[str, int] = stream.flat_map(lambda key, order: [(order.customer, len(key))])
    more: Stream[str, str] = stream.flat_map_values(lambda order: [order.customer, order.customer])
    by_customer: Stream[str, Order] = stream.select_key(lambda order: order.customer, key=str)
    stamped: Stream[str, Order] = stream.map_records(lambda record: record.with_headers({"seen": b"1"}))
    stream.peek(print)
    stream.foreach(lambda key, order: print(key, order.amount))
    merged: Stream[str, Order] = stream.merge(other, name="both")
    big, rest = stream.split(lambda order: order.amount > 100)
    big.to(lambda key, order: order.customer)
    spread: Stream[str, Order] = stream.repartition(partitions=3)
    seen: Stream[str, Order] = stream.through("seen-orders")
    stream.to("orders-again")
    rest.to("rest", key=str, value=Order, partition=lambda key, order, count: len(key) % count, name="out")
    print(amounts, pairs, same, letters, swapped, more, by_customer, stamped, merged)
    print(some, others, spread, seen)


def folds(stream: Stream[str, Order], clicks: Stream[str, str]) -> None:
    grouped: GroupedStream[str, Order] = stream.group_by_key()
    by_customer: GroupedStream[str, Order] = stream.group_by(lambda order: order.customer, key=str)
    counts: Table[str, int] = by_customer.count()
    largest: Table[str, Order] = grouped.reduce(
        lambda one, two: max(one, two, key=lambda order: order.amount)
    )
    total: Table[str, float] = grouped.aggregate(float, lambda sum, order: sum + order.amount, name="totals")
    minutely: WindowedStream[str, Order] = grouped.windowed_by(tumbling(60, grace=timedelta(seconds=5)))
    per_minute: Table[Windowed[str], int] = minutely.count()
    final = per_minute.suppress(until_window_closes(max_records=100)).to_stream(
        lambda key, count: key.start_ms
    )
    often: Table[Windowed[str], int] = grouped.windowed_by(hopping(60, every=10), emit="close").count()
    ever: Table[Windowed[str], int] = grouped.windowed_by(unlimited(start=datetime.now(UTC))).count()
    near = grouped.windowed_by(sliding(5)).count().suppress(until_time_limit(5, full="stop"))
    visits = (
        clicks.group_by_key()
        .windowed_by(session(30))
        .aggregate(str, lambda all, click: all + click, merger=lambda one, two: one + two)
    )
    both: CogroupedStream[str, float] = grouped.cogroup(lambda sum, order: sum + order.amount)
    together: Table[str, float] = both.cogroup(clicks.group_by_key(), lambda sum, click: sum + 1).aggregate(
        float
    )
    print(counts, largest, total, final, often, ever, near, visits, together, stream.to_table(name="last"))
    print(stream.group_by_value())


def joins(
    orders: Stream[str, Order],
    clicks: Stream[str, str],
    customers: Table[str, Customer],
    countries: GlobalTable[str, str],
) -> None:
    near = within(10, grace=1)
    met: Stream[str, str] = orders.join(clicks, lambda order, click: order.customer + click, within=near)
    left: Stream[str, str] = orders.left_join(
        clicks, lambda order, click: click or order.customer, within=near
    )
    either: Stream[str, str] = orders.outer_join(clicks, lambda order, click: click or "none", within=near)
    named: Stream[str, str] = orders.join(customers, lambda key, order, customer: customer.name, value=str)
    maybe: Stream[str, str] = orders.left_join(
        customers, lambda order, customer: customer.name if customer else ""
    )
    where: Stream[str, str] = orders.join(
        countries, lambda order, country: country, on=lambda order: order.customer
    )
    print(met, left, either, named, maybe, where)


def tables(customers: Table[str, Customer], countries: Table[str, str], counts: Table[str, int]) -> None:
    print(customers.name, customers.store)
    swiss: Table[str, Customer] = customers.filter(lambda customer: customer.country == "ch", name="swiss")
    foreign: Table[str, Customer] = customers.filter_not(lambda key, customer: customer.country == "ch")
    names: Table[str, str] = customers.map_values(lambda customer: customer.name, value=str)
    changes: Stream[str, Customer] = customers.to_stream()
    customers.to("customers-again")
    grouped: GroupedTable[str, str] = customers.group_by(lambda customer: (customer.country, customer.name))
    by_country: Table[str, int] = grouped.count()
    longest: Table[str, str] = grouped.reduce(lambda one, two: one + two, lambda one, two: one)
    joined: Table[str, str] = customers.join(counts, lambda customer, count: customer.name * count)
    left: Table[str, int] = customers.left_join(counts, lambda customer, count: count or 0)
    outer: Table[str, int] = customers.outer_join(counts, lambda customer, count: count or 0)
    abroad: Table[str, str] = customers.join(
        countries, lambda customer, country: country, on=lambda customer: customer.country
    )
    found: Customer | None = customers.get("alice")
    rows: Iterator[tuple[str, Customer]] = customers.items()
    some: Iterator[tuple[str, Customer]] = customers.range("alice", "bob")
    print(swiss, foreign, names, changes, by_country, longest, joined, left, outer, abroad, found, rows, some)
    print(customers.to_dataframe(), customers.suppress(until_time_limit(1)))


class Renamed(Transformer[str, Customer, int]):
    def init(self, context: Context[str, Customer]) -> None:
        self.names: KeyValueState[str, str] = context.store("names")

    def transform(self, key: str, value: Customer | None) -> int | None:
        if value is None:
            return None
        before = self.names.get(key)
        self.names.put(key, value.name)
        return int(before is not None and before != value.name)


def transformers(customers: Table[str, Customer]) -> None:
    names = key_value_store("names", key=str, value=str)
    renamed: Table[str, int] = customers.transform_values(Renamed, stores=[names], value=int, name="renamed")
    print(renamed)


class Dedup(Processor[str, Order, str, Order]):
    def init(self, context: Context[str, Order]) -> None:
        self.seen: KeyValueState[str, int] = context.store("seen")
        self.windows: WindowState[str, int] = context.store("windows")
        self.sessions: SessionState[str, int] = context.store("sessions")
        context.schedule(10, self.forget, clock="wall")

    def process(self, record: Record[str, Order]) -> None:
        if self.seen.get(record.key) is None:
            self.seen.put(record.key, record.timestamp_ms)
            self.windows.put(record.key, 1, record.timestamp_ms)
            self.sessions.put(Windowed(record.key, 0, record.timestamp_ms), 1)
            self.context.forward(record.with_key(record.value.customer).with_value(record.value))

    def forget(self, now_ms: int) -> None:
        for key, seen_ms in self.seen.items():
            if seen_ms < now_ms - 60_000:
                self.seen.delete(key)


def processors(stream: Stream[str, Order]) -> None:
    stores: list[Store[str, int]] = [
        key_value_store("seen", key=str, value=int),
        window_store("windows", key=str, value=int, window=10, retention=100),
        session_store("sessions", key=str, value=int, retention=100),
    ]
    once: Stream[str, Order] = stream.process(Dedup, stores=stores, key=str, value=Order)
    again: Stream[str, Order] = stream.process_values(Dedup, stores=stores, value=Order, name="dedup")
    print(once, again)


def records(record: Record[str, int]) -> None:
    other = record.with_timestamp(record.timestamp_ms + 1)
    print(record.header("trace"), record.headers, record.key, record.value, other, record.with_headers([]))
    print(record.with_key(b"k"), record.with_value("v"))


def in_a_test(app: Builder) -> None:
    with TopologyTest(app, start_ms=5) as test:
        test.input("lines", key=str, value=str).send("hello", key="k", timestamp_ms=5, headers={"a": b"b"})
        test.input("lines").send_all(["hello", None])
        test.input("lines").send_pairs([("k", "v")])
        counts: dict[str, int] = test.output("counts", key=str, value=int).to_dict()
        print(counts, test.output("counts").read_key_values(), test.table("counts").get("hello"))
        print(test.store("seen"), test.now_ms, test.topology)
        test.advance(timedelta(minutes=1))
        test.close()
    try:
        app.stream("")
    except TopologyError as error:
        print(error)
