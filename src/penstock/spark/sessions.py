"""A Spark session that is ready for pipelines: Java found, settings that fit, the source `penstock` registered.

    spark = penstock.spark.session("orders")                                    # all cores of this machine
    spark = penstock.spark.session("orders", master="spark://10.0.0.7:7077")    # a standalone cluster
    spark = penstock.spark.session("orders", master="sc://10.0.0.7:15002")      # Spark Connect

The same program runs on all three. Where no master is said the variable PENSTOCK_SPARK is asked, which is how `penstock
pipeline run --spark` reaches programs that make their session themselves.

As Spark has it, a process has one session: asking again gives the same one, whose start-up settings stay as they are.
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
    """There is no session, and why."""


def session(
    name: str = "penstock",
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    log: str | os.PathLike[str] | None = None,
) -> SparkSession:
    """A session with the data source registered.

    `settings` are Spark's own and outrank ours (see `penstock.spark.settings`). `log` names a file that takes what the
    JVM and its Python workers write to stderr, which otherwise goes to this program's.
    """
    try:
        from pyspark.errors import PySparkRuntimeError
    except ImportError as missing:
        raise SparkUnavailable("pipelines need PySpark: pip install 'penstock[spark]'") from missing
    from penstock.spark import register

    chosen = master or os.environ.get(MASTER_VARIABLE) or DEFAULT_MASTER
    if not isinstance(settings, Mapping | None):
        raise SparkUnavailable(f"settings is a dict of Spark's settings, not {settings!r}")
    said = dict(settings or {})
    check_master(chosen)
    _require_answer(chosen)
    try:
        if place_of(chosen) is Place.CONNECT:
            made = _connect(name, chosen, said)
        else:
            made = _start(name, chosen, said, log)
    except PySparkRuntimeError as error:
        where = f"; what it said is in {log}" if log is not None else ""
        raise SparkUnavailable(f"Spark did not start at {chosen}: {error}{where}") from error
    register(made)
    return made


def _require_answer(master: str) -> None:
    """Refuse at once what Spark itself would try for a minute and more: an address where nobody is."""
    addresses = addresses_of(master)
    for host, port in addresses:
        with suppress(OSError):
            socket.create_connection((host, port), timeout=ANSWER_SECONDS).close()
            return
    if addresses:
        told = ", ".join(f"{host}:{port}" for host, port in addresses)
        raise SparkUnavailable(
            f"no Spark answers at {told}; `penstock spark cluster` starts one on this machine"
        )


def _start(name: str, master: str, said: dict[str, str], log: str | os.PathLike[str] | None) -> SparkSession:
    """A driver in this process, over a JVM that ends with it."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    prepare_environment(is_on_loopback=is_on_this_machine(master))
    if place_of(master) is Place.LOCAL:
        use_installed_python()
    wanted = settings_for(master, machine_cores=available_cores(), said=said)
    if place_of(master) is Place.CLUSTER:
        shipped = archive_settings(make_archive(), said.get("spark.archives"))
        wanted = shipped | wanted | {"spark.archives": shipped["spark.archives"]}
    java_options = f"{quiet_java_options()} {said.get('spark.driver.extraJavaOptions', '')}".strip()
    wanted["spark.driver.extraJavaOptions"] = java_options

    if SparkContext._active_spark_context is None:
        conf = SparkConf().setMaster(master).setAppName(name).setAll(list(wanted.items()))
        if SparkContext._gateway is None:
            with open(log, "ab") if log is not None else nullcontext() as stream:
                # In a group of its own: a SIGTERM to all of ours, such as timeout's, would tear it from its batch. It
                # ends with us all the same, when its stdin does, which it reads once it has told us its port.
                how = {"start_new_session": True, **({"stderr": stream} if stream else {})}
                with signals_held_back():
                    launched = launch_gateway(conf, popen_kwargs=how)  # type: ignore[no-untyped-call]
            with _own_interrupts():
                SparkContext(conf=conf, gateway=launched)
        else:  # a JVM that an earlier session of this process left behind
            with _own_interrupts():
                SparkContext(conf=conf)
    builder = SparkSession.builder
    for key, value in wanted.items():
        if key.startswith("spark.sql."):
            builder = builder.config(key, value)
    return builder.getOrCreate()


@contextmanager
def signals_held_back() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until it is left; the second one does not. PySpark that is interrupted while it starts a
    JVM takes away the folder in which that tells its port, and the JVM stays for ever."""
    if threading.current_thread() is not threading.main_thread():  # others are never interrupted
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    heard: list[int] = []

    def let_go() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def hear(number: int, _: object) -> None:
        heard.append(number)
        if len(heard) > 1:
            let_go()
            signal.raise_signal(number)

    for number in before:
        signal.signal(number, hear)
    try:
        yield
    finally:
        let_go()
        if len(heard) == 1:
            signal.raise_signal(heard[0])


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Spark takes Ctrl-C for itself when its context is made. What the program does at Ctrl-C stands above that."""
    before = signal.getsignal(signal.SIGINT)
    yield
    is_main = threading.current_thread() is threading.main_thread()  # elsewhere Spark leaves it alone, too
    if is_main and before is not signal.default_int_handler:
        signal.signal(signal.SIGINT, before)


def _connect(name: str, url: str, said: dict[str, str]) -> SparkSession:
    """A client of a server that has the JVM; there is no Java here."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(url).appName(name)
    for key, value in settings_for(url, machine_cores=available_cores(), said=said).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def prepare_environment(*, is_on_loopback: bool) -> None:
    """What Spark's scripts and its Python workers take from the environment. What the user set stays."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["PYTHONPATH"] = python_path(os.environ.get("PYTHONPATH"))
    if is_on_loopback:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def quiet_java_options() -> str:
    return f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"


def available_cores() -> int:
    """Those that this process may use, which in a container can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
