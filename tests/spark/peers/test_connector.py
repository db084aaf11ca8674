"""Spark's own Kafka connector reads and writes Penstock's topics, as batches and as streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from harness.brokers import KAFKA_CACHE
from penstock.testing import Broker

PROGRAM = Path(__file__).parent / "connector_program.py"
LIMIT_S = 240


def test_rows_are_read_back_and_copied_as_a_stream(tmp_path: Path) -> None:
    # In a separate process: a JVM gets its jars when it starts.
    jars = KAFKA_CACHE / "spark"
    assert list(jars.glob("*.jar")), f"no jars in {jars}: make test-tools fetches them"
    with Broker() as broker:
        with broker.admin() as admin:
            admin.create_topic("numbers", partitions=3)
            admin.create_topic("moved", partitions=2)
        done = subprocess.run(
            [sys.executable, PROGRAM, jars, broker.bootstrap_servers, "numbers", "moved", tmp_path],
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        expected = sorted([str(number % 10), str(number), str(number)] for number in range(1_000))
        assert json.loads(done.stdout.splitlines()[-1]) == expected
        with broker.consumer("moved") as consumer:
            moved = [
                [message.key.decode(), message.value.decode()]
                for message in consumer.read(until="end").to_messages()
            ]
    assert sorted(moved) == [row[:2] for row in expected]
