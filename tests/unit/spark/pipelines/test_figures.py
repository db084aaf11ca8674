"""The figures of a query, from Spark's reports."""

from __future__ import annotations

from typing import Any

from penstock.spark.pipelines.figures import QueryFigures, read_offsets


def report(
    batch: int, *, end: int, latest: int, rows: int, start: int | None = None, **more: Any
) -> dict[str, Any]:
    source = {
        "startOffset": None if start is None else {"orders": {"0": start}},
        "endOffset": {"orders": {"0": end}, "@ids": {"orders": "x"}},
        "latestOffset": {"orders": {"0": latest}},
    }
    return {
        "batchId": batch,
        "timestamp": f"2026-01-01T00:00:{batch:02}.000Z",
        "batchDuration": 250,
        "numInputRows": rows,
        "inputRowsPerSecond": "NaN",
        "processedRowsPerSecond": 400.0,
        "sources": [source],
        "sink": {"numOutputRows": 3},
        **more,
    }


def test_rows_add_up_over_batches() -> None:
    figures = QueryFigures("counts")

    figures.take(report(0, end=100, latest=300, rows=100))
    figures.take(report(1, end=200, latest=300, rows=100))

    assert (figures.rows_in, figures.rows_out, figures.batch) == (200, 6, 1)


def test_an_apps_input_is_counted_in_records_and_not_in_packed_rows() -> None:
    figures = QueryFigures("counts", is_packed=True)

    figures.take(report(0, end=2000, latest=2500, rows=15, inputRowsPerSecond=30.0))
    figures.take(report(1, end=2500, latest=2500, rows=5, inputRowsPerSecond=10.0, start=2000))

    assert (figures.rows_in, figures.rows_in_per_second, figures.rows_out) == (2500, 1000.0, None)
    assert (figures.goal, figures.done) == (2500, 2500)


def test_a_duplicate_report_counts_once() -> None:
    figures = QueryFigures("counts")

    assert figures.take(report(0, end=100, latest=300, rows=100))
    assert not figures.take(report(0, end=100, latest=300, rows=100))
    assert figures.rows_in == 100


def test_lag_counts_available_unread_records() -> None:
    figures = QueryFigures("counts")

    figures.take(report(0, end=100, latest=300, rows=100))

    assert figures.lag == 200


def test_progress_refers_to_the_records_available_at_the_start() -> None:
    figures = QueryFigures("counts")

    figures.take(report(0, end=100, latest=400, rows=50))  # it started at 50
    assert (figures.goal, figures.done) == (350, 50)
    figures.take(report(1, end=300, latest=9000, rows=200))
    assert figures.fraction == 250 / 350
    figures.take(report(2, end=5000, latest=9000, rows=4700))
    assert figures.fraction == 1.0


def test_without_latest_offsets_there_is_no_progress_fraction() -> None:
    figures = QueryFigures("rate")
    foreign = {"startOffset": 0, "endOffset": 17, "latestOffset": 18}

    figures.take(report(0, end=1, latest=1, rows=17, sources=[foreign]))

    assert (figures.fraction, figures.lag, figures.rows_in) == (None, None, 17)


def test_state_is_reported_in_rows_and_bytes() -> None:
    figures = QueryFigures("counts")
    operators = [
        {"numRowsTotal": 5, "memoryUsedBytes": 100, "customMetrics": {"rocksdbSstFileSize": 4096}},
        {"numRowsTotal": 2, "memoryUsedBytes": 300, "numRowsDroppedByWatermark": 1},
    ]

    figures.take(report(0, end=1, latest=1, rows=1, stateOperators=operators))

    assert (figures.state_rows, figures.state_bytes, figures.late_rows) == (7, 4396, 1)


def test_a_batch_that_took_no_time_has_rate_zero_and_not_infinity() -> None:
    figures = QueryFigures("counts")

    figures.take(report(0, end=1, latest=1, rows=1, inputRowsPerSecond="Infinity"))

    assert figures.rows_in_per_second == 0.0


def test_json_has_only_public_fields() -> None:
    figures = QueryFigures("counts")
    figures.take(report(0, end=100, latest=300, rows=100))

    facts = figures.as_json()

    assert facts["offsets"] == {"orders": {"0": 100}}
    assert not [name for name in facts if name.startswith("_")]


def test_offsets_may_be_text() -> None:
    assert read_offsets('{"orders": {"0": 17}}') == {"orders": {"0": 17}}
    assert read_offsets("17") is None
    assert read_offsets("nonsense") is None


def test_an_apps_output_is_counted_in_records() -> None:
    figures = QueryFigures("counts", is_packed=True)
    report = {"batchId": 0, "timestamp": "1", "numInputRows": 2, "sink": {"numOutputRows": 3}}

    figures.take({**report, "observedMetrics": {}})  # of a batch without rows, or of an older checkpoint
    assert figures.rows_out is None
    figures.take({**report, "batchId": 1, "observedMetrics": {"penstock": {"records": 500}}})
    figures.take({**report, "batchId": 2, "observedMetrics": {"penstock": {"records": 0}}})

    assert figures.rows_out == 500


def test_lag_is_unknown_during_an_outage() -> None:
    figures = QueryFigures("orders", rows_in_per_second=7.0, lag=3, batch=4, state="running")

    figures.set_outage("a:9092", seconds=12.7, patience_seconds=243.0)

    reported = figures.as_json()
    assert (reported["state"], reported["lag"], reported["rows_in_per_second"]) == ("waiting", None, 0.0)
    assert (reported["waits_for"], reported["waiting_seconds"], reported["patience_seconds"]) == (
        "a:9092",
        12,
        243,
    )
    figures.end_outage()
    assert (figures.state, figures.waits_for) == ("running", None)
