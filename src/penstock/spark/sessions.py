"""Creates a Spark session for pipelines: finds Java, applies suitable settings, and registers the source `penstock`.

    spark = penstock.spark.session("orders")                                    # all cores of this machine
    spark = penstock.spark.session("orders", master="spark://10.0.0.7:7077")    # a standalone cluster
    spark = penstock.spark.session("orders", master="sc://10.0.0.7:15002")      # Spark Connect

The same program runs on all three. Without `master`, the variable PENSTOCK_SPARK decides; `penstock pipeline run
--spark` sets it for programs that create their own session.

As usual in Spark, a process has one session: a second call returns it, with its start-up settings unchanged.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.client.errors.base import ClientError
from penstock.spark import internals
from penstock.spark.home import use_installed_python
from penstock.spark.java import find_java
from penstock.spark.masters import check_master
from penstock.spark.settings import Place, addresses_of, is_on_this_machine, place_of, settings_for
from penstock.spark.shipping import archive_settings, make_archive, python_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER_VARIABLE = "PENSTOCK_SPARK"
DEFAULT_MASTER = "local[*]"
ANSWER_SECONDS = 5.0
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


class SparkUnavailable(ClientError):
    """No session could be created; the message says why."""


def session(
    name: str = "penstock",
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    log: str | os.PathLike[str] | None = None,
) -> SparkSession:
    """A session with the data source registered.

    `settings` are Spark's own and override ours (see `penstock.spark.settings`). `log` is a file for the stderr of the
    JVM and its Python workers, which otherwise goes to this program's stderr.
    """
    try:
        from pyspark.errors import PySparkRuntimeError
    except ImportError as missing:
        raise SparkUnavailable("pipelines need PySpark: pip install 'penstock[spark]'") from missing
    from penstock.spark import register

    chosen = master or os.environ.get(MASTER_VARIABLE) or DEFAULT_MASTER
    if not isinstance(settings, Mapping | None):
        raise SparkUnavailable(f"settings must be a dict of Spark's settings, not {settings!r}")
    given = dict(settings or {})
    check_master(chosen)
    _require_answer(chosen)
    try:
        if place_of(chosen) is Place.CONNECT:
            made = _connect(name, chosen, given)
        else:
            made = _start(name, chosen, given, log)
    except PySparkRuntimeError as error:
        where = f"; see {log}" if log is not None else ""
        raise SparkUnavailable(f"Spark did not start at {chosen}: {error}{where}") from error
    register(made)
    return made


def _require_answer(master: str) -> None:
    """Fail at once for an address where nothing listens; Spark would retry for a minute or more."""
    addresses = addresses_of(master)
    for host, port in addresses:
        with suppress(OSError):
            socket.create_connection((host, port), timeout=ANSWER_SECONDS).close()
            return
    if addresses:
        tried = ", ".join(f"{host}:{port}" for host, port in addresses)
        raise SparkUnavailable(f"no Spark at {tried}; `penstock spark cluster` starts one on this machine")


def _start(name: str, master: str, given: dict[str, str], log: str | os.PathLike[str] | None) -> SparkSession:
    """A driver in this process, with a JVM that ends with it."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    prepare_environment(is_on_loopback=is_on_this_machine(master))
    if place_of(master) is Place.LOCAL:
        use_installed_python()
    wanted = settings_for(master, machine_cores=available_cores(), given=given)
    if place_of(master) is Place.CLUSTER:
        shipped = archive_settings(make_archive(), given.get("spark.archives"))
        wanted = shipped | wanted | {"spark.archives": shipped["spark.archives"]}
    java_options = f"{quiet_java_options()} {given.get('spark.driver.extraJavaOptions', '')}".strip()
    wanted["spark.driver.extraJavaOptions"] = java_options

    if not internals.has_active_context():
        conf = SparkConf().setMaster(master).setAppName(name).setAll(list(wanted.items()))
        if not internals.has_gateway():
            with open(log, "ab") if log is not None else nullcontext() as stream, delayed_signals():
                launched = internals.launch_jvm(conf, stderr=stream)
            with _keep_interrupt_handler():
                SparkContext(conf=conf, gateway=launched)
        else:  # the JVM of an earlier session of this process
            with _keep_interrupt_handler():
                SparkContext(conf=conf)
    builder = SparkSession.builder
    for key, value in wanted.items():
        if key.startswith("spark.sql."):
            builder = builder.config(key, value)
    return builder.getOrCreate()


@contextmanager
def delayed_signals() -> Iterator[None]:
    """Delay the first Ctrl-C or SIGTERM until the end of the block; a second one takes effect at once. If PySpark is
    interrupted while it starts a JVM, it deletes the folder in which the JVM reports its port, and the JVM runs
    forever."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread is interrupted
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    received: list[int] = []

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def receive(number: int, _: object) -> None:
        received.append(number)
        if len(received) > 1:
            restore()
            signal.raise_signal(number)

    for number in before:
        signal.signal(number, receive)
    try:
        yield
    finally:
        restore()
        if len(received) == 1:
            signal.raise_signal(received[0])


@contextmanager
def _keep_interrupt_handler() -> Iterator[None]:
    """Spark replaces the handler of Ctrl-C when its context is created. Restore the program's own."""
    before = signal.getsignal(signal.SIGINT)
    yield
    is_main = threading.current_thread() is threading.main_thread()  # Spark sets it only there
    if is_main and before is not signal.default_int_handler:
        signal.signal(signal.SIGINT, before)


def _connect(name: str, url: str, given: dict[str, str]) -> SparkSession:
    """A client of a Connect server, which has the JVM; this process needs no Java."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(url).appName(name)
    for key, value in settings_for(url, machine_cores=available_cores(), given=given).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def prepare_environment(*, is_on_loopback: bool) -> None:
    """Set the environment that Spark's scripts and Python workers use. Values of the user stay."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["PYTHONPATH"] = python_path(os.environ.get("PYTHONPATH"))
    if is_on_loopback:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def quiet_java_options() -> str:
    return f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"


def available_cores() -> int:
    """The cores that this process may use; in a container, possibly fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
