"""Every operator: the stages' results for random records equal the interpreter's."""

from __future__ import annotations

import operator
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.stages import Stages, Written, hold_global_tables
from penstock.streams import (
    Builder,
    Context,
    Processor,
    Record,
    SessionState,
    Transformer,
    Windowed,
    WindowState,
    hopping,
    key_value_store,
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
from penstock.streams.compile.failures import OperatorFailed
from penstock.streams.interpret import Interpreter

Build = Callable[[Builder], object]


@dataclass
class Order:
    customer: str
    amount: int


class Running(Processor[str, int, str, int]):
    """Sums by key in a store; forwards all of them at every hundred ms of stream time."""

    def init(self, context: Any) -> None:
        self.sums = context.store("sums")
        context.schedule(0.1, self.tell)

    def process(self, record: Record[str, int]) -> None:
        self.sums.put(record.key, (self.sums.get(record.key) or 0) + record.value)
        self.context.forward(record.with_value(self.sums.get(record.key)))

    def tell(self, time_ms: int) -> None:
        for key, value in self.sums.items():
            self.context.forward(Record(f"sum of {key}", value, time_ms))


class Nth(Transformer[str, int, int]):
    """Values with the number of changes of their key; every third change deletes it."""

    def init(self, context: Any) -> None:
        self.changes = context.store("changes")

    def transform(self, key: str, value: int | None) -> int | None:
        count = (self.changes.get(key) or 0) + 1
        self.changes.put(key, count)
        return None if value is None or count % 3 == 0 else value * 100 + count


def numbers(app: Builder, topic: str = "numbers") -> Any:
    return app.stream(topic, key=str, value=int)


def joined_to_itself(app: Builder, *, table_first: bool) -> None:
    """A record reaches the join on one branch and its table on another: the topology decides which comes first."""
    stream = numbers(app)
    doubled = stream.map_values(lambda value: value * 2, value=int)
    left, right = (stream, doubled) if table_first else (doubled, stream)
    left.left_join(right.to_table(), lambda one, two: one * 100 + (two or 0), value=int).to("out")


def cogrouped_with_itself(app: Builder) -> None:
    stream = numbers(app)
    doubled = stream.map_values(lambda value: value * 2, value=int).group_by_key()
    both = doubled.cogroup(lambda total, value: total * 31 % 1009 + value)
    both = both.cogroup(stream.group_by_key(), lambda total, value: total * 17 % 1009 + value)
    both.aggregate(int, value=int, name="both").to("out")


# Operators whose output has one right order for each key.
ORDERED: dict[str, Build] = {
    "join with a table of what it was made of": lambda app: joined_to_itself(app, table_first=False),
    "join with a table of what is made of it": lambda app: joined_to_itself(app, table_first=True),
    "cogroup with what it was made of": cogrouped_with_itself,
    "filter": lambda app: numbers(app).filter(lambda value: value % 2).to("out"),
    "filter_not": lambda app: numbers(app).filter_not(lambda key, value: value > 5 and key > "c").to("out"),
    "map": lambda app: (
        numbers(app).map(lambda key, value: (key * 2, value + 1), key=str, value=int).to("out")
    ),
    "map_values": lambda app: numbers(app).map_values(str, value=str).to("out"),
    "flat_map": lambda app: (
        numbers(app)
        .flat_map(lambda key, value: [(key, value), (key + "!", value)] * (value % 3), key=str, value=int)
        .to("out")
    ),
    "split": lambda app: _split(app),
    "count": lambda app: numbers(app).group_by_key().count(name="counts").to("out"),
    "reduce": lambda app: numbers(app).group_by_key().reduce(lambda a, b: a * 2 - b, name="r").to("out"),
    "aggregate": lambda app: (
        numbers(app)
        .group_by_key()
        .aggregate(list, lambda have, v: [*have, v][-3:], value=list[int], name="a")
        .to("out")
    ),
    "group_by": lambda app: (
        numbers(app).group_by(lambda value: f"rest {value % 3}", key=str).count(name="counts").to("out")
    ),
    "tumbling": lambda app: (
        numbers(app).group_by_key().windowed_by(tumbling(0.05, grace=0.02)).count(name="c").to("out")
    ),
    "unlimited": lambda app: (
        numbers(app)
        .group_by_key()
        .windowed_by(unlimited(start=datetime.fromtimestamp(1.3, UTC)))
        .count(name="c")
        .to("out")
    ),
    "hopping": lambda app: (
        numbers(app)
        .group_by_key()
        .windowed_by(hopping(0.06, every=0.02, grace=0.02))
        .count(name="c")
        .to("out")
    ),
    "sliding": lambda app: (
        numbers(app).group_by_key().windowed_by(sliding(0.05, grace=9)).count(name="c").to("out")
    ),
    "session": lambda app: (
        numbers(app).group_by_key().windowed_by(session(0.03, grace=9)).count(name="c").to("out")
    ),
    "cogroup": lambda app: (
        numbers(app)
        .group_by_key()
        .cogroup(lambda have, value: have + value)
        .cogroup(numbers(app, "more").group_by_key(), lambda have, value: have - value)
        .aggregate(int, value=int, name="cogrouped")
        .to("out")
    ),
    "table": lambda app: (
        app.table("numbers", key=str, value=int).map_values(lambda v: v + 1, value=int).to("out")
    ),
    "table filter": lambda app: app.table("numbers", key=str, value=int).filter(lambda v: v % 3).to("out"),
    "transform_values": lambda app: (
        app.table("numbers", key=str, value=int)
        .transform_values(Nth, stores=[key_value_store("changes", key=str, value=int)], name="nth")
        .left_join(app.table("more", key=str, value=int), lambda a, b: a * 1000 + (b or 0), value=int)
        .to("out")
    ),
    "to_table": lambda app: numbers(app).to_table(name="t").to("out"),
    "stream-table join": lambda app: (
        numbers(app)
        .join(app.table("more", key=str, value=int), lambda a, b: a * 1000 + b, value=int)
        .to("out")
    ),
    "stream-table left join": lambda app: (
        numbers(app)
        .left_join(app.table("more", key=str, value=int), lambda a, b: a * 1000 + (b or 0), value=int)
        .to("out")
    ),
    "versioned join": lambda app: (
        numbers(app)
        .left_join(
            app.table("more", key=str, value=int, history=9).filter(lambda value: value % 3),
            lambda a, b: a * 1000 + (b or 0),
            value=int,
        )
        .to("out")
    ),
    "versioned table join": lambda app: (
        numbers(app)
        .to_table(history=9, name="t")
        .outer_join(
            app.table("more", key=str, value=int, history=9),
            lambda a, b: (a or 0) * 1000 + (b or 0),
            value=int,
        )
        .to("out")
    ),
    "table join": lambda app: _tables(app, "join"),
    "table left join": lambda app: _tables(app, "left_join"),
    "table outer join": lambda app: _tables(app, "outer_join"),
    "several in a row": lambda app: (
        numbers(app)
        .group_by_key()
        .count(name="counts")
        .filter(lambda value: value % 2)
        .join(
            numbers(app, "more").group_by_key().reduce(max, name="greatest"),
            lambda a, b: a * 1000 + b,
            value=int,
        )
        .to("out")
    ),
}

# Operators for which only the set of records, or the last record of a key, is determined.
BAGS: dict[str, Build] = {
    "select_key": lambda app: numbers(app).select_key(lambda value: str(value % 3), key=str).to("out"),
    "merge": lambda app: (
        numbers(app).merge(numbers(app, "more")).map_values(lambda v: v * 2, value=int).to("out")
    ),
    "global table": lambda app: _global(app),
    "stream join": lambda app: (
        numbers(app)
        .join(numbers(app, "more"), lambda a, b: a * 1000 + b, within=within(0.03), value=int)
        .to("out")
    ),
    "processor": lambda app: (
        numbers(app)
        .process(Running, stores=[key_value_store("sums", key=str, value=int)], key=str, value=int)
        .filter(lambda key, value: not key.startswith("sum"))
        .to("out")
    ),
}

# The same, for records that arrive slightly out of order.
DISORDERED: dict[str, Build] = {
    "versioned join with grace": lambda app: (
        numbers(app)
        .left_join(
            app.table("more", key=str, value=int, history=9).map_values(lambda value: value + 1, value=int),
            lambda a, b: a * 1000 + (b or 0),
            grace=0.09,
            value=int,
        )
        .to("out")
    ),
    "versioned table": lambda app: app.table("more", key=str, value=int, history=9).to("out"),
}

# Output when time has passed; it has the headers of whichever record advanced the time.
TIMED: dict[str, Build] = {
    "suppressed windows": lambda app: (
        numbers(app)
        .group_by_key()
        .windowed_by(tumbling(0.05, grace=0.02))
        .count(name="c")
        .suppress(until_window_closes())
        .to("out")
    ),
    "suppressed sessions": lambda app: (
        numbers(app)
        .group_by_key()
        .windowed_by(session(0.02, grace=0.01))
        .count(name="c")
        .suppress(until_window_closes())
        .to("out")
    ),
    "stream left join": lambda app: (
        numbers(app)
        .left_join(
            numbers(app, "more"), lambda a, b: a * 1000 + (b or 0), within=within(0.01, grace=0.01), value=int
        )
        .to("out")
    ),
    "stream outer join": lambda app: (
        numbers(app)
        .outer_join(
            numbers(app, "more"),
            lambda a, b: (a or 0) * 1000 + (b or 0),
            within=within(0.01, grace=0.01),
            value=int,
        )
        .to("out")
    ),
}

# Operators of `ORDERED` that are columnar folds if only the last update of a batch is forwarded; and two that are
# not.
FOLDS = ["count", "group_by", "tumbling", "unlimited", "hopping", "reduce", "aggregate"]

LAST: dict[str, Build] = {
    "sum": lambda app: numbers(app).group_by_key().reduce(operator.add, name="sums").to("out"),
    "sum in windows": lambda app: (
        numbers(app)
        .group_by_key()
        .windowed_by(hopping(0.06, every=0.02, grace=9))
        .aggregate(int, operator.add, value=int, name="sums")
        .to("out")
    ),
    "greatest": lambda app: numbers(app).group_by_key().reduce(max, name="greatest").to("out"),
    "table group_by": lambda app: (
        app.table("numbers", key=str, value=int)
        .group_by(lambda key, value: (str(value % 3), value), key=str, value=int)
        .reduce(lambda a, b: a + b, lambda a, b: a - b, name="sums")
        .to("out")
    ),
    "count behind count": lambda app: (
        numbers(app)
        .group_by_key()
        .count(name="first")
        .to_stream()
        .group_by(lambda value: str(value % 2), key=str)
        .count(name="second")
        .to("out")
    ),
    "repartition": lambda app: (
        numbers(app).repartition(name="between").group_by_key().reduce(lambda a, b: a + b, name="r").to("out")
    ),
    "foreign key join": lambda app: (
        app.table("numbers", key=str, value=int)
        .join(
            app.table("more", key=str, value=int),
            lambda a, b: a * 1000 + b,
            on=lambda v: "abcdef"[v % 6],
            value=int,
        )
        .to("out")
    ),
    "foreign key left join": lambda app: (
        app.table("numbers", key=str, value=int)
        .left_join(
            app.table("more", key=str, value=int),
            lambda a, b: a * 1000 + (b or 0),
            on=lambda v: "abcdef"[v % 6],
            value=int,
        )
        .to("out")
    ),
}


def _split(app: Builder) -> None:
    odd, big, rest = numbers(app).split(lambda v: v % 2, lambda v: v > 5)
    odd.map_values(lambda v: v * 10, value=int).to("odd")
    big.to("big")
    rest.to("rest")


def _global(app: Builder) -> None:
    table = app.global_table("countries", key=str, value=str)
    numbers(app).join(table, lambda a, b: f"{a} {b}", on=lambda v: f"c{v}", value=str).to("out")
    numbers(app, "more").left_join(table, lambda a, b: f"{a} {b}", on=lambda v: f"c{v}", value=str).to("out")


def _tables(app: Builder, how: str) -> None:
    left, right = app.table("numbers", key=str, value=int), app.table("more", key=str, value=int)
    getattr(left, how)(right, lambda a, b: (a or 0) * 1000 + (b or 0), value=int).to("out")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ORDERED)
def test_each_key_has_the_same_records_in_the_same_order(name: str, seed: int) -> None:
    stages, interpreter = _run(ORDERED[name], seed)

    for topic in ("out", "odd", "big", "rest"):
        assert _by_key(stages.written(topic)) == _by_key(_outputs(interpreter, topic))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", BAGS)
def test_the_same_records_come_out(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stages, interpreter = _run(BAGS[name], seed, monkeypatch=monkeypatch)

    assert sorted(stages.written("out"), key=repr) == sorted(_outputs(interpreter, "out"), key=repr)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", DISORDERED)
def test_the_same_records_come_out_of_disordered_input(name: str, seed: int) -> None:
    stages, interpreter = _run(DISORDERED[name], seed, disorder_ms=20)

    ours = sorted(record._replace(headers=()) for record in stages.written("out"))
    assert ours == sorted(record._replace(headers=()) for record in _outputs(interpreter, "out"))
    assert ours


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TIMED)
def test_time_brings_the_same_records(name: str, seed: int) -> None:
    stages, interpreter = _run(TIMED[name], seed)

    ours = sorted(record._replace(headers=()) for record in stages.written("out"))
    assert ours == sorted(record._replace(headers=()) for record in _outputs(interpreter, "out"))
    assert ours


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", [*LAST, *FOLDS])
def test_each_key_ends_with_the_same_value(name: str, seed: int) -> None:
    stages, interpreter = _run({**LAST, **ORDERED}[name], seed, caches=name != "count behind count")

    ours, theirs = _last(stages.written("out")), _last(_outputs(interpreter, "out"))
    assert ours == theirs
    assert ours


class Telling(Running):
    """The same with wall-clock time."""

    def init(self, context: Any) -> None:
        self.sums = context.store("sums")
        context.schedule(10, self.tell, clock="wall")


def test_wall_clock_timers_fire_without_records() -> None:
    app = Builder()
    store = key_value_store("sums", key=str, value=int)
    numbers(app).process(Telling, stores=[store], key=str, value=int).to("out")
    stages = Stages(app.topology)
    for value in (1, 2, 3):
        stages.send("numbers", Written(b"a", value.to_bytes(8, "big"), 1000 + value))
    stages.run()

    for _ in range(3):
        stages.advance(5_000)

    found = [record for record in stages.written("out") if record.key == b"sum of a"]
    assert found == [Written(b"sum of a", (6).to_bytes(8, "big"), 10_000)]
    assert [running.domains.time_mode for running in stages.running if running.domains] == ["ProcessingTime"]
    changelog = stages.written("app-sums-changelog")
    assert [int.from_bytes(record.value or b"", "big") for record in changelog] == [1, 3, 6]


def test_buffered_updates_are_emitted_in_the_end_and_are_fewer() -> None:
    app = Builder()
    numbers(app).group_by_key().count(name="c").suppress(until_time_limit(0.05)).to("out")
    stages = Stages(app.topology, caches=False)
    for at in range(200):
        stages.send("numbers", Written(b"abcd"[at % 4 :][:1], bytes(8), 1000 + at))
        if at % 50 == 49:
            stages.run()

    stages.send("numbers", Written(b"later", bytes(8), 9000))
    stages.run()

    found = _by_key(stages.written("out"))
    assert {key: found[key][-1].value for key in (b"a", b"b", b"c", b"d")} == dict.fromkeys(
        (b"a", b"b", b"c", b"d"), (50).to_bytes(8, "big")
    )
    assert all(2 <= len(records) <= 5 for key, records in found.items() if key != b"later")


@pytest.mark.parametrize(("max_bytes", "passes"), [(0, 4), (45, 3), (10_000, 0)])
def test_a_suppression_buffer_stays_within_its_byte_limit(max_bytes: int, passes: int) -> None:
    """A record takes 1 byte for its key, 8 for its value and 35 more: 28, and 7 for its topic's name; and 8 more if
    another one was emitted before."""
    app = Builder()
    suppression = until_time_limit(60, max_bytes=max_bytes)
    app.table("numbers", key=str, value=int).suppress(suppression).to("out")
    stages = Stages(app.topology, caches=False)
    for at in range(4):
        stages.send("numbers", Written(b"a", at.to_bytes(8, "big"), 1000 + at))
        stages.run()  # restored from the stored state each time

    assert len(stages.written("out")) == passes


def test_a_program_stops_if_its_suppression_buffer_is_full() -> None:
    app = Builder()
    suppression = until_time_limit(60, max_bytes=20, full="stop")
    numbers(app).group_by_key().count(name="c").suppress(suppression, name="held").to("out")
    stages = Stages(app.topology)
    stages.send("numbers", Written(b"a", bytes(8), 1000))

    with pytest.raises(OperatorFailed, match="held buffers more than 20 bytes"):
        stages.run()


def test_a_window_that_closed_in_an_earlier_batch_takes_no_more_records() -> None:
    app = Builder()
    numbers(app).group_by_key().windowed_by(tumbling(0.1, grace=0.05)).count(name="c").to("out")
    stages = Stages(app.topology)
    for key, time_ms in ((b"a", 1010), (b"b", 1149)):
        stages.send("numbers", Written(key, bytes(8), time_ms))
    stages.run()
    stages.send("numbers", Written(b"a", bytes(8), 1020))  # a's window is open: 1149 is not beyond 1100 + 50
    stages.run()
    stages.send("numbers", Written(b"b", bytes(8), 1150))
    stages.run()

    stages.send("numbers", Written(b"a", bytes(8), 1030))
    stages.run()

    windows = [(record.key, record.value) for record in stages.written("out") if record.key[:1] == b"a"]
    assert [int.from_bytes(value or b"", "big") for _, value in windows] == [1, 2]


@pytest.mark.parametrize(
    "windows",
    [tumbling(0.1), hopping(0.1, every=0.05), sliding(0.05), session(0.05)],
    ids=lambda each: str(each),
)
@pytest.mark.parametrize("caches", [True, False])
def test_closed_windows_are_deleted(windows: Any, caches: bool) -> None:
    app = Builder()
    numbers(app).group_by_key().windowed_by(windows).count(name="c").to("out")
    stages = Stages(app.topology, caches=caches)
    sizes = []
    for batch in range(60):
        for at in range(10):
            stages.send("numbers", Written(b"ab"[at % 2 :][:1], bytes(8), 1000 + batch * 100 + at * 10))
        stages.run()
        pages = [
            data
            for running in stages.running
            for each in running.pages.values()
            for data in each.pages.values()
        ]
        sizes.append(sum(map(len, pages)))

    assert max(sizes[40:]) < 1.5 * max(sizes[:20])


class Keeping(Processor[str, int, str, int]):
    """Puts every record into a window store and a session store."""

    def init(self, context: Context[str, int]) -> None:
        self.windows: WindowState[str, int] = context.store("windows")
        self.sessions: SessionState[str, int] = context.store("sessions")

    def process(self, record: Record[str, int]) -> None:
        self.windows.put(record.key, record.value, record.timestamp_ms)
        self.sessions.put(Windowed(record.key, record.timestamp_ms, record.timestamp_ms), record.value)


def test_expired_rows_of_window_and_session_stores_leave_the_pages() -> None:
    """Expired rows were kept forever: pages grew with every batch."""
    app = Builder()
    stores = [
        window_store("windows", key=str, value=int, window=0.01, retention=0.5),
        session_store("sessions", key=str, value=int, retention=0.5),
    ]
    numbers(app).process(Keeping, stores=stores, key=str, value=int).to("out")
    stages = Stages(app.topology)
    sizes = []
    for batch in range(60):
        for at in range(10):
            stages.send("numbers", Written(b"ab"[at % 2 :][:1], bytes(8), 1000 + batch * 100 + at * 10))
        stages.run()
        pages = [
            data
            for running in stages.running
            for each in running.pages.values()
            for data in each.pages.values()
        ]
        sizes.append(sum(map(len, pages)))

    assert max(sizes[40:]) < 1.1 * max(sizes[:20])


def test_buffered_records_of_joins_expire() -> None:
    app = Builder()
    numbers(app).join(numbers(app, "more"), lambda a, b: a + b, within=within(0.05), value=int).to("out")
    stages = Stages(app.topology)
    for at in range(300):
        stages.send(("numbers", "more")[at % 2], Written(b"a", bytes(8), 1000 + at * 10))
    stages.run()
    stages.send("numbers", Written(b"b", bytes(8), 9000))
    stages.run()

    pages = [
        data for running in stages.running for each in running.pages.values() for data in each.pages.values()
    ]
    assert sum(map(len, pages)) < 1500


def _run(
    build: Build,
    seed: int,
    *,
    caches: bool = False,
    disorder_ms: int = 0,
    monkeypatch: pytest.MonkeyPatch | None = None,
) -> tuple[Stages, Interpreter]:
    """Run the same records through both: the interpreter gets them in order of time, stages in batches."""
    rng = random.Random(seed)
    app = Builder()
    build(app)
    stages = Stages(app.topology, caches=caches, rng=rng)
    interpreter = Interpreter(app.topology)
    topics = [topic for topic in ("numbers", "more") if topic in interpreter.topics]
    if monkeypatch is not None:
        hold_global_tables(monkeypatch, stages)
    if "countries" in interpreter.topics:
        for number in range(5):
            country = Written(f"c{number}".encode(), f"country {number}".encode(), 0)
            interpreter.feed("countries", *country)
            stages.send("countries", country)
    time_ms = 1000
    for _ in range(4):
        for _ in range(60):
            time_ms += rng.randint(1, 5)
            key = rng.choice("abcdef").encode()
            value = rng.randint(0, 9).to_bytes(8, "big")
            headers = (("n", str(time_ms).encode()),) if rng.random() < 0.3 else ()
            topic = rng.choice(topics)
            at_ms = time_ms - rng.randint(0, disorder_ms)
            interpreter.feed(topic, key, value, at_ms, headers)
            stages.send(topic, Written(key, value, at_ms, headers))
        stages.run()
    if disorder_ms:
        for topic in topics:
            interpreter.feed(topic, b"later", bytes(8), time_ms + 9000)
            stages.send(topic, Written(b"later", bytes(8), time_ms + 9000))
        stages.run()
    return stages, interpreter


def _outputs(interpreter: Interpreter, topic: str) -> Iterator[Written]:
    return (
        Written(out.key, out.value, out.timestamp_ms, out.headers)
        for out in interpreter.outputs.get(topic, ())
    )


def _by_key(records: Any) -> dict[bytes | None, list[Written]]:
    found: dict[bytes | None, list[Written]] = defaultdict(list)
    for record in records:
        found[record.key].append(record)
    return found


def _last(records: Any) -> dict[bytes | None, bytes]:
    last = {record.key: record.value for record in records}
    return {key: value for key, value in last.items() if value is not None}
