"""`penstock pipeline`: run a program until it ends or is told to, and see and stop those of other processes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from penstock.cli.connection import SERVERS_VARIABLE
from penstock.cli.failures import FAILED, Misuse, Refusal
from penstock.cli.output import Column, Output, count_of, say, show_bytes, show_count, show_duration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.pipelines.registry import Entry, Registration
    from penstock.spark.pipelines.running import Run

LOOK_SECONDS = 0.25
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_pipeline(
    file: str,
    *,
    name: str | None,
    master: str | None,
    brokers: str | None,
    checkpoint: str | None,
    settings: Mapping[str, str],
    is_once: bool,
    output: Output,
) -> int:
    """Run the program of a file; the exit status."""
    from penstock.spark.pipelines import loading, registry
    from penstock.spark.pipelines.running import Run, default_checkpoint
    from penstock.spark.sessions import DEFAULT_MASTER, MASTER_VARIABLE

    if brokers is not None:  # before the program is loaded, which asks for it
        os.environ[SERVERS_VARIABLE] = brokers
    if master is not None:
        os.environ[MASTER_VARIABLE] = master
    chosen = os.environ.get(MASTER_VARIABLE) or DEFAULT_MASTER
    loading.check(Path(file))
    known_as = name or loading.name_of_file(Path(file))
    directory = registry.state_directory()
    registry.require_free(directory, known_as)
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / f"{known_as}.log"
    log.write_bytes(b"")  # what an earlier run said has been read or never will be
    if not output.as_json:
        say(f"{known_as}: starting Spark at {chosen}; Ctrl-C stops it after the batch at hand")
    with Ending() as ending, _spark_of(known_as, chosen, settings, log) as spark:
        program = loading.load(Path(file))  # not before: functions for workers are made with a session
        if program.app is not None and checkpoint is not None:
            raise Misuse(
                "an App keeps its place in its setting state.dir; --checkpoint is for pipeline(spark)"
            )
        name = name or program.name
        entry = registry.Entry(
            name=name,
            pid=os.getpid(),
            file=str(Path(file).resolve()),
            master=chosen,
            checkpoint=checkpoint or default_checkpoint(directory, name),
            log=str(log),
            started_ms=time.time_ns() // 1_000_000,
        )
        run = Run(program, spark, name=name, checkpoint=entry.checkpoint, is_once=is_once)
        with registry.Registration(directory, entry) as registration:
            _run(run, registration, ending, output)
    return 0


@contextmanager
def _spark_of(name: str, master: str, settings: Mapping[str, str], log: Path) -> Iterator[SparkSession]:
    from penstock.spark.sessions import session

    spark = session(name, master=master, settings=settings, log=log)
    try:
        yield spark
    except Exception as error:
        if log.stat().st_size:
            say(f"{name}: what Spark says is in {log}")
        if _is_of_a_jvm_gone(error):
            words = f"{name}: Spark has gone (killed?); started again, it goes on where it was"
            raise Refusal(words) from error
        raise
    finally:
        try:
            spark.stop()
        except Exception as error:  # a signal to the whole process group ends the JVM before us
            if not _is_of_a_jvm_gone(error):
                raise


def _is_of_a_jvm_gone(error: Exception) -> bool:
    """What Java answers is a Py4JJavaError; any other says that nobody does. By name: clients of Connect lack py4j."""
    if isinstance(error, ConnectionError):  # of py4j's sockets, not of a broker's
        frames = traceback.walk_tb(error.__traceback__)
        return any(str(frame.f_globals.get("__name__")).startswith("py4j.") for frame, _ in frames)
    kind = type(error)
    return kind.__module__ == "py4j.protocol" and kind.__name__ != "Py4JJavaError"


def _run(run: Run, registration: Registration, ending: Ending, output: Output) -> None:
    name, entry = registration.entry.name, registration.entry
    if ending.is_asked():
        say(f"{name}: stopped before it began")
        return
    try:
        run.start()
        entry.state = "running"
        _watch(run, registration, ending, output)
        if ending.is_asked():
            entry.state = "stopping"
            registration.write()
            if not output.as_json:
                say(f"{name}: stopping after the batch at hand")
            run.stop()
    except BaseException:
        run.stop(batch_seconds=0.0)
        raise
    _conclude(name, run, output)


class Ending:
    """Ctrl-C and SIGTERM, heard once as a wish to end in order, and the second time as they are."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._before: dict[signal.Signals, Any] = {}

    def is_asked(self) -> bool:
        return self._asked.is_set()

    def wait(self, seconds: float) -> bool:
        return self._asked.wait(seconds)

    def __enter__(self) -> Ending:
        for number in ENDING:
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._asked.is_set():
            raise KeyboardInterrupt
        self._asked.set()


def _watch(run: Run, registration: Registration, ending: Ending, output: Output) -> None:
    from penstock.cli.pipeline_screen import screen_for

    with screen_for(registration.entry.name, output) as screen:
        is_active = bool(run.watched)
        while is_active:
            is_active = run.look()
            screen.show(run.figures)
            queries = [figures.as_json() for figures in run.figures]
            if queries != registration.entry.queries:
                registration.entry.queries = queries
                registration.write()
            if is_active and ending.wait(LOOK_SECONDS):
                return


def _conclude(name: str, run: Run, output: Output) -> None:
    if not run.watched:
        output.result(
            f"{name}: all that was there is done", {"pipeline": name, "event": "end", "state": "done"}
        )
    for figures in run.figures:
        written = "" if figures.rows_out is None else f", {count_of(figures.rows_out, 'row')} written"
        facts = {"pipeline": name, "event": "end", **figures.as_json()}
        output.result(
            f"{figures.name}: {figures.state} after batch {figures.batch}; "
            f"{count_of(figures.rows_in, 'record')} read{written}",
            facts,
        )
    sys.stdout.flush()


# -- those of other processes


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
        empty="No pipeline runs here. `penstock pipeline run FILE` runs one.",
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
                query["state"],
                query["batch"],
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
        empty="No query runs yet." if chosen else "No pipeline runs here.",
    )


def stop_pipelines(names: tuple[str, ...], *, timeout: float, output: Output) -> None:
    from penstock.spark.pipelines import registry

    directory = registry.state_directory()
    entries = registry.running(directory)
    stopping = [_find(entries, name) for name in names]
    for entry in stopping:
        os.kill(entry.pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    with output.progress("waiting for the batches at hand"):
        for entry in stopping:
            while registry.is_held(directory, entry.name):
                if time.monotonic() > deadline:
                    raise Refusal(
                        f"{entry.name} (process {entry.pid}) was told to stop and has not, in {timeout:.0f} seconds; "
                        "`penstock pipeline status` shows what it is at"
                    )
                time.sleep(LOOK_SECONDS)
    for entry in stopping:
        output.result(
            f"{entry.name} is stopped", {"pipeline": entry.name, "pid": entry.pid, "state": "stopped"}
        )


def show_rate(value: float) -> str:
    return f"{value:,.0f}"


def _find(entries: list[Entry], name: str) -> Entry:
    for entry in entries:
        if entry.name == name:
            return entry
    known = ", ".join(entry.name for entry in entries) or "none"
    raise Refusal(f"no pipeline {name} runs here; running: {known}", status=FAILED)


def _row(entry: Entry) -> tuple[object, ...]:
    lags = [query["lag"] for query in entry.queries if query["lag"] is not None]
    return (
        entry.name,
        entry.state,
        entry.pid,
        entry.master,
        len(entry.queries),
        sum(query["rows_in_per_second"] for query in entry.queries),
        sum(lags) if lags else None,
        time.time_ns() // 1_000_000 - entry.started_ms,
    )
