"""The oracle: Apache Kafka's own classes, asked through a small Java program."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("KafkaOracle.java")


class KafkaOracle:
    """One JVM with the jars of Kafka 4.3, which answers queries, one JSON line each."""

    def __init__(self, jars: Path) -> None:
        self._process = subprocess.Popen(
            ["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", f"{jars}/*", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, question: str, **arguments: Any) -> Any:
        """The result; `Refused` if Kafka raises."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"ask": question, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the oracle has died; run KafkaOracle.java by hand to see why"
        answer = json.loads(line)
        if not answer["ok"]:
            raise Refused(answer["why"])
        return answer["value"]

    def accepts(self, question: str, **arguments: Any) -> bool:
        try:
            self.ask(question, **arguments)
        except Refused:
            return False
        return True

    def close(self) -> None:
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()


class Refused(Exception):
    """Kafka would not have it."""


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaOracle]:
    oracle = KafkaOracle(_find_jars())
    yield oracle
    oracle.close()


def _find_jars() -> Path:
    jars = Path(os.environ.get("PENSTOCK_KAFKA_JARS") or REPOSITORY / ".cache" / "kafka" / "libs")
    missing = None
    if not list(jars.glob("kafka-clients-4.3.*.jar")):
        missing = f"no jars of Kafka 4.3 in {jars}; `make test` fetches them, or set PENSTOCK_KAFKA_JARS"
    elif shutil.which("java") is None:
        missing = "no java"
    if missing is not None:
        # In CI the comparison must not go missing unnoticed.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    return jars
