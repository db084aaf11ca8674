"""`penstock demo`, which `make run` runs: what a new user sees, and how it ends early.

The Spark part is tested in `tests/spark/operation`.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.brokers import free_port, penstock_command, penstock_environment
from harness.waiting import wait_until
from penstock import Admin
from penstock.cli.demo.broker import BrokerProcess
from penstock.testing.cluster import free_ports

END_SECONDS = 60.0

Demo = subprocess.Popen[str]

pytestmark = pytest.mark.penstock_only("tests Penstock's command")


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def demo(port: int) -> Iterator[Demo]:
    process = subprocess.Popen(
        [*penstock_command(), "demo", "--broker-alone", "--seconds", "2", "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=penstock_environment(),
    )
    yield process
    for each in [process, *psutil.Process(process.pid).children()] if process.poll() is None else []:
        each.kill()
    process.communicate()


def test_it_produces_and_consumes_and_ends_by_itself(demo: Demo) -> None:
    output, _ = demo.communicate(timeout=END_SECONDS)

    assert demo.returncode == 0
    assert "every record once and in order" in output


def test_the_ready_line_is_one_line_with_the_address_however_narrow_the_terminal(
    demo: Demo, port: int
) -> None:
    output, _ = demo.communicate(timeout=END_SECONDS)

    ready = [line for line in output.splitlines() if line.startswith("penstock ready")]
    assert len(ready) == 1
    assert f"PLAINTEXT://127.0.0.1:{port} " in ready[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupting_it_while_its_broker_starts_leaves_no_broker_behind(
    demo: Demo, number: signal.Signals
) -> None:
    wait_until(lambda: bool(psutil.Process(demo.pid).children()), "its broker is being started")
    (broker,) = psutil.Process(demo.pid).children()

    demo.send_signal(number)
    demo.communicate(timeout=END_SECONDS)

    assert not broker.is_running()


def test_without_java_it_shows_the_broker_and_reports_what_is_missing(port: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [*penstock_command(), "demo", "--seconds", "1", "--port", str(port)],
        capture_output=True,
        text=True,
        timeout=END_SECONDS,
        env={**penstock_environment(), "JAVA_HOME": str(tmp_path)},
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "but there is no Java" in done.stdout
    assert "every record once and in order" in done.stdout


def test_with_nodes_its_brokers_are_a_cluster(tmp_path: Path) -> None:
    with BrokerProcess(free_ports(3), str(tmp_path), nodes=3) as brokers, Admin(brokers.servers) as admin:
        admin.create_topic("orders")
        (partition,) = admin.describe_topic("orders").partitions

        assert brokers.ready_line.startswith("penstock ready: 3 nodes of cluster")
        assert sorted(partition.replicas) == [1, 2, 3]
