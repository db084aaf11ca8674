"""The process of one node in a test. `Broker` has one of them, `Cluster` several."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Any

STOP_SECONDS = 10.0  # then the process is killed; a clean stop takes a few milliseconds
READY = "penstock ready"
PORTS = range(15_000, 30_000)  # below the range that the system uses for outgoing connections
SOURCE = str(Path(__file__).resolve().parents[2])


class BrokerFailed(Exception):
    """The broker did not start, or is not running. The message includes the end of its log."""


class NodeProcess:
    """Starts `penstock.testing.serving` with settings, and controls it. Not running after `__init__`."""

    def __init__(self, name: str, log_file: Path, running: list[subprocess.Popen[str]]) -> None:
        """`name` is for messages. `running` gets the process while it runs, for a clean-up that must not keep this
        object alive."""
        self.name = name
        self.log_file = log_file
        self._running = running
        self._process: subprocess.Popen[str] | None = None
        self.is_ready = False
        """Whether the present process has reported that it serves."""
        self._command_lock = threading.Lock()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self, settings: Mapping[str, str], *, cut: Collection[int] = ()) -> None:
        """Start the process without waiting for it. It cannot connect to the ports in `cut`."""
        if self.is_running:
            raise BrokerFailed(f"{self.name} is already running")
        arguments = [f"{name}={value}" for name, value in settings.items()]
        if cut:
            arguments.append(f"cut:{','.join(map(str, cut))}")
        with self.log_file.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "penstock.testing.serving", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=_environment(),
            )
        self._process = process
        self.is_ready = False
        self._running.append(process)

    def wait_until_ready(self) -> None:
        process = self.running()
        if self.is_ready:
            return
        line = _stream(process.stdout).readline()
        if not line.startswith(READY):
            process.wait()
            self.end(signal.SIGTERM)
            raise BrokerFailed(f"{self.name} did not start:\n{self.log()}")
        self.is_ready = True

    def running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise BrokerFailed(f"{self.name} is not running; call `start` first\n{self.log()}")
        return self._process

    def send_signal(self, number: signal.Signals) -> None:
        if not self.is_running:
            raise BrokerFailed(f"{self.name} is not running; call `start` first\n{self.log()}")
        self.running().send_signal(number)

    def end(self, number: signal.Signals) -> None:
        """End the process with this signal, and wait. Does nothing if it is not running."""
        process = self._process
        self._forget()
        if process is not None:
            end_process(process, number)

    def command(self, command: dict[str, Any]) -> dict[str, Any]:
        """Send a command to the process; its answer (`serving`)."""
        if not self.is_running:
            raise BrokerFailed(f"{self.name} is not running; call `start` first\n{self.log()}")
        process = self.running()
        with self._command_lock:
            stdin = _stream(process.stdin)
            stdin.write(json.dumps(command) + "\n")
            stdin.flush()
            line = _stream(process.stdout).readline()
            if line.startswith(READY):  # the command came before the node was ready
                self.is_ready = True
                line = _stream(process.stdout).readline()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def log(self, *, last_bytes: int = 8192) -> str:
        """The end of its log."""
        data = self.log_file.read_bytes() if self.log_file.exists() else b""
        return data[-last_bytes:].decode("utf-8", "replace")

    def _forget(self) -> None:
        process, self._process = self._process, None
        if process is not None and process in self._running:
            self._running.remove(process)


def end_process(process: subprocess.Popen[str], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)  # a paused process would not receive the other signal
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _stream(process.stdin).close()
    _stream(process.stdout).close()


def free_port() -> int:
    """A free port outside the range of outgoing connections, so that it stays free while the broker is down."""
    for _ in range(1000):
        port = random.SystemRandom().choice(PORTS)
        if is_free(port):
            return port
    raise BrokerFailed(f"no port from {PORTS.start} to {PORTS.stop - 1} is free on this machine")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def text_of(value: object) -> str:
    """A setting as text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None, "the process was started with pipes"
    return stream


def _environment() -> dict[str, str]:
    """The broker's process must import this same package, also from a source tree."""
    paths = [SOURCE, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
