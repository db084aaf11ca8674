"""`penstock pipeline run`: a program from its file to its end, with somebody who watches it.

The order of things: what can be refused by what was said is refused at once; then the program is loaded, unless it
wants a session for that; its name is taken, so that nobody else uses its files; and only then Spark is started, which
takes seconds. From there on a wish to end (Ctrl-C, SIGTERM) is fulfilled after the batch at hand; before, at once.
"""

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
from penstock.cli.failures import Misuse, Refusal
from penstock.cli.output import Output, count_of, say
from penstock.runtime.signals import signals_to_handle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.pipelines.loading import Program
    from penstock.spark.pipelines.logs import RunLog
    from penstock.spark.pipelines.registry import Entry, Registration
    from penstock.spark.pipelines.running import Run

LOOK_SECONDS = 0.25
LOG_LOOK_SECONDS = 10.0
OUTAGE_SECONDS = 10.0  # how often it is said that nobody answers, before there is a screen
# Python's processes that Spark starts find a `copy.py` here behind Python's own: see `spark.daemon`.
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
    """Run the program of a file; the exit status."""
    from penstock.spark.masters import BadMaster, check_master
    from penstock.spark.pipelines import loading, logs, registry
    from penstock.spark.pipelines.running import Run
    from penstock.spark.sessions import DEFAULT_MASTER, MASTER_VARIABLE
    from penstock.spark.settings import Place, place_of

    if brokers is not None:  # before the program is loaded, which asks for it
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
    # Functions for a server of Spark Connect are made otherwise, once there is a session with it.
    wants_session = loading.check(path) or place_of(chosen) is Place.CONNECT
    directory = registry.state_directory()
    known_as = name or loading.name_of_file(path)
    with Ending(is_at_once=True) as ending:
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
                    say(f"{entry.name}: starting Spark at {chosen}; Ctrl-C stops it after the batch at hand")
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
            say(f"{known_as}: stopped before it began")
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
    """A program that could be loaded only now may have a name of its own."""
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
        raise Misuse("an App keeps its place in its setting state.dir; --checkpoint is for pipeline(spark)")


@contextmanager
def _spark_of(
    name: str, master: str, settings: Mapping[str, str], log: RunLog, output: Output
) -> Iterator[SparkSession]:
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
        if _is_of_a_jvm_gone(error):
            words = f"{name}: Spark has gone (killed?); started again, it goes on where it was"
            raise Refusal(words) from error
        raise
    finally:
        try:
            if spark is not None:
                spark.stop()
        except Exception as error:  # a signal to the whole process group ends the JVM before us
            if not _is_of_a_jvm_gone(error):
                raise
        if is_failed and log.has_words():
            say(f"{name}: what Spark said is in {log.path}")


def _is_of_a_jvm_gone(error: Exception) -> bool:
    """What Java answers is a Py4JJavaError; any other says that nobody does. By name: clients of Connect lack py4j."""
    if isinstance(error, ConnectionError):  # of py4j's sockets, not of a broker's
        frames = traceback.walk_tb(error.__traceback__)
        return any(str(frame.f_globals.get("__name__")).startswith("py4j.") for frame, _ in frames)
    kind = type(error)
    return kind.__module__ == "py4j.protocol" and kind.__name__ != "Py4JJavaError"


def _run(
    run: Run, program: Program, registration: Registration, log: RunLog, ending: Ending, output: Output
) -> None:
    name, entry = registration.entry.name, registration.entry
    try:
        with _telling_of_outages(name, program):
            run.start()
        ending.is_at_once = False
        entry.state = "running"
        _watch(run, registration, log, ending, output)
        if ending.is_asked():
            entry.state = "stopping"
            registration.write()
            if not output.as_json:
                say(f"{name}: stopping after the batch at hand; Ctrl-C once more does not wait for it")
            run.stop()
    except BaseException:
        run.stop(batch_seconds=0.0)
        raise
    _conclude(name, run, output)


class Ending:
    """Ctrl-C and SIGTERM, heard once as a wish to end in order, and the second time as they are; the first time too, as
    long as `is_at_once`."""

    def __init__(self, *, is_at_once: bool = False) -> None:
        self.is_at_once = is_at_once
        self._asked = threading.Event()
        self._before: dict[signal.Signals, Any] = {}

    def is_asked(self) -> bool:
        return self._asked.is_set()

    def wait(self, seconds: float) -> bool:
        return self._asked.wait(seconds)

    def __enter__(self) -> Ending:
        for number in signals_to_handle(*ENDING):
            self._before[number] = signal.signal(number, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.is_at_once or self._asked.is_set():
            self._asked.set()
            raise KeyboardInterrupt
        self._asked.set()


@contextmanager
def _telling_of_outages(name: str, program: Program) -> Iterator[None]:
    """An App asks the cluster for its topics before it starts, and goes on asking for a minute if nobody answers."""
    from penstock.cli.pipeline_screen import outage_words
    from penstock.spark.pipelines.reach import API_TIMEOUT_MS, Cluster, Reach

    servers = _servers_of(program)
    over = threading.Event()
    reach = Reach(aside=lambda work: work())
    clusters = [Cluster(servers, API_TIMEOUT_MS / 1000)] if servers else []

    def watch() -> None:
        told_at = -OUTAGE_SECONDS
        while not over.wait(1.0):
            outage = reach.outage(clusters)
            if outage is not None and outage.seconds - told_at >= OUTAGE_SECONDS and not over.is_set():
                told_at = outage.seconds
                say(f"{name}: {outage_words(servers, outage.seconds, outage.cluster.patience_seconds)}")

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


def _watch(run: Run, registration: Registration, log: RunLog, ending: Ending, output: Output) -> None:
    from penstock.cli.pipeline_screen import screen_for

    log_due = time.monotonic() + LOG_LOOK_SECONDS
    with screen_for(registration.entry.name, output) as screen:
        is_active = bool(run.watched)
        registration.write()
        while is_active:
            is_active = run.look()
            screen.show(run.figures)
            queries = [figures.as_json() for figures in run.figures]
            if queries != registration.entry.queries:
                registration.entry.queries = queries
                registration.write()
            if time.monotonic() >= log_due:
                log.keep_small()
                log_due = time.monotonic() + LOG_LOOK_SECONDS
            if is_active and ending.wait(LOOK_SECONDS):
                return


def _conclude(name: str, run: Run, output: Output) -> None:
    for figures in run.figures:
        facts = {"pipeline": name, "event": "end", **figures.as_json()}
        output.result(ending_of(figures), facts)
    sys.stdout.flush()


def ending_of(figures: Any) -> str:
    """`orders: done after batch 3; 1,000 records read, 1,000 written`."""
    if figures.batch < 0:
        return f"{figures.name}: {figures.state} before its first batch"
    written = "" if figures.rows_out is None else f", {figures.rows_out:,} written"
    return (
        f"{figures.name}: {figures.state} after batch {figures.batch}; "
        f"{count_of(figures.rows_in, 'record')} read{written}"
    )
