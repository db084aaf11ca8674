"""The demonstration's books: what the pipeline wrote is read as a table, and has to agree with what was generated."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from penstock.cli.demo.results import Results
from penstock.cli.demo.screen import View, line_of, panel_of, print_summary
from penstock.spark.pipelines.figures import QueryFigures


def record(begin: str, country: str, orders: int, cents: int) -> tuple[bytes, bytes]:
    value = {"from": begin, "country": country, "orders": orders, "cents": cents}
    return f"{begin} {country}".encode(), json.dumps(value).encode()


@pytest.fixture
def results() -> Results:
    results = Results()
    results.take(*record("12:00:00", "AT", 2, 300))
    results.take(*record("12:00:05", "AT", 1, 100))
    results.take(*record("12:00:00", "AT", 5, 700))  # the same window, later
    return results


def test_the_latest_record_of_a_window_wins(results: Results) -> None:
    assert (results.orders, results.cents, len(results.windows)) == (6, 800, 2)


def test_the_last_windows_are_shown_in_the_order_of_their_time(results: Results) -> None:
    ((begin, countries),) = results.latest(1)

    assert (begin, countries["AT"].orders) == ("12:00:05", 1)


@pytest.mark.parametrize(
    ("generated", "read", "cents", "agrees"),
    [(6, 6, 800, True), (7, 6, 800, False), (6, 7, 800, False), (6, 6, 801, False)],
)
def test_the_summary_agrees_only_where_orders_and_money_are_the_same_everywhere(
    results: Results, generated: int, read: int, cents: int, agrees: bool
) -> None:
    view = View(
        servers="127.0.0.1:9092",
        seconds=None,
        results=results,
        figures=QueryFigures("revenue", batch=0, rows_in=read),
    )
    shown = io.StringIO()

    assert print_summary(Console(file=shown), view, generated=generated, cents=cents) is agrees
    assert ("every order exactly once" in shown.getvalue()) is agrees


@pytest.mark.parametrize("figures", [None, QueryFigures("revenue"), QueryFigures("revenue", batch=3, lag=4)])
def test_the_screen_can_be_drawn_at_any_time(results: Results, figures: QueryFigures | None) -> None:
    view = View(servers="127.0.0.1:9092", seconds=60, generated=17, results=results, figures=figures)
    shown = io.StringIO()

    Console(file=shown, width=100).print(panel_of(view))

    assert "17" in shown.getvalue()
    assert "17 orders in" in line_of(view)


def test_lag_includes_orders_generated_after_the_batch_was_planned() -> None:
    figures = QueryFigures("revenue", batch=3, rows_in=9_000, lag=0)
    view = View(servers="127.0.0.1:9092", seconds=60, generated=12_500, figures=figures)
    shown = io.StringIO()

    Console(file=shown, width=100).print(panel_of(view))

    assert "lag 3,500" in line_of(view)
    assert "3,500" in shown.getvalue()
