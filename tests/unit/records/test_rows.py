"""Rows of a table into batches: the compiled way does what the plain one does, and both what so many sends would do."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.producer.arrow_rows import TopicRows, rows_of
from penstock.records import intake_twin, rows_twin, twin
from penstock.records.rows_twin import Fault
from strategies.records import rows_modules

MODULES = [pytest.param((intake_twin, rows_twin), id="twin"), pytest.param(rows_modules(), id="compiled")]
PAIRS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
TOPICS = ("orders", "parts")
NOW_MS = 1000

Modules = tuple[ModuleType, ModuleType]
Row = dict[str, Any]


class Host:
    """Chooses partitions in turn, and remembers what it was told."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.chosen = 0

    def choose(self, topic: Any) -> Any:
        self.chosen += 1
        return topic.queues[(self.chosen - 1) % len(topic.queues)]

    def opened(self) -> None:
        self.calls.append("opened")

    def filled(self) -> None:
        self.calls.append("filled")


def intake_of(module: ModuleType, **changed: Any) -> Any:
    options = {"batch_bytes_max": 300, "buffer_bytes": 100_000, "record_bytes_max": 1_000}
    host = Host()
    made = module.Intake(host, now_ms=lambda: 5, wall_ms=lambda: NOW_MS, **{**options, **changed})
    for topic, count in zip(TOPICS, (4, 3), strict=True):
        made.topics[topic] = module.TopicQueues(topic, count)
    return made, host


def appender_of(modules: Modules, intake: Any, taken: TopicRows, **options: Any) -> Any:
    topics = [intake.topics[name] for name in taken.topics]
    return modules[1].RowAppender(intake, topics, taken.rows, **{"record_bytes_max": 1_000, **options})


def written(intake: Any) -> dict[tuple[str, int], list[list[Any]]]:
    """The records of every batch."""
    found = {}
    for topic in intake.topics.values():
        for queue in topic.queues:
            queue.close_open()
            batches = [list(map(tuple, twin.iterate_records(bytes(each.seal())))) for each in queue.closed]
            if batches:
                found[topic.name, queue.partition] = batches
    return found


def table_of(rows: list[Row], *, kind: pa.DataType | None = None, unit: str = "us") -> pa.RecordBatch:
    kind = kind or pa.binary()
    per_ms = {"ms": 1, "us": 1000, "ns": 1_000_000}[unit]
    times = [None if row["timestamp"] is None else row["timestamp"] * per_ms for row in rows]
    headers = [
        None
        if row["headers"] is None
        else [{"key": name, "value": content} for name, content in row["headers"]]
        for row in rows
    ]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([row["topic"] for row in rows], pa.string()),
            pa.array([row["key"] for row in rows], kind),
            pa.array([row["value"] for row in rows], kind),
            pa.array(headers, PAIRS),
            pa.array([row["partition"] for row in rows], pa.int32()),
            pa.array(times, pa.int64()).cast(pa.timestamp(unit, "UTC")),
        ],
        ["topic", "key", "value", "headers", "partition", "timestamp"],
    )


ROWS = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(TOPICS),
        "key": st.none() | st.binary(max_size=12),
        "value": st.none() | st.binary(max_size=120),
        "headers": st.none()
        | st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=5)), max_size=3),
        "partition": st.none() | st.integers(0, 2),
        "timestamp": st.none() | st.integers(0, 2**40),
    }
)


@given(
    st.lists(ROWS, min_size=1, max_size=40),
    st.integers(0, 5),
    st.sampled_from([pa.binary(), pa.large_binary()]),
    st.sampled_from(["ms", "us", "ns"]),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_a_table_is_so_many_sends(
    rows: list[Row], skipped: int, kind: pa.DataType, unit: str, ignores_keys: bool
) -> None:
    sent = rows[skipped:]
    expected, host = intake_of(intake_twin, ignores_keys=ignores_keys)
    for row in sent:
        expected.send(
            row["topic"],
            row["value"],
            key=row["key"],
            headers=row["headers"],
            partition=row["partition"],
            timestamp_ms=row["timestamp"],
        )
    batches = written(expected)
    news = [queue.partition for queue in expected.take_news()]
    for modules in ((intake_twin, rows_twin), rows_modules()):
        intake, told = intake_of(modules[0], ignores_keys=ignores_keys)
        appender = appender_of(modules, intake, rows_of(table_of(rows, kind=kind, unit=unit)[skipped:], None))

        assert appender.fault() is None
        assert appender.append()
        assert (appender.next_row, told.calls) == (len(sent), host.calls)
        assert intake.room_bytes == expected.room_bytes
        assert [queue.partition for queue in intake.take_news()] == news
        check_places(appender, sent)
        assert written(intake) == batches


def check_places(appender: Any, rows: list[Row]) -> None:
    """Every row stands where its span says."""
    ranks = [0] * len(appender.spans)
    for row, number in zip(rows, appender.span_of_row, strict=True):
        span = appender.spans[number]
        records = list(twin.iterate_records(bytes(span.batch.seal())))
        record = records[span.first + ranks[number]]
        ranks[number] += 1
        assert (record.key, record.value) == (row["key"], row["value"])
        assert span.number == number
    assert ranks == [span.count for span in appender.spans]


@pytest.fixture(params=MODULES)
def modules(request: pytest.FixtureRequest) -> Modules:
    found: Modules = request.param
    return found


def plain(*values: bytes | None, **columns: Any) -> TopicRows:
    made = {"value": pa.array(values, pa.binary())}
    return rows_of(pa.RecordBatch.from_pydict(made | columns), "orders")


def test_rows_wait_for_room_and_go_on(modules: Modules) -> None:
    intake, _ = intake_of(modules[0], buffer_bytes=400)
    appender = appender_of(
        modules, intake, plain(*[b"v" * 60] * 10, partition=pa.array([1] * 10, pa.int32()))
    )
    appended = []
    while not appender.append():
        appended.append(appender.next_row)
        assert appender.wanted_bytes == appender.size_of(appender.next_row) == 61 + 31 + 60 + 1
        queue = intake.topics["orders"].queues[1]
        queue.close_open()
        while (batch := queue.take()) is not None:
            intake.give_back(batch)

    assert appended == [3, 6, 9]
    assert [span.count for span in appender.spans] == [3, 3, 3, 1]
    assert list(appender.span_of_row) == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]


def test_no_row_comes_in_when_the_intake_is_closed(modules: Modules) -> None:
    intake, _ = intake_of(modules[0])
    appender = appender_of(modules, intake, plain(b"a", b"b"))
    intake.is_open = False

    assert not appender.append()
    assert appender.next_row == 0


def test_one_that_gives_others_a_turn_stops_where_a_batch_is_full(modules: Modules) -> None:
    intake, host = intake_of(modules[0])
    appender = appender_of(modules, intake, plain(*[b"v" * 60] * 8), stops_when_filled=True)
    stops = []
    while not appender.append():
        stops.append((appender.next_row, appender.wanted_bytes))

    assert stops == [(4, 0), (7, 0)]
    assert host.calls == ["opened", "filled", "filled"]


def test_records_of_others_between_the_rows_begin_another_span(modules: Modules) -> None:
    intake, host = intake_of(modules[0], batch_bytes_max=10_000)
    host.opened = lambda: intake.append(intake.topics["orders"], 2, 1, b"", b"other", None)
    taken = plain(b"a", b"b", b"c", partition=pa.array([2, 2, 2], pa.int32()))
    appender = appender_of(modules, intake, taken)

    assert appender.append()
    assert [(span.first, span.count) for span in appender.spans] == [(0, 1), (2, 2)]


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({"partition": [0, 4]}, Fault.NO_SUCH_PARTITION),
        ({"partition": [3, -1]}, Fault.NO_SUCH_PARTITION),
        ({"timestamp": [5, -1]}, Fault.TOO_EARLY),
        ({"key": [b"", b"k" * 950]}, Fault.TOO_LARGE),
        ({"headers": pa.array([None, [{"key": "k", "value": b"v" * 950}]], PAIRS)}, Fault.TOO_LARGE),
        ({"headers": pa.array([[], [{"key": None, "value": b""}]], PAIRS)}, Fault.NAMELESS_HEADER),
        ({"headers": pa.array([[], [None]], PAIRS)}, Fault.NAMELESS_HEADER),
    ],
)
def test_the_first_row_that_cannot_be_sent_is_found(
    modules: Modules, columns: dict[str, Any], fault: Fault
) -> None:
    intake, _ = intake_of(modules[0])
    good = plain(b"a", b"b")
    assert appender_of(modules, intake, good).fault() is None
    assert appender_of(modules, intake, plain(b"a", b"b", **columns)).fault() == (1, fault)


def test_a_null_topic_is_found(modules: Modules) -> None:
    intake, _ = intake_of(modules[0])
    table = pa.RecordBatch.from_pydict({"topic": ["orders", None], "value": [b"a", b"b"]})
    assert appender_of(modules, intake, rows_of(table, None)).fault() == (1, Fault.NO_TOPIC)


def test_a_table_without_rows_is_done_at_once(modules: Modules) -> None:
    intake, host = intake_of(modules[0])
    appender = appender_of(modules, intake, plain())

    assert appender.fault() is None
    assert appender.append()
    assert (appender.spans, host.calls) == ([], [])
