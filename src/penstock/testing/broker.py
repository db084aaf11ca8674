"""A real broker for a test or a notebook: a process of its own, a fresh folder, a free port, up in no time.

    with Broker() as broker:
        producer = AnyKafkaClient(broker.bootstrap_servers)

It is the node that `penstock serve` runs. It can be stopped, killed, paused and started again on the same data and the
same port, and faults can be scripted (`broker.faults`). It never outlives the process that made it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from penstock.testing.clients import Clients
from penstock.testing.faults import Faults

STOP_SECONDS = 10.0  # beyond this a broker is killed; a clean stop takes some milliseconds
PORTS = range(15_000, 30_000)  # below those that the system gives to outgoing connections
PORT_TRIES = 20
SOURCE = str(Path(__file__).resolve().parents[2])

# A broker of a test holds little, lives shortly, and should not make anyone wait.
TEST_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


class BrokerFailed(Exception):
    """The broker did not start, or is not running; carries the end of its log."""


class Broker(Clients):
    def __init__(
        self,
        *,
        settings: Mapping[str, object] | None = None,
        folder: str | os.PathLike[str] | None = None,
        port: int | None = None,
    ) -> None:
        """Start a broker. `settings` are the broker's (`{"num.partitions": 3}`); without a `folder` its data goes when
        the broker does."""
        super().__init__()
        self.settings = {**TEST_SETTINGS, **{name: _text(value) for name, value in (settings or {}).items()}}
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-") if folder is None else folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log_file = self.folder / "broker.log"
        self.port = port or _free_port()
        self.faults = Faults(self._tell)
        self._telling = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._remains: list[subprocess.Popen[str]] = []
        """The running process, where `_clean_up` finds it without keeping this object alive."""
        own_folder = self.folder if folder is None else None
        self._finalizer = weakref.finalize(self, _clean_up, self._remains, own_folder)
        self._start_on_free_port(is_port_given=port is not None)

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: `127.0.0.1:port`."""
        return f"127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start again after `stop` or `kill`, on the same data and port."""
        if self.is_running:
            raise BrokerFailed("the broker runs already")
        if not self._finalizer.alive:
            raise BrokerFailed("the broker was closed; make another one")
        with self.log_file.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "penstock.testing.serving", *self._assignments()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=_environment(),
            )
        self._process = process
        self._remains[:] = [process]
        line = _stream(process.stdout).readline()
        if not line.startswith("penstock ready"):
            process.wait()
            self._process = None
            raise BrokerFailed(f"the broker did not start:\n{self.log()}")

    def stop(self) -> None:
        """End it in the clean way, as SIGTERM does. Nothing happens if it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as `kill -9` does: it gets no chance to write anything more."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it, as a machine that hangs: connections stay, nothing is answered until `resume`."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it and the clients that it made, and remove its data unless the folder was given."""
        self.close_clients()
        self.stop()
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if not self._finalizer.alive:
            return f"<Broker {self.bootstrap_servers}, closed>"
        state = "running" if self.is_running else "stopped"
        return f"<Broker {self.bootstrap_servers}, {state}, data in {self.folder}>"

    def log(self, *, last_bytes: int = 8192) -> str:
        """The end of what the broker told."""
        data = self.log_file.read_bytes() if self.log_file.exists() else b""
        return data[-last_bytes:].decode("utf-8", "replace")

    # -- helpers

    def _start_on_free_port(self, *, is_port_given: bool) -> None:
        for tries_left in reversed(range(PORT_TRIES)):
            try:
                self.start()
                return
            except BrokerFailed:
                # Somebody else may have taken the port since it was found to be free.
                if is_port_given or not tries_left or "in use" not in self.log():
                    self._finalizer()
                    raise
                self.port = _free_port()

    def _assignments(self) -> list[str]:
        settings = {
            "listeners": f"PLAINTEXT://{self.bootstrap_servers}",
            "log.dirs": str(self.folder / "data"),
            **self.settings,
        }
        return [f"{name}={value}" for name, value in settings.items()]

    def _running(self) -> subprocess.Popen[str]:
        if not self.is_running:
            raise BrokerFailed(f"the broker does not run; `start` it first\n{self.log()}")
        assert self._process is not None
        return self._process

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        self._remains.clear()
        if process is not None:
            _end_process(process, number)

    def _tell(self, command: dict[str, Any]) -> dict[str, Any]:
        """Say something to the script of faults, and hear what it answers."""
        process = self._running()
        with self._telling:
            stdin = _stream(process.stdin)
            stdin.write(json.dumps(command) + "\n")
            stdin.flush()
            answer: dict[str, Any] = json.loads(_stream(process.stdout).readline())
        return answer


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None, "the process was started with pipes"
    return stream


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _end_process(process: subprocess.Popen[str], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)  # one that is paused would not hear it
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _stream(process.stdin).close()
    _stream(process.stdout).close()


def _clean_up(processes: list[subprocess.Popen[str]], folder: Path | None) -> None:
    """What `weakref.finalize` does when the broker is closed, or forgotten, or the interpreter ends."""
    for process in processes:
        _end_process(process, signal.SIGTERM)
    processes.clear()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _environment() -> dict[str, str]:
    """The process must find this very package, also where it is used from a source tree."""
    paths = [SOURCE, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _free_port() -> int:
    """A port that nobody uses, and that no outgoing connection is given while the broker is down between two starts."""
    for _ in range(1000):
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise BrokerFailed(f"no port from {PORTS.start} to {PORTS.stop - 1} is free on this machine")
