"""`penstock pipeline list`, `status` and `stop`; `cli.pipeline_run` runs one."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

from penstock.cli.failures import FAILED, Refusal
from penstock.cli.output import Column, Output, show_bytes, show_count, show_duration

if TYPE_CHECKING:
    from penstock.spark.pipelines.registry import Entry

POLL_SECONDS = 0.25


def list_pipelines(output: Output) -> None:
    from penstock.spark.pipelines import registry

    entries = registry.running(registry.state_directory())
    output.table(
        [
            "name",
            "state",
            "pid",
            "master",
            "queries",
            Column("rows_per_second", "rows/s", show_rate),
            Column("lag", None, show_count),
            Column("running_ms", "running", show_duration),
        ],
        [_row(entry) for entry in entries],
        empty="No pipeline is running. `penstock pipeline run FILE` starts one.",
    )


def show_status(names: tuple[str, ...], output: Output) -> None:
    from penstock.spark.pipelines import registry

    entries = registry.running(registry.state_directory())
    chosen = [_find(entries, name) for name in names] if names else entries
    output.table(
        [
            "pipeline",
            "query",
            "state",
            "batch",
            Column("rows_in", "rows in", show_count),
            Column("rows_in_per_second", "in/s", show_rate),
            Column("rows_out", "rows out", show_count),
            Column("batch_ms", "last batch", show_duration),
            Column("lag", None, show_count),
            Column("state_rows", "state rows", show_count),
            Column("state_bytes", "state size", show_bytes),
            Column("fraction", "caught up", lambda value: f"{value:.0%}"),
        ],
        [
            (
                entry.name,
                query["name"],
                _state_of(query),
                query["batch"] if query["batch"] >= 0 else None,
                query["rows_in"],
                query["rows_in_per_second"],
                query["rows_out"],
                query["batch_ms"],
                query["lag"],
                query["state_rows"],
                query["state_bytes"],
                query["fraction"],
            )
            for entry in chosen
            for query in entry.queries
        ],
        empty="No query is running yet." if chosen else "No pipeline is running.",
    )


def stop_pipelines(names: tuple[str, ...], *, timeout: float, output: Output) -> None:
    from penstock.spark.pipelines import registry

    directory = registry.state_directory()
    entries = registry.running(directory)
    stopping = [_find(entries, name) for name in names]
    for entry in stopping:
        registry.send_signal(directory, entry, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    with output.progress("waiting for the current batches"):
        for entry in stopping:
            while registry.is_held(directory, entry.name):
                if time.monotonic() > deadline:
                    raise Refusal(
                        f"{entry.name} (process {entry.pid}) has not stopped within {timeout:.0f} seconds; "
                        "`penstock pipeline status` shows its current batch"
                    )
                time.sleep(POLL_SECONDS)
    for entry in stopping:
        output.result(
            f"{entry.name} has stopped", {"pipeline": entry.name, "pid": entry.pid, "state": "stopped"}
        )


def show_rate(value: float) -> str:
    return f"{value:,.0f}"


def _find(entries: list[Entry], name: str) -> Entry:
    for entry in entries:
        if entry.name == name:
            return entry
    from penstock.spark.pipelines import logs, registry

    known = ", ".join(entry.name for entry in entries) or "none"
    log = registry.state_directory() / f"{name}.log"
    last = f"; the Spark log of its last run is {log}" if logs.has_content(log) else ""
    raise Refusal(f"pipeline {name} is not running; running: {known}{last}", status=FAILED)


def _state_of(query: dict[str, Any]) -> str:
    """The state; with the servers if it waits for them."""
    servers = query.get("waits_for")
    return f"waiting for {servers}" if servers else str(query["state"])


def _row(entry: Entry) -> tuple[object, ...]:
    waiting = [_state_of(query) for query in entry.queries if query.get("waits_for")]
    lags = [query["lag"] for query in entry.queries if query["lag"] is not None]
    return (
        entry.name,
        waiting[0] if waiting and entry.state == "running" else entry.state,
        entry.pid,
        entry.master,
        len(entry.queries),
        sum(query["rows_in_per_second"] for query in entry.queries),
        sum(lags) if lags else None,
        time.time_ns() // 1_000_000 - entry.started_ms,
    )
