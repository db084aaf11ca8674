"""`penstock serve --nodes 3` as a process: ready, restarted nodes, and an end that leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.brokers import answers, penstock_command, penstock_environment
from harness.waiting import wait_until
from penstock.testing.cluster import free_ports

pytestmark = pytest.mark.penstock_only("tests Penstock's command")
WAIT_SECONDS = 60.0


def _command_line(process: psutil.Process) -> list[str]:
    """Empty for a process that has ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # also a zombie, until its parent reaps it
        return []


class ServedNodes:
    """A running command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_ports(3)
        self.output_file = folder / "output.txt"
        self._data = folder / "data"
        with self.output_file.open("ab") as output:
            command = ["serve", "--nodes", "3", "--data", str(self._data), "--port", str(self.port)]
            self.process = subprocess.Popen(
                [*penstock_command(), *command], stdout=output, stderr=output, env=penstock_environment()
            )

    def output(self) -> str:
        return self.output_file.read_text()

    def wait_until_ready(self) -> None:
        wait_until(self._is_ready, "all nodes serve", seconds=WAIT_SECONDS)

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, self.output()
        return any(line.startswith("penstock ready") for line in self.output().splitlines())

    def nodes(self) -> dict[int, psutil.Process]:
        """The processes of the nodes, by node id."""
        found = {}
        for child in psutil.Process(self.process.pid).children():
            for number in (1, 2, 3):
                if str(self._data / f"node-{number}.properties") in _command_line(child):
                    found[number] = child
        return found

    def status(self) -> dict[int, str]:
        """The state of each node in `penstock cluster status`."""
        done = subprocess.run(
            [*penstock_command(), "cluster", "status", "--json", "-b", f"127.0.0.1:{self.port + 2}"],
            capture_output=True,
            text=True,
            env=penstock_environment(),
            timeout=WAIT_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return {row["node"]: row["state"] for row in json.loads(done.stdout)["nodes"]}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedNodes]:
    served = ServedNodes(tmp_path)
    yield served
    if served.process.poll() is None:
        served.process.kill()  # the nodes stop with it
        served.process.wait()


def test_it_runs_three_nodes_restarts_one_that_dies_and_stops_them_all(served: ServedNodes) -> None:
    served.wait_until_ready()
    (line,) = [line for line in served.output().splitlines() if line.startswith("penstock ready")]
    assert "penstock ready: 3 nodes of cluster" in line
    assert f"127.0.0.1:{served.port},127.0.0.1:{served.port + 1},127.0.0.1:{served.port + 2}" in line
    assert served.status() == {1: "alive", 2: "alive", 3: "alive"}

    nodes = served.nodes()
    nodes[2].kill()
    wait_until(lambda: served.nodes().get(2) not in (None, nodes[2]), "node 2 is restarted")
    wait_until(lambda: served.status()[2] == "alive", "node 2 is back", seconds=WAIT_SECONDS)
    assert "node 2 ended (killed by SIGKILL); restarting it in 500 ms" in served.output()

    nodes = served.nodes()
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(WAIT_SECONDS) == 0
    assert not any(node.is_running() for node in nodes.values())
    assert "Traceback" not in served.output()


def test_nodes_do_not_outlive_the_program_that_started_them(served: ServedNodes) -> None:
    served.wait_until_ready()
    nodes = served.nodes()
    assert len(nodes) == 3

    os.kill(served.process.pid, signal.SIGKILL)
    served.process.wait(WAIT_SECONDS)

    psutil.wait_procs(nodes.values(), timeout=WAIT_SECONDS)
    assert not any(answers(served.port + number) for number in range(3))


def test_a_port_that_is_in_use_fails_the_start(tmp_path: Path) -> None:
    first = ServedNodes(tmp_path)
    first.wait_until_ready()
    try:
        done = subprocess.run(
            [
                *penstock_command(),
                *("serve", "--nodes", "3", "--data", str(tmp_path / "other"), "--port", str(first.port)),
            ],
            capture_output=True,
            text=True,
            env=penstock_environment(),
            timeout=WAIT_SECONDS,
        )
    finally:
        first.process.terminate()
        first.process.wait(WAIT_SECONDS)

    assert done.returncode == 1
    assert "cannot listen on" in done.stderr
    assert "did not start" in done.stderr
