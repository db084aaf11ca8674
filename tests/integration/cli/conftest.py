"""Fixtures of command-line tests: one broker, and commands run in this process as a user would type them."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from harness.brokers import PenstockBroker, penstock_command, penstock_environment
from penstock.cli.main import main

SETTINGS = {"log.initial.task.delay.ms": "3600000", "group.initial.rebalance.delay.ms": "0"}


class Done(NamedTuple):
    status: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    def rows(self) -> list[list[str]]:
        return [line.split() for line in self.out.splitlines()]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PenstockBroker]:
    broker = PenstockBroker(tmp_path_factory.mktemp("commands"), settings=SETTINGS)
    broker.start()
    yield broker
    broker.close()
    broker.check_output()


class Commands:
    """`run("topics list --json")`, against the test's broker."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def run(self, line: str, *, status: int = 0) -> Done:
        return self.run_arguments(shlex.split(line), status=status)

    def run_arguments(self, arguments: Sequence[str], *, status: int = 0) -> Done:
        self._capsys.readouterr()
        done = Done(main(arguments), *self._capsys.readouterr())
        assert done.status == status, done
        return done


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """`start(broker, "consume", "orders")` runs the command as a process, which never outlives the test."""
    started: list[subprocess.Popen[str]] = []

    def start(broker: PenstockBroker, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*penstock_command(), *arguments, "--bootstrap-server", broker.bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=penstock_environment(),
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None and not stream.closed:
                stream.close()


@pytest.fixture
def commands(
    node: PenstockBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Commands:
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP_SERVERS", node.bootstrap)
    return Commands(capsys)


def type_in(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    """Make stdin return these bytes."""
    import io

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text), encoding="utf-8"))


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda text: type_in(monkeypatch, text)
