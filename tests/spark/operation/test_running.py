"""A pipeline as its user runs it: listed and stopped from elsewhere, continued, and failing with a helpful error."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.brokers import penstock_command, penstock_environment
from penstock.spark.settings import SHORT_LIVED_JAVA
from penstock.testing.broker import Broker

PROGRAM = Path(__file__).parent / "programs" / "pricing.py"
END_SECONDS = 280.0

pytestmark = pytest.mark.penstock(settings={"transaction.two.phase.commit.enable": "true"})


def environment(folder: Path) -> dict[str, str]:
    return {**penstock_environment(), "XDG_STATE_HOME": str(folder), "JAVA_TOOL_OPTIONS": SHORT_LIVED_JAVA}


def ask(folder: Path, *message: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*penstock_command(), *message],
        capture_output=True,
        text=True,
        timeout=END_SECONDS,
        env=environment(folder),
    )


@contextmanager
def started(folder: Path, message: tuple[str, ...]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*penstock_command(), *message],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(folder),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def report(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Its next batch report; on a busy machine it first reports that it is still working."""
    assert process.stdout is not None
    reported: dict[str, Any] = {"event": "work"}
    while reported["event"] == "work":
        reported = json.loads(process.stdout.readline())
    return reported


def send(broker: Broker, *items: str) -> None:
    with broker.producer() as producer:
        for item in items:
            producer.send("items", item, partition=0)


def prices(broker: Broker) -> int:
    with broker.consumer("prices", isolation_level="read_committed") as consumer:
        return len(consumer.read(until="end").to_messages())


def test_it_is_listed_and_stopped_from_elsewhere_continues_and_fails_with_a_helpful_error(
    penstock: Broker, tmp_path: Path
) -> None:
    with penstock.admin() as admin:
        admin.create_topic("prices", partitions=1)
    send(penstock, *["valve"] * 20)
    run = (
        "pipeline",
        "run",
        str(PROGRAM),
        "--brokers",
        penstock.bootstrap_servers,
        "--spark",
        "local[2]",
        "--json",
    )

    with started(tmp_path, run) as running:
        first = report(running)
        assert (first["rows_in"], first["lag"], first["fraction"]) == (20, 0, 1.0)

        (jvm,) = (child for child in psutil.Process(running.pid).children() if child.name() == "java")
        assert os.getpgid(jvm.pid) != running.pid  # so that a SIGTERM to the group lets it finish the batch

        (seen,) = json.loads(ask(tmp_path, "pipeline", "status", "pricing", "--json").stdout)
        assert (seen["query"], seen["rows_in"]) == ("pricing", 20)
        again = ask(tmp_path, *run)
        assert again.returncode == 1
        assert "pricing is already running" in again.stderr

        stopped = ask(tmp_path, "pipeline", "stop", "pricing")
        assert stopped.stdout == "pricing has stopped\n", stopped.stderr
        end = json.loads(running.communicate(timeout=END_SECONDS)[0].splitlines()[-1])
        assert (end["event"], end["state"], running.returncode) == ("end", "stopped", 0)
    assert prices(penstock) == 20
    assert ask(tmp_path, "pipeline", "list", "--json").stdout == "[]\n"

    send(penstock, "valve")
    with started(tmp_path, run) as running:
        assert report(running)["rows_in"] == 1
        os.killpg(running.pid, signal.SIGINT)  # Ctrl-C, which a terminal sends to all of its processes
        end = json.loads(running.communicate(timeout=END_SECONDS)[0].splitlines()[-1])
        assert (end["event"], end["state"], running.returncode) == ("end", "stopped", 0)
    assert prices(penstock) == 21

    send(penstock, "bad")
    failed = ask(tmp_path, *run)

    assert failed.returncode == 1
    expected = "ValueError: no price for it (it was reading items-0 from 21 to 22)"
    assert f"penstock: pricing: the query pricing failed: {expected}" in failed.stderr
    assert prices(penstock) == 21
    state = tmp_path / "penstock-pipelines"
    assert {file.name for file in state.iterdir()} == {
        "pricing",
        "pricing.log",
    }  # its checkpoints, and Spark's log
    assert f"pricing: the Spark log is {state / 'pricing.log'}" in failed.stderr


def test_a_cluster_prints_its_address_and_leaves_nothing_behind(tmp_path: Path) -> None:
    cluster = subprocess.Popen(
        [*penstock_command(), "spark", "cluster", "--workers", "1", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
    )
    try:
        assert cluster.stdout is not None
        ready = json.loads(cluster.stdout.readline())
        assert ready["url"].startswith("spark://127.0.0.1:")
        children = psutil.Process(cluster.pid).children(recursive=True)
        parts = [child for child in children if child.name() == "java"]
        assert len(parts) == 2  # a master and a worker

        cluster.send_signal(signal.SIGTERM)
        cluster.communicate(timeout=END_SECONDS)
    finally:
        if cluster.poll() is None:
            cluster.kill()
            cluster.communicate()

    assert cluster.returncode == 0
    assert not [part for part in parts if part.is_running()]
