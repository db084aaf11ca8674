"""Real broker processes for tests: Penstock, or Apache Kafka to prove that a test expects what Kafka does.

A broker is a process with a data folder and a port. It can be stopped (SIGTERM), killed (SIGKILL) and restarted on the
same data and port. This module uses no client library: it sends one ApiVersions request by hand to see whether the
broker is ready, so a broken client cannot make a broker look broken.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

LOOPBACK = "127.0.0.1"
ROOT = Path(__file__).resolve().parents[2]
KAFKA_CACHE = ROOT / ".cache" / "kafka"
START_SECONDS = 120.0  # a JVM on a busy machine with two cores; Penstock takes well under one second
STOP_SECONDS = 60.0
POLL_SECONDS = 0.02
MOST_WORKERS = 8  # processes of one test run; each takes its ports from its own part of both ranges
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % MOST_WORKERS
# Both are below the range that the system uses for outgoing connections. TESTING_PORTS are for `penstock.testing`,
# whose clusters need consecutive ports.
PORTS, TESTING_PORTS = range(15_000, 25_000), range(25_000, 30_000)
OWN_PORTS = PORTS[WORKER::MOST_WORKERS]
# Of 600 ports, a cluster may begin at the first 400: its controllers listen 100 ports higher.
OWN_TESTING_PORTS = TESTING_PORTS[WORKER * 600 : WORKER * 600 + 400]
_given_ports: set[int] = set()


class BrokerFailed(Exception):
    """The process exited, or did not answer in time. The message includes the end of its output."""


class Broker(ABC):
    """One broker process. Its data folder outlives it."""

    name: str
    host: str = LOOPBACK
    """Where it listens."""
    format_options: Sequence[str] = ()
    """More options for `storage format`."""

    def __init__(
        self, folder: Path, *, settings: Mapping[str, str] | None = None, port: int | None = None
    ) -> None:
        self.folder = folder
        self.settings = dict(settings or {})
        self.port = port or free_port()
        self.output_file = folder / "output.txt"
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    @abstractmethod
    def log_directories(self) -> list[Path]: ...

    @abstractmethod
    def command(self) -> Sequence[str]: ...

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def start(self) -> None:
        """Start the process; return when it answers a request."""
        self.launch()
        deadline = time.monotonic() + START_SECONDS
        while not answers(self.port, host=self.host):
            self._check_alive()
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerFailed(
                    f"{self.name} did not answer within {START_SECONDS:.0f} s:\n{self.output()}"
                )
            time.sleep(POLL_SECONDS)

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the process without waiting for it."""
        assert self.process is None, "already started"
        with self.output_file.open("ab") as output:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment(),
            )
        return self.process

    def stop(self) -> int:
        """Stop cleanly with SIGTERM, and wait; the exit status."""
        process = self._running()
        process.terminate()
        try:
            status = process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired as exc:
            self.kill()
            raise BrokerFailed(
                f"{self.name} ignored SIGTERM for {STOP_SECONDS:.0f} s:\n{self.output()}"
            ) from exc
        self.process = None
        return status

    def kill(self) -> None:
        """SIGKILL: the process cannot write anything more."""
        process = self._running()
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.wait(STOP_SECONDS)
        self.process = None

    def send_signal(self, number: signal.Signals) -> None:
        self._running().send_signal(number)

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """End the process if it is running. For fixtures: it may be stopped already."""
        if self.process is None:
            return
        if self.process.poll() is not None:
            self.process = None
            return
        try:
            self.stop()
        except BrokerFailed:
            if self.process is not None:
                self.kill()

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def directory_id(self) -> str:
        """The id of its first log directory, which has the metadata log."""
        lines = (self.log_directories[0] / "meta.properties").read_text().splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("directory.id="))

    def resident_bytes(self) -> int:
        return int(psutil.Process(self._running().pid).memory_info().rss)

    def open_file_count(self) -> int:
        return int(psutil.Process(self._running().pid).num_fds())

    def output(self, *, last_bytes: int = 8192) -> str:
        data = self.output_file.read_bytes() if self.output_file.exists() else b""
        return data[-last_bytes:].decode("utf-8", "replace")

    def check_output(self) -> None:
        """Fail if the process reported an internal error: whatever a client did, that is a bug."""
        output = self.output(last_bytes=1 << 20)
        at = output.find("Traceback (most recent call last)")
        assert at < 0, f"{self.name} reported an internal error:\n{output[max(0, at - 500) : at + 3000]}"

    def _running(self) -> subprocess.Popen[bytes]:
        assert self.process is not None, "not started"
        return self.process

    def _check_alive(self) -> None:
        status = self._running().poll()
        if status is not None:
            self.process = None
            raise BrokerFailed(f"{self.name} exited with status {status}:\n{self.output()}")


class PenstockBroker(Broker):
    name = "penstock"

    @property
    def log_directories(self) -> list[Path]:
        return [Path(part) for part in self.settings.get("log.dirs", str(self.folder / "data")).split(",")]

    def command(self) -> Sequence[str]:
        return [*penstock_command(), "serve", *self.setting_options()]

    def setting_options(self) -> list[str]:
        settings = {
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": ",".join(map(str, self.log_directories)),
            **self.settings,
        }
        return [word for pair in settings.items() for word in ("--set", "=".join(pair))]

    def environment(self) -> dict[str, str]:
        return penstock_environment()


class KafkaBroker(Broker):
    """Apache Kafka as one node, broker and controller. `libs` is the folder with its jars."""

    name = "kafka"

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
        libs: Path | None = None,
    ) -> None:
        super().__init__(folder, settings=settings, port=port)
        self.libs = libs or KAFKA_CACHE / "libs"
        self.controller_port = free_port()

    @property
    def log_directories(self) -> list[Path]:
        return [Path(part) for part in self.settings.get("log.dirs", str(self.folder / "data")).split(",")]

    def command(self) -> Sequence[str]:
        return [
            "java",
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-cp",
            f"{self.libs}/*",
            "kafka.Kafka",
            str(self._properties()),
        ]

    def launch(self) -> subprocess.Popen[bytes]:
        if not (self.log_directories[0] / "meta.properties").exists():
            format_command = ["java", "-cp", f"{self.libs}/*", "kafka.tools.StorageTool", "format"]
            subprocess.run(
                [
                    *format_command,
                    *("-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(self._properties())),
                    *self.format_options,
                ],
                check=True,
                capture_output=True,
            )
        return super().launch()

    def _properties(self) -> Path:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": ",".join(map(str, self.log_directories)),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **self.settings,
        }
        path = self.folder / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path


def penstock_command() -> list[str]:
    """The installed command; in a source tree, the module behind it."""
    script = Path(sys.executable).with_name("penstock")
    return [str(script)] if script.exists() else [sys.executable, "-m", "penstock"]


def penstock_environment() -> dict[str, str]:
    source = str(ROOT / "src")
    paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "NO_COLOR": "1"}


def free_port() -> int:
    """A free port outside the range of outgoing connections, so that it stays free while a broker is down.

    No port is given twice: neither by this process, nor by another process of the same test run.
    """
    left = [port for port in OWN_PORTS if port not in _given_ports]
    random.SystemRandom().shuffle(left)
    for port in left:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port))
            _given_ports.add(port)
            return port
    raise BrokerFailed(f"all {len(OWN_PORTS)} ports of this process are given or in use")


def answers(port: int, *, host: str = LOOPBACK, timeout_seconds: float = 5.0) -> bool:
    """Whether a server on this port answers an ApiVersions request (version 0, which every broker serves)."""
    header = struct.pack(">hhih", 18, 0, 7, 4) + b"wait"
    try:
        with socket.create_connection((host, port), timeout=timeout_seconds) as connection:
            connection.sendall(struct.pack(">i", len(header)) + header)
            answer = connection.recv(8, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(answer) == 8 and struct.unpack(">i", answer[4:])[0] == 7


def tool(name: str) -> str:
    """The path of a program that the tests need; `make test` installs them."""
    path = shutil.which(name)
    assert path, f"{name} is not installed: run the tests with `make test`, which installs it"
    return path
