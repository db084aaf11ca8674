"""The broker of the demo: a child process, stopped together with this one."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Self

DEFAULT_PORT = 9092
START_LIMIT_S = 30.0
STOP_LIMIT_S = 15.0
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class BrokerProcess:
    def __init__(self, port: int, folder: str, *, nodes: int = 1) -> None:
        self.port = port
        self._folder = folder
        self._nodes = nodes
        self.ready_line = ""
        self.started_s = 0.0

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "penstock", "serve", *self._arguments()]
        # Its last log lines would appear below the summary.
        command += ["--log-level", "warning" if self._nodes == 1 else "error"]
        began = time.perf_counter()
        # A signal during the next call would leave a broker behind.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        # Its own process group: Ctrl-C reaches only this program, which then stops the broker.
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING),
        )
        too_late = threading.Timer(START_LIMIT_S, self._process.kill)
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            too_late.start()
            self._wait_until_ready()
        except BaseException:
            self._stop()
            raise
        finally:
            too_late.cancel()
        self.started_s = time.perf_counter() - began
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    @property
    def servers(self) -> str:
        return ",".join(f"127.0.0.1:{self.port + index}" for index in range(self._nodes))

    def _arguments(self) -> list[str]:
        if self._nodes == 1:
            listeners = f"listeners=PLAINTEXT://127.0.0.1:{self.port}"
            return ["--set", listeners, "--set", f"log.dirs={self._folder}"]
        return ["--nodes", str(self._nodes), "--data", self._folder, "--port", str(self.port)]

    def _wait_until_ready(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("penstock ready"):
                self.ready_line = line.strip()
                return
        raise RuntimeError("the broker did not start; its error is above")

    def _stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def choose_port(port: int | None) -> int:
    """The given port, or Kafka's default, or a free one."""
    return port or (DEFAULT_PORT if _is_free(DEFAULT_PORT) else _free_port())


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
