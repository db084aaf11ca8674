"""The same program, unchanged, on the cores of this machine, on a standalone cluster and through Spark Connect."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.brokers import penstock_command, penstock_environment
from penstock.spark.cluster import Cluster
from penstock.spark.settings import SHORT_LIVED_JAVA
from penstock.testing.broker import Broker

PROGRAM = Path(__file__).parent / "programs" / "shouting.py"
END_SECONDS = 280.0

pytestmark = pytest.mark.penstock(settings={"transaction.two.phase.commit.enable": "true"})


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(workers=2, cores=1, memory="1g", connect=True) as cluster:
        yield cluster


def test_on_the_cores_of_this_machine(penstock: Broker, tmp_path: Path) -> None:
    check(penstock, "local[2]", tmp_path)


def test_on_a_standalone_cluster_of_two_workers(penstock: Broker, cluster: Cluster, tmp_path: Path) -> None:
    check(penstock, cluster.url, tmp_path)


def test_through_spark_connect(penstock: Broker, cluster: Cluster, tmp_path: Path) -> None:
    assert cluster.connect_url is not None
    check(penstock, cluster.connect_url, tmp_path, runs=2)  # the second continues where the first was


def check(broker: Broker, master: str, folder: Path, *, runs: int = 1) -> None:
    with broker.admin() as admin:
        for topic in ("words", "shouts", "counts"):
            admin.create_topic(topic, partitions=2)
    rng = random.Random(7)
    words: list[str] = []
    for _ in range(runs):
        more = [rng.choice("abcdefgh") for _ in range(200)]
        words += more
        fill(broker, more)
        run(broker, master, folder)
        assert outcome(broker) == expected(words)


def fill(broker: Broker, words: list[str]) -> None:
    with broker.producer() as producer:
        for number, word in enumerate(words):
            producer.send("words", word, partition=number % 2)


def run(broker: Broker, master: str, folder: Path) -> None:
    (folder / "copy.py").write_text(
        "# has the name of a module of Python's, which no worker may mistake it for\n"
    )
    done = subprocess.run(
        [
            *penstock_command(),
            *("pipeline", "run", str(PROGRAM), "--once", "--json"),
            *(
                "--spark",
                master,
                "--brokers",
                broker.bootstrap_servers,
                "--checkpoint",
                str(folder / "checkpoint"),
            ),
        ],
        capture_output=True,
        text=True,
        timeout=END_SECONDS,
        cwd=folder,
        env={
            **penstock_environment(),
            "XDG_STATE_HOME": str(folder / "state"),
            "JAVA_TOOL_OPTIONS": SHORT_LIVED_JAVA,
        },
    )
    log = folder / "state" / "penstock-pipelines" / "shouting.log"
    assert done.returncode == 0, done.stdout + done.stderr + (log.read_text() if log.exists() else "")
    last = {event["name"]: event["state"] for event in map(json.loads, done.stdout.splitlines())}
    assert last == {"shouts": "done", "counts": "done"}


def outcome(broker: Broker) -> tuple[Counter[str], dict[str, int]]:
    """All shouts, and the latest count of each word."""
    shouts = Counter(message.value.decode() for message in committed(broker, "shouts"))
    counts = {message.key.decode(): int(message.value) for message in committed(broker, "counts")}
    return shouts, counts


def committed(broker: Broker, topic: str) -> list:
    with broker.consumer(topic, isolation_level="read_committed") as consumer:
        return consumer.read(until="end").to_messages()


def expected(words: list[str]) -> tuple[Counter[str], dict[str, int]]:
    return Counter(f"{word.upper()}!" for word in words), dict(Counter(words))
