"""Processors: stores, timers, headers, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.streams import (
    Builder,
    Context,
    KeyValueState,
    Processor,
    Record,
    SessionState,
    TopologyError,
    Windowed,
    WindowState,
    key_value_store,
    session_store,
    window_store,
)
from penstock.testing import TopologyTest

SEEN = key_value_store("seen", key=str, value=int)


class Once(Processor[str, str, str, str]):
    """Forwards each key once, until it expires."""

    def init(self, context: Context[str, str]) -> None:
        self.seen: KeyValueState[str, int] = context.store("seen")
        context.schedule(10, self.forget, clock="wall")

    def process(self, record: Record[str, str]) -> None:
        if self.seen.get(record.key) is None:
            self.seen.put(record.key, record.timestamp_ms)
            self.context.forward(record)

    def forget(self, now_ms: int) -> None:
        for key, seen_ms in self.seen.items():
            assert seen_ms <= now_ms
            self.seen.delete(key)


def processed(processor: Any, stores: Any = (), **options: Any) -> TopologyTest:
    app = Builder()
    app.stream("in", key=str, value=str).process(processor, stores=stores, **options).to(
        "out", key=str, value=str
    )
    return TopologyTest(app)


def doing(
    action: Callable[[Context[Any, Any], Record[str, str]], None],
) -> type[Processor[Any, Any, Any, Any]]:
    """A processor that does one thing with each record."""

    class Doing(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            action(self.context, record)

    return Doing


def test_a_processor_keeps_what_it_puts_into_its_store() -> None:
    test = processed(Once, [SEEN])

    test.input("in").send_pairs([("a", "1"), ("a", "2"), ("b", "3")])

    assert test.output("out").read_key_values() == [("a", "1"), ("b", "3")]
    assert list(test.store("seen").items()) == [("a", 0), ("b", 0)]


def test_the_wall_clock_fires_timers() -> None:
    test = processed(Once, [SEEN])
    test.input("in").send("1", key="a")

    test.advance(9.999)
    assert list(test.store("seen").items()) == [("a", 0)]
    test.advance(0.001)
    assert list(test.store("seen").items()) == []


def test_stream_time_fires_a_timer_once_however_far_it_advances() -> None:
    fired: list[int] = []

    class Timed(Processor[str, str, str, str]):
        def init(self, context: Context[str, str]) -> None:
            self.timer = context.schedule(10, self.tell)

        def tell(self, now_ms: int) -> None:
            fired.append(now_ms)
            self.context.forward(Record("timer", str(now_ms), now_ms))
            if now_ms > 50_000:
                self.timer.cancel()

        def process(self, record: Record[str, str]) -> None:
            pass

    test = processed(Timed)
    for time_s in (1, 9, 10, 12, 45, 49, 51, 90):
        test.input("in").send("x", key="a", timestamp_ms=time_s * 1000)

    assert fired == [1000, 10_000, 45_000, 51_000]
    assert [record.timestamp_ms for record in test.output("out").read()] == fired


def test_headers_and_timestamps_can_be_read_and_changed() -> None:
    app = Builder()
    app.stream("in", key=str, value=str).map_records(
        lambda record: (
            record.with_value(f"{record.header('trace')!r} {record.timestamp_ms}")
            .with_headers({"seen": b"yes"})
            .with_timestamp(record.timestamp_ms + 1)
        )
    ).to("out")
    test = TopologyTest(app)

    test.input("in").send("x", key="a", timestamp_ms=5, headers=[("trace", b"1"), ("trace", b"2")])

    assert test.output("out").read() == [Record("a", "b'2' 5", 6, (("seen", b"yes"),))]


def test_a_record_keeps_its_headers() -> None:
    app = Builder()
    app.stream("in", key=str, value=str).map_values(str.upper).group_by_key().count().to("out")
    test = TopologyTest(app)

    test.input("in").send("x", key="a", headers={"trace": b"1"})

    assert test.output("out").read_one().header("trace") == b"1"


def test_a_processor_knows_the_position_of_its_record() -> None:
    found: list[Any] = []

    def look(context: Context[Any, Any], record: Record[str, str]) -> None:
        found.append(
            (context.topic, context.partition, context.offset, context.stream_time_ms, context.wall_time_ms)
        )

    test = processed(doing(look))
    test.input("in").send("x", timestamp_ms=7)
    test.advance(1)
    test.input("in").send("x", timestamp_ms=3)

    assert found == [("in", 0, 0, 7, 0), ("in", 0, 1, 7, 1000)]


def test_window_stores_delete_expired_rows() -> None:
    def put(context: Context[Any, Any], record: Record[str, str]) -> None:
        store: WindowState[str, int] = context.store("windows")
        store.put(record.key, int(record.value), record.timestamp_ms)

    store = window_store("windows", key=str, value=int, window=0.01, retention=0.1)
    test = processed(doing(put), [store])
    for key, value, time_ms in (
        ("a", "1", 0),
        ("a", "2", 50),
        ("b", "3", 50),
        ("a", "4", 120),
        ("a", "5", 10),
    ):
        test.input("in").send(value, key=key, timestamp_ms=time_ms)

    windows = test.store("windows")
    assert list(windows.fetch("a", 0, 200)) == [(50, 2), (120, 4)]
    assert list(windows.fetch("a", 51, 119)) == []
    assert windows.get("a", 0) is None
    assert windows.get("b", 50) == 3
    assert list(windows.items()) == [
        (Windowed("a", 50, 60), 2),
        (Windowed("a", 120, 130), 4),
        (Windowed("b", 50, 60), 3),
    ]


def test_expired_rows_of_window_stores_are_deleted() -> None:
    """They were hidden and never deleted: a store grew as long as the program ran."""

    def put(context: Context[Any, Any], record: Record[str, str]) -> None:
        context.store("windows").put(record.key, 1, record.timestamp_ms)

    test = processed(doing(put), [window_store("windows", key=str, value=int, window=0.01, retention=0.1)])
    most = 0
    for time_ms in range(0, 2000, 10):
        test.input("in").send("1", key=str(time_ms), timestamp_ms=time_ms)
        most = max(most, len(test.store("windows")._state))

    assert most <= 15 + 1  # one and a half retention periods, of ten rows each
    assert len(list(test.store("windows").items())) == 10


def test_expired_rows_of_session_stores_are_deleted() -> None:
    def put(context: Context[Any, Any], record: Record[str, str]) -> None:
        session = Windowed(record.key, record.timestamp_ms - 5, record.timestamp_ms)
        context.store("sessions").put(session, 1)

    test = processed(doing(put), [session_store("sessions", key=str, value=int, retention=0.1)])
    most = 0
    for time_ms in range(10, 2000, 10):
        test.input("in").send("1", key="a", timestamp_ms=time_ms)
        most = max(most, len(test.store("sessions")._state))

    assert most <= 15 + 1
    assert len(list(test.store("sessions").find("a", 0, 5000))) == 10


def test_an_expired_row_is_hidden_before_it_is_deleted_and_no_late_put_brings_it_back() -> None:
    def put(context: Context[Any, Any], record: Record[str, str]) -> None:
        context.store("windows").put(record.key, int(record.value), record.timestamp_ms)

    test = processed(doing(put), [window_store("windows", key=str, value=int, window=0.01, retention=0.1)])
    for value, time_ms in (("1", 0), ("2", 99), ("3", 100), ("4", 0)):
        test.input("in").send(value, key="a", timestamp_ms=time_ms)

    windows = test.store("windows")
    assert windows.get("a", 0) is None
    assert list(windows.fetch("a", 0, 1000)) == [(99, 2), (100, 3)]


def test_session_stores_find_overlapping_sessions() -> None:
    def put(context: Context[Any, Any], record: Record[str, str]) -> None:
        store: SessionState[str, str] = context.store("sessions")
        for session, _ in list(store.find(record.key, record.timestamp_ms - 5, record.timestamp_ms + 5)):
            store.delete(session)
        store.put(Windowed(record.key, record.timestamp_ms, record.timestamp_ms), record.value)

    store = session_store("sessions", key=str, value=str, retention=0.1)
    test = processed(doing(put), [store])
    for value, time_ms in (("1", 0), ("2", 4), ("3", 20), ("4", 110)):
        test.input("in").send(value, key="a", timestamp_ms=time_ms)

    sessions = test.store("sessions")
    assert [value for _, value in sessions.find("a", 0, 200)] == ["3", "4"]
    assert sessions.get(Windowed("a", 4, 4)) is None
    assert sessions.get(Windowed("a", 20, 20)) == "3"


def test_ranges_of_a_store_go_by_the_bytes_of_keys() -> None:
    def put(context: Context[Any, Any], record: Record[str, str]) -> None:
        context.store("seen").put(record.key, 1)

    test = processed(doing(put), [SEEN])
    test.input("in").send_pairs([("c", "1"), ("a", "1"), ("b", "1")])

    assert [key for key, _ in test.store("seen").items("b")] == ["b", "c"]
    assert [key for key, _ in test.store("seen").items("a", "b")] == ["a", "b"]


def test_processors_can_share_a_store() -> None:
    app = Builder()

    def put(context: Context[Any, Any], record: Record[str, str]) -> None:
        context.store("seen").put(record.key, len(record.value))

    for topic in ("one", "two"):
        app.stream(topic, key=str, value=str).process(doing(put), stores=[SEEN])
    test = TopologyTest(app)
    test.input("one").send("xx", key="a")
    test.input("two").send("xxx", key="a")

    assert test.store("seen").get("a") == 3


def test_mistakes_in_a_processor_are_reported() -> None:
    def forward_text(context: Context[Any, Any], record: Record[str, str]) -> None:
        context.forward("text")  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="forwards a Record"):
        processed(doing(forward_text)).input("in").send("x")
    with pytest.raises(TypeError, match="must define `process`"):
        processed(Processor).input("in").send("x")
    with pytest.raises(TopologyError, match="without the store nothing; its stores: seen"):
        processed(doing(lambda context, record: context.store("nothing")), [SEEN]).input("in").send("x")
    with pytest.raises(TopologyError, match="not 'moon'"):
        processed(doing(lambda context, record: context.schedule(1, print, clock="moon"))).input("in").send(
            "x"
        )  # type: ignore[arg-type,func-returns-value]


def test_process_values_leaves_keys_alone() -> None:
    app = Builder()
    stream = app.stream("in", key=str, value=str)
    stream.process_values(
        doing(lambda context, record: context.forward(record.with_key("other"))), name="fixed"
    )

    with pytest.raises(TopologyError, match="fixed must not change keys"):
        TopologyTest(app).input("in").send("x", key="a")


def test_processors_are_closed() -> None:
    closed: list[bool] = []

    class Closing(Processor[str, str, str, str]):
        def close(self) -> None:
            closed.append(True)

    with processed(Closing) as test:
        pass
    test.close()

    assert closed == [True]
