"""Programs in several languages that take commands and report events, each as one line of JSON.

A program exits when its stdin is closed. Its events, and its end, are reported on a thread.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from compat.clients.java import CURRENT, JVM_OPTIONS, class_path
from harness.brokers import KAFKA_CACHE, ROOT, penstock_environment, tool

PROGRAMS = Path(__file__).parent / "programs"
NODE_MODULES = ROOT / ".cache" / "programs" / "kafkajs" / "node_modules"
GO_PROGRAM = ROOT / ".cache" / "programs" / "franz-go" / "members"
END_SECONDS = 30.0
ERROR_OUTPUT_BYTES = 4096

Command = Callable[[], Sequence[str]]
"""Looked up on use, so that only needed programs must be installed."""


class Program:
    """A running program. `take` gets its events, `end` its last error output."""

    def __init__(
        self, command: Sequence[str], *, take: Callable[[dict[str, Any]], None], end: Callable[[str], None]
    ) -> None:
        self.is_killed = False
        self._has_hung = False
        self._take = take
        self._end = end
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed with the process
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**penstock_environment(), "PYTHONWARNINGS": "ignore", "NODE_PATH": str(NODE_MODULES)},
        )
        self._reader = threading.Thread(target=self._read, name="program", daemon=True)
        self._reader.start()

    def order(self, order: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def freeze(self) -> None:
        """Freeze the process: it stops in the middle of its work, without noticing."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.is_killed = True
        self._process.kill()
        self._wait()

    def leave(self) -> None:
        """Return at once, while the program may still be leaving."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def close(self) -> None:
        if self._process.returncode is None:
            self.leave()
            self._wait()

    def _wait(self) -> None:
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._has_hung = True
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._reader.join(END_SECONDS)
            for stream in (self._process.stdin, self._process.stdout, self._errors):
                if stream is not None and not stream.closed:
                    stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                break  # killed in the middle of a line
            self._take(json.loads(line))
        self._end(self._complaint())

    def _complaint(self) -> str:
        size = os.fstat(self._errors.fileno()).st_size
        data = os.pread(self._errors.fileno(), ERROR_OUTPUT_BYTES, max(0, size - ERROR_OUTPUT_BYTES))
        hung = (
            f"it hung for {END_SECONDS:g} s when it was asked to leave, and was killed; "
            if self._has_hung
            else ""
        )
        return hung + data.decode("utf-8", "replace")


def python(program: str, interpreter: str | Path = sys.executable) -> Command:
    return lambda: [str(interpreter), str(PROGRAMS / program)]


def java(main_class: str, version: str = CURRENT) -> Command:
    def command() -> Sequence[str]:
        json_jars = map(str, (KAFKA_CACHE / "libs").glob("jackson-*.jar"))
        path = ":".join([class_path(version), *json_jars])
        return [tool("java"), *JVM_OPTIONS, "-cp", path, main_class]

    return command


def node(program: str) -> Command:
    return lambda: [tool("node"), str(PROGRAMS / _installed(NODE_MODULES).parent.name / program)]


def go(*arguments: str) -> Command:
    return lambda: [str(_installed(GO_PROGRAM)), *arguments]


def _installed(path: Path) -> Path:
    assert path.exists(), f"{path} is missing: run the tests with `make test`, which installs it"
    return path
