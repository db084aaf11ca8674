"""Random topologies of a few consecutive operators: the stages' results equal the interpreter's.

Operators that are right alone may be wrong in sequence, or in their second batch. A `Flow` knows how far the two have
to agree, which is what the guide promises:

    exact      each key has the same records in the same order
    timed      as bag where it is written, and as exact to state, which takes partitions in the order of time
    bag        the same records, in any order: records of a key may have come on several branches
    last       each key ends with the same value: a table behind a cache, or one whose changes moved to other keys

A failure prints the seed and the topology; `one(seed)` builds it again.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hypothesis import Phase, given, settings, strategies

from harness.stages import Stages, Written
from penstock.streams import (
    Builder,
    Processor,
    Record,
    hopping,
    key_value_store,
    session,
    tumbling,
    until_window_closes,
    within,
)
from penstock.streams.interpret import Interpreter

EXAMPLES = 80
STREAMS, TABLES = ("a", "b"), ("ta", "tb")
LONG = 100_000  # seconds of grace: no record is late here, because then the batch boundaries would matter


@dataclass(frozen=True)
class Flow:
    """A stream or a table of integers by text."""

    made: Any
    is_table: bool
    level: str
    said: str
    is_plain: bool = True
    """Whether its keys are those of its topic, so that it is co-partitioned with others of which that is true."""
    has_state: bool = False
    """Whether records come from a table or a join."""

    @property
    def is_ordered_input(self) -> bool:
        """A stream as read from a topic, or derived from it record by record."""
        return not self.is_table and self.level == "exact" and self.is_plain and not self.has_state


class Numbering(Processor[Any, Any, Any, Any]):
    """Numbers that depend on the order of all records; one or two for each record."""

    def __init__(self, store: str) -> None:
        self._store = store

    def init(self, context: Any) -> None:
        self._numbers = context.store(self._store)

    def process(self, record: Record[Any, Any]) -> None:
        if record.key is None:
            return
        number = (self._numbers.get(record.key) or 0) * 7 % 1009 + (record.value or 0)
        self._numbers.put(record.key, number)
        self.context.forward(record.with_value(number))
        if number % 4 == 0:
            self.context.forward(record.with_value(number + 1))


class Drawing:
    """A topology under construction."""

    def __init__(self, rng: random.Random, *, caches: bool) -> None:
        self.rng = rng
        self.caches = caches
        self.app = Builder()
        self.sinks: dict[str, Flow] = {}
        self.tables: dict[str, Flow] = {}
        self._names = 0
        self.flows = [
            *(Flow(self.app.stream(name, key=str, value=int), False, "exact", name) for name in STREAMS),
            *(
                Flow(self.app.table(name, key=str, value=int), True, self._updates("exact"), name)
                for name in TABLES
            ),
        ]

    def grow(self, count: int) -> None:
        last = self.rng.choice(self.flows)
        for _ in range(count):
            steps = self._steps_of(last)
            last = self.rng.choice(steps)(last)
            self.flows.append(last)
            if self.rng.random() < 0.4:
                self.end(last)
        self.end(last)

    def end(self, flow: Flow) -> None:
        topic = f"out-{len(self.sinks)}"
        (flow.made.to_stream() if flow.is_table else flow.made).to(topic)
        self.sinks[topic] = flow

    def name(self) -> str:
        self._names += 1
        return f"t{self._names}"

    def _updates(self, level: str) -> str:
        """How far the updates of a table agree if its input agrees this far."""
        return level if level in ("exact", "timed") and not self.caches else "last"

    def _steps_of(self, flow: Flow) -> list[Callable[[Flow], Flow]]:
        if flow.is_table:
            return [
                *(self.filter_table, self.map_table, self.to_stream, self.regroup_count, self.regroup_sum),
                *(self.join_tables, self.refer),
            ]
        if flow.level == "last":
            return [self.map_values, self.to_table]
        any_order: list[Callable[[Flow], Flow]] = [
            *(self.filter, self.map_values, self.flat_map_values, self.select_key, self.merge),
            *(self.count, self.total, self.greatest, self.windowed, self.branches),
        ]
        if flow.level == "bag":
            return any_order
        ordered: list[Callable[[Flow], Flow]] = [self.to_table, self.latest, self.collected, self.sessions]
        if (
            flow.level == "exact" or not flow.has_state
        ):  # after state a processor takes records where they are
            ordered.append(self.process)
        if flow.is_ordered_input:
            ordered += [self.cogroup, self.closed]
        if flow.is_plain and flow.level == "exact":
            ordered += [self.join_table, self.join_stream]
        return any_order + ordered

    # Streams

    def filter(self, flow: Flow) -> Flow:
        made = flow.made.filter(lambda value: value is None or value % 3 != 0)
        return _like(flow, made, "filter")

    def map_values(self, flow: Flow) -> Flow:
        return _like(flow, flow.made.map_values(_twice, value=int), "map_values")

    def flat_map_values(self, flow: Flow) -> Flow:
        made = flow.made.flat_map_values(
            lambda value: [] if value is None else [value] * (value % 3), value=int
        )
        return _like(flow, made, "flat_map_values")

    def select_key(self, flow: Flow) -> Flow:
        made = flow.made.select_key(lambda key, value: f"s{(value or 0) % 4}", key=str)
        level = "timed" if flow.level == "exact" else flow.level
        return _like(flow, made, "select_key", level=level, is_plain=False)

    def branches(self, flow: Flow) -> Flow:
        one, two, rest = flow.made.split(
            lambda value: value is None or value % 3 == 0, lambda value: value % 3 == 1
        )
        return _like(flow, one.merge(two.map_values(_twice, value=int)).merge(rest), "branches")

    def process(self, flow: Flow) -> Flow:
        name = self.name()
        store = key_value_store(name, key=str, value=int)
        made = flow.made.process(lambda: Numbering(name), stores=[store], key=str, value=int)
        return _like(flow, made, "process", is_plain=False, has_state=True)  # it might have changed keys

    def cogroup(self, flow: Flow) -> Flow:
        other = self.rng.choice([each for each in self.flows if each.is_ordered_input])
        name = self.name()
        both = flow.made.group_by_key().cogroup(lambda total, value: (total * 31 + (value or 0)) % 1009)
        both = both.cogroup(
            other.made.group_by_key(), lambda total, value: (total * 17 + (value or 0)) % 1009
        )
        made = both.aggregate(int, value=int, name=name)
        return self._table(flow, made, name, f"cogroup({other.said})")

    def closed(self, flow: Flow) -> Flow:
        counts = flow.made.group_by_key().windowed_by(tumbling(0.05)).count(name=self.name())
        made = counts.suppress(until_window_closes()).to_stream(
            lambda window, _: f"{window.key}@{window.start_ms}", key=str
        )
        return Flow(made, False, "bag", f"{flow.said}.closed", False, True)

    def merge(self, flow: Flow) -> Flow:
        other = self.rng.choice([each for each in self.flows if not each.is_table and each.level != "last"])
        return _like(
            flow,
            flow.made.merge(other.made),
            f"merge({other.said})",
            level="bag",
            is_plain=flow.is_plain and other.is_plain,
            has_state=flow.has_state or other.has_state,
        )

    def count(self, flow: Flow) -> Flow:
        name = self.name()
        return self._table(flow, flow.made.group_by_key().count(name=name), name, "count")

    def total(self, flow: Flow) -> Flow:
        name = self.name()
        made = flow.made.group_by_key().aggregate(
            int, lambda total, value: total + (value or 0), value=int, name=name
        )
        return self._table(flow, made, name, "total")

    def greatest(self, flow: Flow) -> Flow:
        name = self.name()
        return self._table(flow, flow.made.group_by_key().reduce(max, name=name), name, "greatest")

    def latest(self, flow: Flow) -> Flow:
        name = self.name()
        made = flow.made.group_by_key().reduce(lambda _, value: value, name=name)
        return self._table(flow, made, name, "latest")

    def collected(self, flow: Flow) -> Flow:
        """Depends on the order of all records."""
        name = self.name()
        made = flow.made.group_by_key().aggregate(
            int, lambda total, value: (total * 31 + (value or 0)) % 1009, value=int, name=name
        )
        return self._table(flow, made, name, "collected")

    def to_table(self, flow: Flow) -> Flow:
        name = self.name()
        return self._table(flow, flow.made.to_table(name=name), name, "to_table")

    def windowed(self, flow: Flow) -> Flow:
        windows = self.rng.choice([tumbling(0.05, grace=LONG), hopping(0.1, every=0.05, grace=LONG)])
        made = flow.made.group_by_key().windowed_by(windows).count(name=self.name())
        return self._of_windows(flow, made, f"windowed({type(windows).__name__}).count")

    def sessions(self, flow: Flow) -> Flow:
        made = flow.made.group_by_key().windowed_by(session(0.02, grace=LONG)).count(name=self.name())
        return self._of_windows(flow, made, "sessions.count")

    def join_table(self, flow: Flow) -> Flow:
        other = self._plain_table()
        made = flow.made.left_join(other.made, lambda value, found: value * 10 + (found or 0) % 7, value=int)
        return _like(flow, made, f"left_join({other.said})", has_state=True)

    def join_stream(self, flow: Flow) -> Flow:
        other = self.rng.choice(
            [each for each in self.flows if not each.is_table and each.is_plain and each.level == "exact"]
        )
        made = flow.made.join(
            other.made, lambda one, two: one * 100 + two, within=within(0.02, grace=LONG), value=int
        )
        return _like(flow, made, f"join({other.said})", level="bag", has_state=True)

    # Tables

    def filter_table(self, flow: Flow) -> Flow:
        name = self.name()
        made = flow.made.filter(lambda value: value % 4 != 0, name=name)
        return self._table(flow, made, name, "filter")

    def map_table(self, flow: Flow) -> Flow:
        name = self.name()
        return self._table(flow, flow.made.map_values(_twice, value=int, name=name), name, "map_values")

    def to_stream(self, flow: Flow) -> Flow:
        return Flow(flow.made.to_stream(), False, flow.level, f"{flow.said}.to_stream", flow.is_plain, True)

    # Rows may enter and leave a group in one batch, which a cache does not forward: then the group is missing here,
    # and empty there. So empty groups do not count as rows.

    def regroup_count(self, flow: Flow) -> Flow:
        name = self.name()
        grouped = flow.made.group_by(lambda key, value: (f"g{value % 3}", value), key=str, value=int)
        made = grouped.count().filter(lambda count: count > 0, name=name)
        return self._crossed(flow, made, name, "group_by.count")

    def regroup_sum(self, flow: Flow) -> Flow:
        name = self.name()
        grouped = flow.made.group_by(lambda key, value: (f"g{value % 3}", value), key=str, value=int)
        made = grouped.aggregate(
            int,
            lambda total, value: total + value % 1000 * 1000 + 1,
            lambda total, value: (total - value % 1000 * 1000 - 1) or None,
            value=int,
            name=name,
        )
        return self._crossed(flow, made, name, "group_by.sum")

    def join_tables(self, flow: Flow) -> Flow:
        other = self.rng.choice([each for each in self.flows if each.is_table])
        name = self.name()
        how = self.rng.choice(["join", "left_join", "outer_join"])
        made = getattr(flow.made, how)(
            other.made, lambda one, two: (one or 0) * 100 + (two or 0), value=int, name=name
        )
        both = flow.level == other.level == "exact" and flow.is_plain and other.is_plain
        level = "exact" if both else "last"
        return self._note(
            Flow(
                made, True, level, f"{flow.said}.{how}({other.said})", flow.is_plain and other.is_plain, True
            ),
            name,
        )

    def refer(self, flow: Flow) -> Flow:
        other = self.rng.choice([each for each in self.flows if each.is_table])
        name = self.name()
        how = self.rng.choice(["join", "left_join"])
        made = getattr(flow.made, how)(
            other.made,
            lambda one, two: one * 100 + (two or 0),
            on=lambda value: None if value % 7 == 0 else f"k{value % 5}",
            value=int,
            name=name,
        )
        return self._note(Flow(made, True, "last", f"{flow.said}.{how}({other.said}, on)", False, True), name)

    # Recording

    def _plain_table(self) -> Flow:
        return self.rng.choice([each for each in self.flows if each.is_table and each.is_plain])

    def _table(self, flow: Flow, made: Any, name: str, what: str) -> Flow:
        said = f"{flow.said}.{what}"
        return self._note(Flow(made, True, self._updates(flow.level), said, flow.is_plain, True), name)

    def _crossed(self, flow: Flow, made: Any, name: str, what: str) -> Flow:
        return self._note(Flow(made, True, "last", f"{flow.said}.{what}", False, True), name)

    def _of_windows(self, flow: Flow, made: Any, what: str) -> Flow:
        made = made.to_stream(lambda window, _: f"{window.key}@{window.start_ms}-{window.end_ms}", key=str)
        return Flow(made, False, self._updates(flow.level), f"{flow.said}.{what}", False, True)

    def _note(self, flow: Flow, name: str) -> Flow:
        self.tables[name] = flow
        return flow


def one(seed: int) -> tuple[Drawing, Stages, Interpreter]:
    """A topology, and the same records through both."""
    rng = random.Random(seed)
    drawing = Drawing(rng, caches=rng.random() < 0.5)
    drawing.grow(rng.randint(2, 4))
    topology = drawing.app.topology
    stages = Stages(topology, partitions=rng.randint(1, 3), caches=drawing.caches, rng=rng)
    interpreter = Interpreter(topology)
    topics = [topic for topic in (*STREAMS, *TABLES) if topic in interpreter.topics]
    time_ms = 1000
    for _ in range(5):
        for _ in range(rng.randint(1, 30)):
            time_ms += rng.randint(1, 9)
            topic = rng.choice(topics)
            key = None if rng.random() < 0.03 else f"k{rng.randrange(6)}".encode()
            is_nothing = rng.random() < (0.2 if topic in TABLES else 0.05)
            value = None if is_nothing else rng.randrange(50).to_bytes(8, "big")
            interpreter.feed(topic, key, value, time_ms, ())
            stages.send(topic, Written(key, value, time_ms))
        stages.run()
    for topic in topics:  # so that windows close
        time_ms += 90_000
        interpreter.feed(topic, b"later", bytes(8), time_ms, ())
        stages.send(topic, Written(b"later", bytes(8), time_ms))
    stages.run()
    return drawing, stages, interpreter


@given(seed=strategies.integers(0, 1 << 32))
@settings(max_examples=EXAMPLES, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_operators_in_a_row_agree_with_the_interpreter(seed: int) -> None:
    drawing, stages, interpreter = one(seed)

    for topic, flow in drawing.sinks.items():
        ours = stages.written(topic)
        theirs = [Written(out.key, out.value, out.timestamp_ms) for out in interpreter.outputs.get(topic, ())]
        assert _seen(ours, flow) == _seen(theirs, flow), f"seed {seed}: {topic}: {flow.said}"
    for name, flow in drawing.tables.items():
        if (changelog := f"app-{name}-changelog") in stages.log:
            rows = _last(stages.written(changelog)).items()
            held = {key.decode(): int.from_bytes(value, "big", signed=True) for key, value in rows}
            assert held == dict(interpreter.table(name).items()), f"seed {seed}: {name}: {flow.said}"


def _seen(records: Iterable[Written], flow: Flow) -> Any:
    match flow.level:
        case "exact":
            by_key: dict[bytes | None, list[tuple[bytes | None, int]]] = defaultdict(list)
            for record in records:
                by_key[record.key].append((record.value, record.timestamp_ms))
            return dict(by_key)
        case "bag" | "timed":
            return Counter((record.key, record.value) for record in records)
        case _:
            return _last(records)


def _last(records: Iterable[Written]) -> dict[Any, bytes]:
    """Without deleted keys: a cache does not forward a key that came and went in one batch."""
    last = {record.key: record.value for record in records}
    return {key: value for key, value in last.items() if value is not None}


def _like(flow: Flow, made: Any, what: str, **changed: Any) -> Flow:
    properties = {"level": flow.level, "is_plain": flow.is_plain, "has_state": flow.has_state, **changed}
    return Flow(made, flow.is_table, said=f"{flow.said}.{what}", **properties)


def _twice(value: int | None) -> int | None:
    return None if value is None else value * 2 + 1
