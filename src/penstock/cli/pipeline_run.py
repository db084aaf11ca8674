"""`penstock pipeline run`: run the program of a file and show its progress.

The order: check the options; load the program, unless loading needs a session; reserve its name, so that no other
process uses its files; then start Spark, which takes seconds. From then on Ctrl-C and SIGTERM stop it after the current
batch; before, at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from penstock.cli.connection import SERVERS_VARIABLE
from penstock.cli.failures import Misuse, Refusal
from penstock.cli.output import Output, count_of, say
from penstock.runtime.signals import signals_to_handle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.pipelines.loading import Program
    from penstock.spark.pipelines.logs import RunLog
    from penstock.spark.pipelines.registry import Entry, Registration
    from penstock.spark.pipelines.running import Run

POLL_SECONDS = 0.25
LOG_CHECK_SECONDS = 10.0
OUTAGE_SECONDS = 10.0  # between two messages that no broker answers, before there is a screen
# Python workers must prefer the standard library to a `copy.py` in this directory: see `spark.daemon`.
SAFE_PATH = {"spark.executorEnv.PYTHONSAFEPATH": "1"}
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
    """Run the program of a file. Returns the exit status."""
    from penstock.spark.masters import BadMaster, check_master
    from penstock.spark.pipelines import loading, logs, registry
    from penstock.spark.pipelines.running import Run
    from penstock.spark.sessions import DEFAULT_MASTER, MASTER_VARIABLE
    from penstock.spark.settings import Place, place_of

    if brokers is not None:  # the program reads it while it is loaded
        os.environ[SERVERS_VARIABLE] = brokers
    if master is not None:
        os.environ[MASTER_VARIABLE] = master
    chosen = os.environ.get(MASTER_VARIABLE) or DEFAULT_MASTER
    try:
        check_master(chosen)
        if name is not None:
            registry.check_name(name)
    except (BadMaster, registry.BadName) as misuse:
        raise Misuse(str(misuse)) from misuse
    path = Path(file)
    # With Spark Connect, functions can be created only with a session.
    wants_session = loading.check(path) or place_of(chosen) is Place.CONNECT
    directory = registry.state_directory()
    known_as = name or loading.name_of_file(path)
    with StopSignals(is_at_once=True) as ending:
        try:
            program = None if wants_session else loading.load_early(path)
            _check_place(program, checkpoint)
            entry = _entry_of(
                name or (program.name if program else loading.name_of_file(path)), path, chosen, checkpoint
            )
            known_as = entry.name
            with (
                registry.Registration(directory, entry) as registration,
                logs.RunLog(directory, entry.name) as log,
            ):
                entry.log = str(log.path)
                registration.write()
                if not output.as_json:
                    say(f"{entry.name}: starting Spark at {chosen}; Ctrl-C stops it after the current batch")
                with _spark_of(entry.name, chosen, settings, log, output) as spark:
                    if program is None:
                        program = loading.load(path)
                        _check_place(program, checkpoint)
                        _rename(registration, log, name or program.name, checkpoint)
                    run = Run(program, spark, name=entry.name, checkpoint=entry.checkpoint, is_once=is_once)
                    _run(run, program, registration, log, ending, output)
        except KeyboardInterrupt:
            if not ending.is_at_once:
                raise
            say(f"{known_as}: stopped before it started")
    return 0


def _entry_of(name: str, file: Path, master: str, checkpoint: str | None) -> Entry:
    from penstock.spark.pipelines import registry
    from penstock.spark.pipelines.running import default_checkpoint

    return registry.Entry(
        name=name,
        pid=os.getpid(),
        file=str(file.resolve()),
        master=master,
        checkpoint=checkpoint or default_checkpoint(registry.state_directory(), name),
        log="",
        started_ms=time.time_ns() // 1_000_000,
    )


def _rename(registration: Registration, log: RunLog, name: str, checkpoint: str | None) -> None:
    """A program that is loaded after Spark has started may have another name."""
    from penstock.spark.pipelines import registry
    from penstock.spark.pipelines.running import default_checkpoint

    registration.rename(name)
    log.rename(name)
    entry = registration.entry
    entry.log = str(log.path)
    entry.checkpoint = checkpoint or default_checkpoint(registry.state_directory(), name)
    registration.write()


def _check_place(program: Program | None, checkpoint: str | None) -> None:
    if program is not None and program.app is not None and checkpoint is not None:
        raise Misuse(
            "an App stores its checkpoint in its setting state.dir; --checkpoint is for pipeline(spark)"
        )


@contextmanager
def _spark_of(
    name: str, master: str, settings: Mapping[str, str], log: RunLog, output: Output
) -> Iterator[SparkSession]:
    from penstock.spark.internals import is_jvm_lost
    from penstock.spark.sessions import session
    from penstock.spark.settings import Place, place_of

    own = {} if place_of(master) is Place.CONNECT else SAFE_PATH
    is_failed = False
    spark: SparkSession | None = None
    try:
        with output.progress("starting Spark"):
            spark = session(name, master=master, settings={**own, **settings}, log=log.path)
        yield spark
    except Exception as error:
        is_failed = True
        if is_jvm_lost(error):
            message = f"{name}: Spark has exited (killed?); after a restart it continues from its checkpoint"
            raise Refusal(message) from error
        raise
    finally:
        try:
            if spark is not None:
                spark.stop()
        except Exception as error:  # a signal to the process group may end the JVM first
            if not is_jvm_lost(error):
                raise
        if is_failed and log.has_content():
            say(f"{name}: the Spark log is {log.path}")


def _run(
    run: Run, program: Program, registration: Registration, log: RunLog, ending: StopSignals, output: Output
) -> None:
    name, entry = registration.entry.name, registration.entry
    try:
        with _report_outages(name, program):
            run.start()
        ending.is_at_once = False
        entry.state = "running"
        _watch(run, registration, log, ending, output)
        if ending.is_requested():
            entry.state = "stopping"
            registration.write()
            if not output.as_json:
                say(f"{name}: stopping after the current batch; press Ctrl-C again to stop at once")
            run.stop()
    except BaseException:
        run.stop(batch_seconds=0.0)
        raise
    _print_end(name, run, output)


class StopSignals:
    """Ctrl-C and SIGTERM. The first requests a clean stop, the second raises `KeyboardInterrupt`. While `is_at_once`,
    the first raises too."""

    def __init__(self, *, is_at_once: bool = False) -> None:
        self.is_at_once = is_at_once
        self._requested = threading.Event()
        self._before: dict[signal.Signals, Any] = {}

    def is_requested(self) -> bool:
        return self._requested.is_set()

    def wait(self, seconds: float) -> bool:
        return self._requested.wait(seconds)

    def __enter__(self) -> StopSignals:
        for number in signals_to_handle(*ENDING):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.is_at_once or self._requested.is_set():
            self._requested.set()
            raise KeyboardInterrupt
        self._requested.set()


@contextmanager
def _report_outages(name: str, program: Program) -> Iterator[None]:
    """An App looks its topics up before it starts, and retries for a minute if no broker answers."""
    from penstock.cli.pipeline_screen import describe_outage
    from penstock.spark.pipelines.outages import API_TIMEOUT_MS, Cluster, OutageProbe

    servers = _servers_of(program)
    over = threading.Event()
    outages = OutageProbe(run_in_background=lambda work: work())
    clusters = [Cluster(servers, API_TIMEOUT_MS / 1000)] if servers else []

    def watch() -> None:
        reported_at = -OUTAGE_SECONDS
        while not over.wait(1.0):
            outage = outages.outage(clusters)
            if outage is not None and outage.seconds - reported_at >= OUTAGE_SECONDS and not over.is_set():
                reported_at = outage.seconds
                say(f"{name}: {describe_outage(servers, outage.seconds, outage.cluster.patience_seconds)}")

    if clusters:
        threading.Thread(target=watch, name="penstock-outages", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _servers_of(program: Program) -> str:
    client = getattr(getattr(program.app, "settings", None), "client", None)
    servers = client.get("bootstrap.servers", "") if isinstance(client, Mapping) else ""
    return servers if isinstance(servers, str) else ",".join(map(str, servers))


def _watch(run: Run, registration: Registration, log: RunLog, ending: StopSignals, output: Output) -> None:
    from penstock.cli.pipeline_screen import screen_for

    log_due = time.monotonic() + LOG_CHECK_SECONDS
    with screen_for(registration.entry.name, output) as screen:
        is_active = bool(run.watched)
        registration.write()
        while is_active:
            is_active = run.poll()
            screen.show(run.figures)
            queries = [figures.as_json() for figures in run.figures]
            if queries != registration.entry.queries:
                registration.entry.queries = queries
                registration.write()
            if time.monotonic() >= log_due:
                log.keep_small()
                log_due = time.monotonic() + LOG_CHECK_SECONDS
            if is_active and ending.wait(POLL_SECONDS):
                return


def _print_end(name: str, run: Run, output: Output) -> None:
    for figures in run.figures:
        facts = {"pipeline": name, "event": "end", **figures.as_json()}
        output.result(summary_of(figures), facts)
    sys.stdout.flush()


def summary_of(figures: Any) -> str:
    """`orders: done after batch 3; 1,000 records read, 1,000 written`."""
    if figures.batch < 0:
        return f"{figures.name}: {figures.state} before its first batch"
    written = "" if figures.rows_out is None else f", {figures.rows_out:,} written"
    return (
        f"{figures.name}: {figures.state} after batch {figures.batch}; "
        f"{count_of(figures.rows_in, 'record')} read{written}"
    )
