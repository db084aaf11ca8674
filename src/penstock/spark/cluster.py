"""A standalone Spark cluster on this machine, from pip's PySpark alone: a master, workers, and optionally Spark
Connect.

    with Cluster(workers=2) as cluster:
        spark = penstock.spark.session("orders", master=cluster.url)

This is Spark's own cluster in separate processes, so a program that runs on it runs on any cluster. It listens on
loopback unless a host is given, ends with the process that started it (see `children`), and logs to `folder`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.client.errors.base import ClientError
from penstock.spark.children import Child
from penstock.spark.home import link_home
from penstock.spark.java import find_java
from penstock.spark.sessions import available_cores, quiet_java_options
from penstock.spark.settings import RUNTIME, STATIC
from penstock.spark.shipping import python_path

DEFAULT_PORT = 7077
DEFAULT_CONNECT_PORT = 15002
START_SECONDS = 120.0  # on a busy machine a JVM may take half a minute
POLL_SECONDS = 0.1
MASTER_CLASS = "org.apache.spark.deploy.master.Master"
WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"
SUBMIT_CLASS = "org.apache.spark.deploy.SparkSubmit"
CONNECT_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
MEMORY = re.compile(r"[1-9]\d*[kmgt]b?", re.IGNORECASE)
DAEMON_MEMORY = "256m"  # of the master and of each worker, which only manage executors
CONNECT_MEMORY = "1g"  # it is the driver of all its clients' programs


class ClusterFailed(ClientError):
    """The cluster did not start, or one of its processes ended."""


class Cluster:
    def __init__(
        self,
        *,
        workers: int = 2,
        cores: int | None = None,
        memory: str = "1g",
        host: str = "127.0.0.1",
        port: int | None = None,
        connect: bool = False,
        connect_port: int | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        """`cores` and `memory` are per worker; by default the workers share the machine's cores. Ports default to free
        ones."""
        if not MEMORY.fullmatch(memory):
            raise ClusterFailed(f"memory {memory!r} is not a size such as 512m or 4g")
        self.workers = workers
        self.cores = cores or max(1, available_cores() // workers)
        self.memory = memory
        self.host = host
        self.port = port or _free_port(host)
        self.web_port = _free_port(host)
        self.connect_port = (connect_port or _free_port(host)) if connect else None
        self._own_folder = tempfile.mkdtemp(prefix="penstock-cluster-") if folder is None else None
        self.folder = Path(folder or self._own_folder or "")
        self._home = self.folder / f"home-{self.port}"
        self._children: list[Child] = []

    @property
    def url(self) -> str:
        """The master URL for sessions."""
        return f"spark://{self.host}:{self.port}"

    @property
    def connect_url(self) -> str | None:
        """The master URL for Spark Connect, if the cluster has a Connect server."""
        return None if self.connect_port is None else f"sc://{self.host}:{self.connect_port}"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def check(self) -> None:
        """Raise `ClusterFailed` if one of its processes has ended."""
        for child in self._children:
            if child.status is not None:
                raise ClusterFailed(
                    f"{child.name} ended with status {child.status}; the end of {child.log}:\n{child.log_tail()}"
                )

    def stop(self) -> None:
        """End all processes in reverse order of their start. Can be called twice."""
        ending, self._children = self._children[::-1], []
        for child in ending:
            child.terminate()
        for child in ending:
            child.wait()
        shutil.rmtree(self._home, ignore_errors=True)  # it holds only links
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)

    def _start(self) -> None:
        import pyspark

        _require_free(self.host, self.port)
        if self.connect_port is not None:
            _require_free(self.host, self.connect_port)
        self._home.mkdir(parents=True, exist_ok=True)
        link_home(Path(pyspark.__path__[0]), self._home)
        self._run("the master", MASTER_CLASS, "--host", self.host, *self._ports(self.port, self.web_port))
        self._wait_until(lambda: _is_listening(self.host, self.port), "the master to start")
        for number in range(1, self.workers + 1):
            work = str(self.folder / f"work-{number}")
            own = ("--cores", str(self.cores), "--memory", self.memory, "--work-dir", work)
            self._run(
                f"worker {number}", WORKER_CLASS, "--host", self.host, *self._ports(0, 0), *own, self.url
            )
        self._wait_until(
            lambda: self._alive_workers() == self.workers, "the workers to register with the master"
        )
        if self.connect_port is not None:
            port = self.connect_port
            self._run(
                "the Connect server", SUBMIT_CLASS, *self._connect_arguments(port), memory=CONNECT_MEMORY
            )
            self._wait_until(lambda: _is_listening(self.host, port), "the Connect server to start")

    def _ports(self, port: int, web_port: int) -> tuple[str, ...]:
        return ("--port", str(port), "--webui-port", str(web_port))

    def _connect_arguments(self, port: int) -> list[str]:
        settings = {
            **RUNTIME,
            **STATIC,
            "spark.sql.shuffle.partitions": str(self.workers * self.cores),
            "spark.connect.grpc.binding.address": self.host,
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.host": self.host,
            "spark.driver.bindAddress": self.host,
            "spark.driver.extraJavaOptions": quiet_java_options(),
            "spark.ui.enabled": "false",
            # An idle server must not keep the cluster's cores from other programs.
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        }
        pairs = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        return ["--master", self.url, "--class", CONNECT_CLASS, "--name", "connect", *pairs, "spark-internal"]

    def _run(self, name: str, *arguments: str, memory: str = DAEMON_MEMORY) -> None:
        environment = {
            **os.environ,
            "SPARK_HOME": str(self._home),
            "JAVA_HOME": str(find_java().home),
            "SPARK_LOCAL_IP": self.host,
            "SPARK_DAEMON_MEMORY": memory,
            "SPARK_DAEMON_JAVA_OPTS": quiet_java_options(),
            # Executors and their Python workers inherit both.
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
            "PYTHONPATH": python_path(os.environ.get("PYTHONPATH")),
        }
        log = self.folder / f"{name.replace(' ', '-').removeprefix('the-').lower()}.log"
        command = [str(self._home / "bin" / "spark-class"), *arguments]
        self._children.append(Child(name, command, log=log, environment=environment))

    def _alive_workers(self) -> int:
        try:
            with urllib.request.urlopen(f"http://{self.host}:{self.web_port}/json/", timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (OSError, ValueError):  # its web server starts after its port, and answers other things first
            return 0

    def _wait_until(self, is_true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not is_true():
            self.check()
            if time.monotonic() > deadline:
                logs = "\n".join(child.log_tail() for child in self._children)
                raise ClusterFailed(f"waited {START_SECONDS:.0f} seconds for {what}\n{logs}")
            time.sleep(POLL_SECONDS)


def _is_listening(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def _require_free(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as taken:
            raise ClusterFailed(
                f"cannot listen on {host}:{port}: {taken.strerror}; choose another port"
            ) from taken


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
