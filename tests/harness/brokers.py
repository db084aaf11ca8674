"""Real broker processes for tests: Penstock, or Apache Kafka as the proof that a test asks for what Kafka does.

A broker is a process with a data folder and a port. It can be stopped (SIGTERM), killed (SIGKILL) and started
again on the same data and the same port, which is what most of the tests here are about. Nothing in this
module speaks a client library: readiness is one ApiVersions exchange by hand, so that a broken client cannot
make a broker look broken.
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

ROOT = Path(__file__).resolve().parents[2]
KAFKA_CACHE = ROOT / ".cache" / "kafka"
START_SECONDS = 60.0  # a JVM on a busy machine of two cores; Penstock itself takes well under one
STOP_SECONDS = 60.0
POLL_SECONDS = 0.02
PORTS = range(15_000, 30_000)  # below those that the system gives to outgoing connections


class BrokerFailed(Exception):
    """The process ended, or did not answer in time; carries the end of its output."""


class Broker(ABC):
    """One broker process on 127.0.0.1, over a data folder that outlives it."""

    name: str

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
        return f"127.0.0.1:{self.port}"

    @property
    @abstractmethod
    def log_directories(self) -> list[Path]: ...

    @abstractmethod
    def command(self) -> Sequence[str]: ...

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def start(self) -> None:
        """Starts the process and returns when it answers a request."""
        self.launch()
        deadline = time.monotonic() + START_SECONDS
        while not answers(self.port):
            self._check_alive()
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerFailed(
                    f"{self.name} did not answer within {START_SECONDS:.0f} s:\n{self.output()}"
                )
            time.sleep(POLL_SECONDS)

    def launch(self) -> subprocess.Popen[bytes]:
        """Starts the process and does not wait for it."""
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
        """SIGTERM, then a wait: the clean way. Returns the exit status."""
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
        """SIGKILL: the process gets no chance to write anything more."""
        process = self._running()
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.wait(STOP_SECONDS)
        self.process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """Ends the process if it still runs; for fixtures, never fails for a broker that a test stopped already."""
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

    def resident_bytes(self) -> int:
        return int(psutil.Process(self._running().pid).memory_info().rss)

    def open_file_count(self) -> int:
        return int(psutil.Process(self._running().pid).num_fds())

    def output(self, *, last_bytes: int = 8192) -> str:
        data = self.output_file.read_bytes() if self.output_file.exists() else b""
        return data[-last_bytes:].decode("utf-8", "replace")

    def check_output(self) -> None:
        """Fails where the process reported a fault of its own: whatever a client did, that is a bug."""
        output = self.output(last_bytes=1 << 20)
        at = output.find("Traceback (most recent call last)")
        assert at < 0, f"{self.name} reported a fault of its own:\n{output[max(0, at - 500) : at + 3000]}"

    def _running(self) -> subprocess.Popen[bytes]:
        assert self.process is not None, "not started"
        return self.process

    def _check_alive(self) -> None:
        status = self._running().poll()
        if status is not None:
            self.process = None
            raise BrokerFailed(f"{self.name} ended with status {status}:\n{self.output()}")


class PenstockBroker(Broker):
    name = "penstock"

    @property
    def log_directories(self) -> list[Path]:
        return [Path(part) for part in self.settings.get("log.dirs", str(self.folder / "data")).split(",")]

    def command(self) -> Sequence[str]:
        settings = {
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": ",".join(map(str, self.log_directories)),
            **self.settings,
        }
        return [
            *penstock_command(),
            "serve",
            *(word for pair in settings.items() for word in ("--set", "=".join(pair))),
        ]

    def environment(self) -> dict[str, str]:
        return penstock_environment()


class KafkaBroker(Broker):
    """Apache Kafka, one node that is broker and controller. `libs` is the folder with its jars."""

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
                [*format_command, "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(self._properties())],
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
    """The command as a user has it; from a tree that is not installed, the module behind it."""
    script = Path(sys.executable).with_name("penstock")
    return [str(script)] if script.exists() else [sys.executable, "-m", "penstock"]


def penstock_environment() -> dict[str, str]:
    source = str(ROOT / "src")
    paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "NO_COLOR": "1"}


def free_port() -> int:
    """A port that nobody uses, and that no outgoing connection is given while a broker is down between two starts."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def answers(port: int, *, timeout_seconds: float = 5.0) -> bool:
    """Whether something on this port answers an ApiVersions request (version 0, which everyone serves)."""
    header = struct.pack(">hhih", 18, 0, 7, 4) + b"wait"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_seconds) as connection:
            connection.sendall(struct.pack(">i", len(header)) + header)
            answer = connection.recv(8, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(answer) == 8 and struct.unpack(">i", answer[4:])[0] == 7


def tool(name: str) -> str:
    """The path of a command-line program that the tests need; `make test` installs them."""
    path = shutil.which(name)
    assert path, f"{name} is not installed: run the tests with `make test`, which installs what they need"
    return path
