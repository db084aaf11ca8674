"""The rows of a table in batches: the same as one send per row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.records import batches as reference
from penstock.client.producer.arrow_rows import TopicRows, rows_of
from penstock.records.producing import Intake, RowAppender, TopicQueues, murmur2
from penstock.records.table_rows import Fault

PAIRS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
TOPICS = {"orders": 4, "parts": 3}  # with their partition counts
NOW_MS = 1000

Row = dict[str, Any]


class Host:
    """Chooses partitions in turn, and records its calls."""

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


def intake_of(**changed: Any) -> Any:
    options = {"batch_bytes_max": 300, "buffer_bytes": 100_000, "record_bytes_max": 1_000}
    host = Host()
    made = Intake(host, now_ms=lambda: 5, wall_ms=lambda: NOW_MS, **{**options, **changed})  # type: ignore[arg-type]
    for topic, count in TOPICS.items():
        made.topics[topic] = TopicQueues(topic, count)
    return made, host


def appender_of(intake: Any, taken: TopicRows, **options: Any) -> RowAppender:
    topics = [intake.topics[name] for name in taken.topics]
    return RowAppender(intake, topics, taken.rows, **{"record_bytes_max": 1_000, **options})


def written(intake: Any) -> dict[tuple[str, int], list[list[Any]]]:
    """The records of every batch."""
    found = {}
    for topic in intake.topics.values():
        for queue in topic.queues:
            queue.close_open()
            batches = [
                list(map(tuple, reference.iterate_records(bytes(each.seal())))) for each in queue.closed
            ]
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
        "topic": st.sampled_from(list(TOPICS)),
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
def test_a_table_equals_one_send_per_row(
    rows: list[Row], skipped: int, kind: pa.DataType, unit: str, ignores_keys: bool
) -> None:
    sent = rows[skipped:]
    expected, host = intake_of(ignores_keys=ignores_keys)
    for row in sent:
        expected.send(
            row["topic"],
            row["value"],
            key=row["key"],
            headers=row["headers"],
            partition=row["partition"],
            timestamp_ms=row["timestamp"],
        )
    intake, reported = intake_of(ignores_keys=ignores_keys)
    appender = appender_of(intake, rows_of(table_of(rows, kind=kind, unit=unit)[skipped:], None))

    assert appender.fault() is None
    assert appender.append()
    assert (appender.next_row, reported.calls) == (len(sent), host.calls)
    assert intake.available_bytes == expected.available_bytes
    news, expected_news = ([queue.partition for queue in each.take_news()] for each in (intake, expected))
    assert news == expected_news
    check_places(appender, sent, ignores_keys)
    assert written(intake) == written(expected)


def check_places(appender: RowAppender, rows: list[Row], ignores_keys: bool) -> None:
    """Every row is the record of its span, in the partition that the row or its key chooses."""
    ranks = [0] * len(appender.spans)
    for row, number in zip(rows, appender.span_of_row, strict=True):
        span = appender.spans[number]
        records = list(reference.iterate_records(bytes(span.batch.seal())))
        record = records[span.first + ranks[number]]
        ranks[number] += 1
        timestamp = NOW_MS if row["timestamp"] is None else row["timestamp"]
        assert record[1:] == (timestamp, row["key"], row["value"], tuple(row["headers"] or ()))
        assert span.batch.topic == row["topic"]
        if row["partition"] is not None:
            assert span.batch.partition == row["partition"]
        elif row["key"] is not None and not ignores_keys:
            assert span.batch.partition == (murmur2(row["key"]) & 0x7FFF_FFFF) % TOPICS[row["topic"]]
        assert span.number == number
    assert ranks == [span.count for span in appender.spans]


def plain(*values: bytes | None, **columns: Any) -> TopicRows:
    made = {"value": pa.array(values, pa.binary())}
    return rows_of(pa.RecordBatch.from_pydict(made | columns), "orders")


def test_rows_wait_for_buffer_memory_and_continue() -> None:
    intake, _ = intake_of(buffer_bytes=400)
    appender = appender_of(intake, plain(*[b"v" * 60] * 10, partition=pa.array([1] * 10, pa.int32())))
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


def test_no_row_is_appended_when_the_intake_is_closed() -> None:
    intake, _ = intake_of()
    appender = appender_of(intake, plain(b"a", b"b"))
    intake.is_open = False

    assert not appender.append()
    assert appender.next_row == 0


def test_an_appender_that_yields_stops_when_a_batch_is_full() -> None:
    intake, host = intake_of()
    appender = appender_of(intake, plain(*[b"v" * 60] * 8), stops_when_filled=True)
    stops = []
    while not appender.append():
        stops.append((appender.next_row, appender.wanted_bytes))

    assert stops == [(4, 0), (7, 0)]
    assert host.calls == ["opened", "filled", "filled"]


def test_records_between_the_rows_begin_another_span() -> None:
    intake, host = intake_of(batch_bytes_max=10_000)
    host.opened = lambda: intake.append(intake.topics["orders"], 2, 1, b"", b"other", None)
    taken = plain(b"a", b"b", b"c", partition=pa.array([2, 2, 2], pa.int32()))
    appender = appender_of(intake, taken)

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
def test_the_first_row_that_cannot_be_sent_is_found(columns: dict[str, Any], fault: Fault) -> None:
    intake, _ = intake_of()
    good = plain(b"a", b"b")
    assert appender_of(intake, good).fault() is None
    assert appender_of(intake, plain(b"a", b"b", **columns)).fault() == (1, fault)


def test_a_null_topic_is_found() -> None:
    intake, _ = intake_of()
    table = pa.RecordBatch.from_pydict({"topic": ["orders", None], "value": [b"a", b"b"]})
    assert appender_of(intake, rows_of(table, None)).fault() == (1, Fault.NO_TOPIC)


def test_a_table_without_rows_is_done_at_once() -> None:
    intake, host = intake_of()
    appender = appender_of(intake, plain())

    assert appender.fault() is None
    assert appender.append()
    assert (appender.spans, host.calls) == ([], [])
