"""Topologies by name: those of `tests/compat/java/StreamTopologies.java`, in Penstock's DSL.

All keys and values are text; `left` and `right` are the input topics, `out` is the output.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.streams import (
    Builder,
    Context,
    GroupedStream,
    GroupedTable,
    KeyValueState,
    Processor,
    Record,
    SessionState,
    Stream,
    Table,
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

Text = Stream[str, str]


def ms(milliseconds: int) -> timedelta:
    return timedelta(milliseconds=milliseconds)


WITHIN = within(before=ms(5), after=ms(3), grace=ms(2))
TUMBLING = tumbling(ms(10), grace=ms(5))
HOPPING = hopping(ms(10), every=ms(4), grace=ms(3))
UNLIMITED = unlimited(start=datetime.fromtimestamp(0.02, UTC))
SLIDING = sliding(ms(10), grace=ms(5))
SESSIONS = session(ms(5), grace=ms(3))


def left(app: Builder) -> Text:
    return app.stream("left", key=str, value=str)


def right(app: Builder) -> Text:
    return app.stream("right", key=str, value=str)


def left_table(app: Builder) -> Table[str, str]:
    return app.table("left", key=str, value=str)


def right_table(app: Builder) -> Table[str, str]:
    return app.table("right", key=str, value=str)


def versioned(app: Builder, topic: str) -> Table[str, str]:
    return app.table(topic, key=str, value=str, history=ms(25))


def grouped(app: Builder) -> GroupedStream[str, str]:
    return left(app).group_by_key()


def shown(first: object, second: object) -> str:
    """As Java formats them."""
    return "+".join("null" if part is None else str(part) for part in (first, second))


def add(all_: str, value: str) -> str:
    return all_ + value


def add_right(all_: str, value: str) -> str:
    return f"{all_}/{value}"


def plus(all_: str, value: str) -> str:
    return f"{all_}+{value}"


def minus(all_: str, value: str) -> str:
    return f"{all_}-{value}"


def reference(value: str) -> str | None:
    """The foreign key of a table's value: its first letter, if there is one and it is not an x."""
    return None if not value or value.startswith("x") else value[0]


def reference_or_none(value: str | None) -> str | None:
    return None if value is None else reference(value)


def by_reference(app: Builder) -> GroupedTable[Any, str]:
    return left_table(app).group_by(lambda value: (reference(value), value), key=str, value=str)


def key_and(key: str | None, value: str | None) -> str:
    return "".join("null" if part is None else part for part in (key, value))


def stateless(app: Builder) -> None:
    some = left(app).filter(lambda value: value is not None and not value.startswith("a"))
    pairs = some.filter_not(lambda value: value.endswith("b")).map(
        lambda key, value: (value, key), key=str, value=str
    )
    both = pairs.merge(right(app).map_values(key_and))
    chosen = both.select_key(lambda value: value, key=str)
    chosen.flat_map(lambda key, value: [(key, "1"), ("2", value)], key=str, value=str).to("out")


def repartition(app: Builder) -> None:
    left(app).select_key(lambda value: value, key=str).repartition().merge(right(app)).to("out")


class Ticking(Processor[str, str, str, str]):
    """Counts by key in a store; every ten milliseconds of stream time it emits how many records it has seen."""

    def init(self, context: Context[str, str]) -> None:
        self.counts: KeyValueState[str, int] = context.store("counts")
        self.timer = context.schedule(ms(10), self.tick)

    def process(self, record: Record[str, str]) -> None:
        key = record.key or "none"
        self.counts.put(key, (self.counts.get(key) or 0) + 1)
        self.context.forward(record.with_key(key).with_value(f"{key}{self.counts.get(key)}"))

    def tick(self, now_ms: int) -> None:
        seen = sum(count for _, count in self.counts.items())
        self.context.forward(Record("tick", str(seen), now_ms))
        if seen > 30:
            self.timer.cancel()


def processor(app: Builder) -> None:
    store = key_value_store("counts", key=str, value=int)
    left(app).process(Ticking, stores=[store], key=str, value=str).to("out")


class KeepingWindows(Processor[str, str, str, str]):
    """Keeps values in windows of five milliseconds, and emits the store's content for a key after each record."""

    def init(self, context: Context[str, str]) -> None:
        self.windows: WindowState[str, str] = context.store("windows")

    def process(self, record: Record[str, str]) -> None:
        key, start_ms = record.key or "none", record.timestamp_ms // 5 * 5
        self.windows.put(key, record.value, start_ms)
        shown = "".join(f"{at_ms}={value} " for at_ms, value in self.windows.fetch(key, 0, 10_000))
        one, other = self.windows.get(key, start_ms), self.windows.get(key, max(0, start_ms - 20))
        text = f"{shown}{'null' if one is None else one}{'null' if other is None else other}"
        self.context.forward(record.with_key(key).with_value(text))


def processor_windows(app: Builder) -> None:
    store = window_store("windows", key=str, value=str, window=ms(5), retention=ms(20))
    left(app).process(KeepingWindows, stores=[store], key=str, value=str).to("out")


class KeepingSessions(Processor[str, str, str, str]):
    """Keeps sessions with gaps of three milliseconds, and emits the store's content for a key after each record."""

    def init(self, context: Context[str, str]) -> None:
        self.sessions: SessionState[str, str] = context.store("sessions")

    def process(self, record: Record[str, str]) -> None:
        key, time_ms = record.key or "none", record.timestamp_ms
        start_ms = end_ms = time_ms
        for met, _ in list(self.sessions.find(key, time_ms - 3, time_ms + 3)):
            start_ms, end_ms = min(start_ms, met.start_ms), max(end_ms, met.end_ms)
            self.sessions.delete(met)
        self.sessions.put(Windowed(key, start_ms, end_ms), "-" if record.value is None else record.value)
        found = sorted(self.sessions.find(key, 0, 10_000), key=lambda each: each[0].start_ms)
        shown = "".join(f"{session.start_ms}-{session.end_ms}={value} " for session, value in found)
        self.context.forward(record.with_key(key).with_value(shown))


def processor_sessions(app: Builder) -> None:
    store = session_store("sessions", key=str, value=str, retention=ms(20))
    left(app).process(KeepingSessions, stores=[store], key=str, value=str).to("out")


class Counting(Transformer[str, str, str]):
    """Values with the number of changes of their key; every third change deletes it."""

    def init(self, context: Context[Any, Any]) -> None:
        self.changes: KeyValueState[str, int] = context.store("changes")

    def transform(self, key: str, value: str | None) -> str | None:
        count = (self.changes.get(key) or 0) + 1
        self.changes.put(key, count)
        return None if count % 3 == 0 else f"{'null' if value is None else value}{count}"


def transformed(app: Builder) -> Table[str, str]:
    return left_table(app).transform_values(Counting, stores=[key_value_store("changes", key=str, value=int)])


TOPOLOGIES: dict[str, Callable[[Builder], object]] = {
    "count": lambda app: grouped(app).count().to("out"),
    "reduce": lambda app: grouped(app).reduce(shown).to("out"),
    "aggregate": lambda app: grouped(app).aggregate(str, add).to("out"),
    "group-by": lambda app: left(app).group_by(reference, key=str).count().to("out"),
    "words": lambda app: left(app).flat_map(list, value=str).group_by_value().count().to("out"),
    "stateless": stateless,
    "repartition": repartition,
    "cogroup": lambda app: (
        grouped(app).cogroup(add).cogroup(right(app).group_by_key(), add_right).aggregate(str).to("out")
    ),
    "processor": processor,
    "processor-windows": processor_windows,
    "processor-windows-on-disk": processor_windows,
    "processor-sessions": processor_sessions,
    "unlimited": lambda app: grouped(app).windowed_by(UNLIMITED).count().to("out"),
    "tumbling": lambda app: grouped(app).windowed_by(TUMBLING).aggregate(str, add).to("out"),
    "hopping": lambda app: grouped(app).windowed_by(HOPPING).count().to("out"),
    "sliding": lambda app: grouped(app).windowed_by(SLIDING).aggregate(str, add).to("out"),
    "sliding-reduce": lambda app: grouped(app).windowed_by(SLIDING).reduce(shown).to("out"),
    "sessions": lambda app: grouped(app).windowed_by(SESSIONS).aggregate(str, add, merger=add).to("out"),
    "sessions-count": lambda app: grouped(app).windowed_by(SESSIONS).count().to("out"),
    "cogroup-tumbling": lambda app: (
        grouped(app)
        .cogroup(add)
        .cogroup(right(app).group_by_key(), add_right)
        .windowed_by(TUMBLING)
        .aggregate(str)
        .to("out")
    ),
    "tumbling-close": lambda app: grouped(app).windowed_by(TUMBLING, emit="close").count().to("out"),
    "hopping-close": lambda app: grouped(app).windowed_by(HOPPING, emit="close").count().to("out"),
    "sliding-close": lambda app: grouped(app).windowed_by(SLIDING, emit="close").count().to("out"),
    "sessions-close": lambda app: grouped(app).windowed_by(SESSIONS, emit="close").count().to("out"),
    "tumbling-suppressed": lambda app: (
        grouped(app).windowed_by(TUMBLING).count().suppress(until_window_closes()).to("out")
    ),
    "sessions-suppressed": lambda app: (
        grouped(app).windowed_by(SESSIONS).count().suppress(until_window_closes()).to("out")
    ),
    "time-limit": lambda app: left_table(app).suppress(until_time_limit(ms(6))).to("out"),
    "few-records": lambda app: (
        grouped(app).count().suppress(until_time_limit(ms(100), max_records=1)).to("out")
    ),
    "few-bytes": lambda app: (
        grouped(app).aggregate(str, add).suppress(until_time_limit(ms(100), max_bytes=120)).to("out")
    ),
    "few-records-and-bytes": lambda app: (
        left_table(app).suppress(until_time_limit(ms(20), max_bytes=75, max_records=3)).to("out")
    ),
    "stream-join": lambda app: left(app).join(right(app), shown, within=WITHIN).to("out"),
    "stream-left-join": lambda app: left(app).left_join(right(app), shown, within=WITHIN).to("out"),
    "stream-outer-join": lambda app: left(app).outer_join(right(app), shown, within=WITHIN).to("out"),
    "stream-table-join": lambda app: left(app).join(right_table(app), shown).to("out"),
    "stream-table-left-join": lambda app: left(app).left_join(right_table(app), shown).to("out"),
    "global-join": lambda app: (
        left(app).join(app.global_table("right", key=str, value=str), shown, on=reference_or_none).to("out")
    ),
    "global-left-join": lambda app: (
        left(app)
        .left_join(app.global_table("right", key=str, value=str), shown, on=reference_or_none)
        .to("out")
    ),
    "stream-versioned-join": lambda app: left(app).join(versioned(app, "right"), shown).to("out"),
    "stream-versioned-left-join": lambda app: (
        left(app)
        .left_join(
            versioned(app, "right")
            .map_values(lambda key, value: key + value, value=str)
            .filter(lambda value: not value.endswith("x")),
            shown,
        )
        .to("out")
    ),
    "stream-versioned-grace-join": lambda app: (
        left(app).join(versioned(app, "right"), shown, grace=ms(12)).to("out")
    ),
    "stream-versioned-grace-left-join": lambda app: (
        left(app)
        .filter(lambda key, value: key is not None)
        .left_join(versioned(app, "right"), shown, grace=ms(12))
        .to("out")
    ),
    "versioned-table": lambda app: versioned(app, "left").to("out"),
    "versioned-to-table": lambda app: left(app).to_table(history=ms(25)).to("out"),
    "versioned-filter": lambda app: (
        versioned(app, "left")
        .filter(lambda value: value.startswith("a"))
        .map_values(lambda key, value: key + value, value=str)
        .to("out")
    ),
    "versioned-table-join": lambda app: versioned(app, "left").join(versioned(app, "right"), shown).to("out"),
    "versioned-table-left-join": lambda app: (
        versioned(app, "left").left_join(right_table(app), shown).to("out")
    ),
    "versioned-table-outer-join": lambda app: (
        versioned(app, "left")
        .filter(lambda value: value.startswith("a"))
        .outer_join(versioned(app, "right"), shown)
        .to("out")
    ),
    "versioned-foreign-key-join": lambda app: (
        versioned(app, "left").join(versioned(app, "right"), shown, on=reference).to("out")
    ),
    "versioned-aggregate": lambda app: (
        versioned(app, "left")
        .group_by(lambda value: (reference(value), value), key=str, value=str)
        .aggregate(str, plus, minus)
        .to("out")
    ),
    "table": lambda app: left_table(app).to("out"),
    "table-filter": lambda app: left_table(app).filter(lambda value: value.startswith("a")).to("out"),
    "table-map-values": lambda app: (
        left_table(app).map_values(lambda key, value: key + value, value=str).to("out")
    ),
    "table-transform-values": lambda app: transformed(app).to("out"),
    "table-transform-join": lambda app: transformed(app).left_join(right_table(app), shown).to("out"),
    "table-count": lambda app: by_reference(app).count().to("out"),
    "table-aggregate": lambda app: by_reference(app).aggregate(str, plus, minus).to("out"),
    "table-reduce": lambda app: by_reference(app).reduce(plus, minus).to("out"),
    "table-join": lambda app: left_table(app).join(right_table(app), shown).to("out"),
    "table-left-join": lambda app: left_table(app).left_join(right_table(app), shown).to("out"),
    "table-outer-join": lambda app: left_table(app).outer_join(right_table(app), shown).to("out"),
    "foreign-key-join": lambda app: left_table(app).join(right_table(app), shown, on=reference).to("out"),
    "foreign-key-left-join": lambda app: (
        left_table(app).left_join(right_table(app), shown, on=reference).to("out")
    ),
}
