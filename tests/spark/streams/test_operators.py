"""Every operator: Spark's results for random records equal the interpreter's.

All operators are in one program, so that Spark starts few queries. It runs twice, the second time from its
checkpoints. Output is compared as far as it is determined: in the order of each key, as a bag, or by the last value
of each key.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import pytest
from pyspark.sql import SparkSession

from penstock.client.cluster import TopicPartition
from penstock.streams import (
    App,
    Builder,
    Context,
    GlobalTable,
    KeyValueState,
    Processor,
    Record,
    Stream,
    Table,
    Transformer,
    hopping,
    key_value_store,
    session,
    sliding,
    tumbling,
    unlimited,
    until_time_limit,
    until_window_closes,
    within,
)
from penstock.streams.interpret import Interpreter
from penstock.testing import Broker

pytestmark = pytest.mark.timeout(900)  # the first of them runs the whole program

RECORDS = 120
ROUNDS = 2
PURGE_SECONDS = 60.0


class Numbers(NamedTuple):
    """The inputs of all operators: numbers by letter, as streams and as tables."""

    left: Stream[str, int]
    right: Stream[str, int]
    rows: Table[str, int]
    other_rows: Table[str, int]
    versions: Table[str, int]
    names: GlobalTable[int, str]


class Written(NamedTuple):
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


class RunningSum(Processor[str, int, str, int]):
    def init(self, context: Context[str, int]) -> None:
        self.sums: KeyValueState[str, int] = context.store("sums")

    def process(self, record: Record[str, int]) -> None:
        self.sums.put(record.key, (self.sums.get(record.key) or 0) + record.value)
        self.context.forward(record.with_value(self.sums.get(record.key) or 0))


class Steps(Transformer[str, int, int]):
    """The difference of each value from the previous one."""

    def init(self, context: Context[Any, Any]) -> None:
        self.before: KeyValueState[str, int] = context.store("before")

    def transform(self, key: str, value: int | None) -> int | None:
        before = self.before.get(key) or 0
        self.before.put(key, value)
        return None if value is None else value - before


def plus(one: int, two: int) -> int:
    return one + two


def minus(one: int, two: int) -> int:
    return one - two


def both(one: object, two: object) -> str:
    return f"{one} {two}"


def branches(numbers: Numbers) -> Stream[str, int]:
    odd, big, rest = numbers.left.split(lambda value: value % 2, lambda value: value > 5)
    return odd.merge(
        big.map_values(lambda value: value * 10, value=int), rest.map_values(lambda value: -value, value=int)
    )


def sums(numbers: Numbers) -> Stream[str, int]:
    store = key_value_store("sums", key=str, value=int)
    return numbers.left.process(RunningSum, stores=[store], key=str, value=int)


def steps(numbers: Numbers) -> Table[str, int]:
    store = key_value_store("before", key=str, value=int)
    return numbers.rows.transform_values(Steps, stores=[store], name="steps")


NEAR = within(0.02, grace=0.02)
Operators = dict[str, Callable[[Numbers], "Stream[Any, Any] | Table[Any, Any]"]]

# The records of each key have one order.
ORDERED: Operators = {
    "filter": lambda n: n.left.filter(lambda value: value % 2).filter_not(lambda key, value: key > "c"),
    "map": lambda n: n.left.map(lambda key, value: (key * 2, value + 1), key=str, value=int),
    "map-values": lambda n: n.left.map_values(lambda key, value: f"{key} {value}", value=str).peek(len),
    "flat-map": lambda n: n.left.flat_map(lambda value: range(value % 3), value=int),
    "flat-map-values": lambda n: n.left.flat_map_values(lambda key, value: [key] * (value % 3), value=str),
    "map-records": lambda n: n.left.map_records(
        lambda record: record.with_timestamp(record.timestamp_ms + 1)
    ),
    "count": lambda n: n.left.group_by_key().count(name="counts"),
    "reduce": lambda n: n.left.group_by_key().reduce(lambda a, b: a * 2 - b),
    "aggregate": lambda n: n.left.group_by_key().aggregate(list, lambda all, value: [*all, value][-3:]),
    "tumbling": lambda n: n.left.group_by_key().windowed_by(tumbling(0.05, grace=0.02)).count(),
    "unlimited": lambda n: n.left.group_by_key().windowed_by(unlimited()).aggregate(int, plus),
    "hopping": lambda n: n.left.group_by_key().windowed_by(hopping(0.06, every=0.02)).aggregate(int, plus),
    "sliding": lambda n: n.left.group_by_key().windowed_by(sliding(0.05, grace=9)).count(),
    "sessions": lambda n: (
        n.left.group_by_key().windowed_by(session(0.03, grace=9)).aggregate(int, plus, merger=plus)
    ),
    "cogroup": lambda n: (
        n.left.group_by_key().cogroup(plus).cogroup(n.right.group_by_key(), minus).aggregate(int)
    ),
    "processor": sums,
    "to-table": lambda n: n.left.to_table(),
    "table-map-values": lambda n: n.rows.map_values(lambda value: value + 1, value=int),
    "table-transform-values": steps,
    "table-filter": lambda n: n.rows.filter(lambda value: value % 3).filter_not(
        lambda key, value: key == "a"
    ),
    "table-join": lambda n: n.rows.join(n.other_rows, both),
    "table-left-join": lambda n: n.rows.left_join(n.other_rows, both),
    "table-outer-join": lambda n: n.rows.outer_join(n.other_rows, both),
    "stream-table-join": lambda n: n.left.join(n.rows, both),
    "versioned-table-join": lambda n: n.left.to_table(history=60).left_join(n.versions, both),
    "versioned-join": lambda n: n.left.left_join(n.versions.filter(lambda value: value % 3), both),
    "stream-table-left-join": lambda n: n.left.left_join(n.other_rows, both),
    "split": branches,
    "new-key-of-table": lambda n: n.rows.to_stream(lambda key, value: "q", key=str),
}

# The set of records is determined.
BAGS: Operators = {
    "select-key": lambda n: n.left.select_key(lambda value: str(value % 3), key=str),
    "merge": lambda n: n.left.merge(n.right),
    "stream-join": lambda n: n.left.join(n.right, both, within=NEAR),
    "stream-left-join": lambda n: n.left.left_join(n.right, both, within=NEAR),
    "stream-outer-join": lambda n: n.left.outer_join(n.right, both, within=NEAR),
    "suppressed-windows": lambda n: (
        n.left.group_by_key().windowed_by(tumbling(0.05, grace=0.02)).count().suppress(until_window_closes())
    ),
    "closed-windows": lambda n: n.left.group_by_key().windowed_by(tumbling(0.05), emit="close").count(),
    "few-bytes": lambda n: n.left.group_by_key().count().suppress(until_time_limit(9, max_bytes=0)),
    "versioned-grace-join": lambda n: n.left.join(n.versions, both, grace=0.02),
    "global-join": lambda n: n.left.join(n.names, both, on=lambda value: value % 5),
    "global-left-join": lambda n: n.left.left_join(n.names, both, on=lambda value: value % 5),
}

# The last value of each key is determined.
LAST: Operators = {
    "group-by": lambda n: n.left.group_by(lambda value: str(value % 3), key=str).count(),
    "group-by-value": lambda n: n.left.group_by_value().count(),
    "table-group-by": lambda n: n.rows.group_by(
        lambda key, value: (str(value % 3), value), key=str, value=int
    ).reduce(plus, minus),
    "table-group-by-count": lambda n: n.rows.group_by(
        lambda value: (value % 3, value), key=int, value=int
    ).count(),
    "table-group-by-aggregate": lambda n: n.rows.group_by(
        lambda value: (str(value % 2), value), key=str, value=int
    ).aggregate(int, plus, minus),
    "foreign-key-join": lambda n: n.rows.join(n.other_rows, both, on=lambda value: "abcdef"[value % 6]),
    "foreign-key-left-join": lambda n: n.rows.left_join(
        n.other_rows, both, on=lambda value: "abcdef"[value % 6]
    ),
    "repartition": lambda n: n.left.repartition(partitions=3).group_by_key().reduce(plus),
    "through": lambda n: n.left.through("between").group_by_key().reduce(plus),
    "time-limit": lambda n: n.left.group_by_key().count().suppress(until_time_limit(0.01)),
}

EVERYTHING = ORDERED | BAGS | LAST


def program(app: Builder) -> None:
    """All operators, each with an output topic of its name."""
    numbers = Numbers(
        app.stream("left", key=str, value=int),
        app.stream("right", key=str, value=int),
        app.table("rows", key=str, value=int),
        app.table("other-rows", key=str, value=int),
        app.table("other-rows", key=str, value=int, history=60, name="versions"),
        app.global_table("names", key=int, value=str),
    )
    for name, operator in EVERYTHING.items():
        operator(numbers).to(f"{name}-out")


def records(chance: random.Random) -> Iterator[list[tuple[str, bytes, bytes | None, int]]]:
    """Rounds of records: topic, key, value, time. Time advances; tables also lose rows."""
    yield [("names", _number(number), f"name {number}".encode(), 0) for number in range(3)]
    time_ms = 1000
    present: set[tuple[str, str]] = set()
    for number in range(ROUNDS):
        found: list[tuple[str, bytes, bytes | None, int]] = []
        for _ in range(RECORDS):
            time_ms += chance.randint(1, 5)
            topic, key = chance.choice(["left", "right", "rows", "other-rows"]), chance.choice("abcdef")
            value: bytes | None = _number(chance.randint(0, 9))
            if "rows" in topic and (topic, key) in present and chance.random() < 0.2:
                value = None
            (present.discard if value is None else present.add)((topic, key))
            found.append((topic, key.encode(), value, time_ms))
        if number == ROUNDS - 1:  # every window closes, and buffered records are emitted
            found += [
                (topic, b"z", _number(1), time_ms + after_ms)
                for after_ms in (60_000, 120_000)
                for topic in ("left", "right")
            ]
        yield found


class Results(NamedTuple):
    spark: dict[str, list[Written]]
    interpreter: dict[str, list[Written]]


Ends = dict[TopicPartition, int]


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Results]:
    """Run the program on both, with the same records."""
    model = Builder()
    program(model)
    interpreter = Interpreter(model.topology)
    # Records are of 1970: retention must not delete them.
    with Broker(settings={"log.retention.ms": -1}) as broker:
        with broker.admin() as admin:
            for topic in ("left", "right", "rows", "other-rows", "names", "between"):
                admin.create_topic(topic, partitions=2)
        app = App(
            "operators",
            broker.bootstrap_servers,
            settings={
                "state.dir": str(tmp_path_factory.mktemp("state")),
                "statestore.cache.max.bytes": 0,  # every change is written, as by the interpreter
                "auto.offset.reset": "earliest",
                "repartition.purge.interval.ms": 0,
            },
        )
        program(app)
        rounds: list[Ends] = []
        for found in records(random.Random(7)):
            with broker.producer() as producer:
                for topic, key, value, time_ms in found:
                    producer.send(topic, value, key=key, timestamp_ms=time_ms)
            for topic, key, value, time_ms in found:
                interpreter.feed(topic, key, value, time_ms)
            if found[0][0] != "names":
                app.run(spark, until="end")
                rounds.append(_internal(broker, "latest"))
        _await_purge(broker, rounds[-2])
        names = [f"{name}-out" for name in EVERYTHING]
        yield Results(
            {name: _committed(broker, name) for name in names},
            {
                name: [
                    Written(out.key, out.value, out.timestamp_ms) for out in interpreter.outputs.get(name, ())
                ]
                for name in names
            },
        )


@pytest.mark.parametrize("name", ORDERED)
def test_each_key_has_the_same_records_in_the_same_order(name: str, results: Results) -> None:
    ours, right = (_by_key(found[f"{name}-out"]) for found in results)

    assert right
    assert ours == right


@pytest.mark.parametrize("name", BAGS)
def test_the_same_records_come_out(name: str, results: Results) -> None:
    ours, right = (sorted(found[f"{name}-out"], key=repr) for found in results)

    assert right
    assert ours == right


@pytest.mark.parametrize("name", LAST)
def test_each_key_ends_with_the_same_value(name: str, results: Results) -> None:
    ours, right = (_last(found[f"{name}-out"]) for found in results)

    assert right
    assert ours == right


def _internal(broker: Broker, which: Literal["earliest", "latest"]) -> Ends:
    """The first and last offsets of internal topics."""
    with broker.admin() as admin:
        topics = [topic.name for topic in admin.list_topics() if topic.name.endswith("-repartition")]
        found = {
            TopicPartition(topic, index): which
            for topic, described in admin.describe_topics(topics).items()
            for index in range(len(described.partitions))
        }
        return {partition: listed.offset for partition, listed in admin.list_offsets(found).items()}


def _await_purge(broker: Broker, ends: Ends) -> None:
    """Records of internal topics processed in earlier rounds are deleted; the results are right all the same."""
    assert any(ends.values())
    deadline = time.monotonic() + PURGE_SECONDS
    while left := {
        partition: begin
        for partition, begin in _internal(broker, "earliest").items()
        if begin < ends.get(partition, 0)
    }:
        assert time.monotonic() < deadline, f"these begin before {ends}: {left}"


def _committed(broker: Broker, topic: str) -> list[Written]:
    with broker.consumer(topic, isolation_level="read_committed") as consumer:
        messages = consumer.read(until="end").to_messages()
        return [Written(message.key, message.value, message.timestamp_ms) for message in messages]


def _by_key(found: list[Written]) -> dict[bytes | None, list[Written]]:
    lines: dict[bytes | None, list[Written]] = defaultdict(list)
    for record in found:
        lines[record.key].append(record)
    return lines


def _last(found: list[Written]) -> dict[bytes | None, bytes]:
    last = {record.key: record.value for record in found}
    return {key: value for key, value in last.items() if value is not None}


def _number(number: int) -> bytes:
    return number.to_bytes(8, "big")
