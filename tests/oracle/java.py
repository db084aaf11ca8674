"""Runs Apache Kafka's own serializers in one short Java process."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from oracle import jars

PROGRAM = Path(__file__).with_name("Oracle.java")

RUN_SECONDS_MAX = 120  # a run takes about three seconds; a busy machine takes longer


@dataclass(frozen=True, slots=True)
class Question:
    java_class: str
    """Below `org.apache.kafka`."""
    version: int
    data: bytes


def rewrite_all(questions: list[Question], *, classpath: list[str]) -> list[bytes | str]:
    """Each message as Kafka writes it after reading it, or Kafka's error."""
    lines = [f"{each.java_class} {each.version} {each.data.hex()}" for each in questions]
    # A short-lived JVM: one collector thread and only the quick compiler.
    flags = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    finished = subprocess.run(
        ["java", *flags, "-cp", os.pathsep.join(classpath), str(PROGRAM)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    answers = finished.stdout.splitlines()
    assert len(answers) == len(questions), finished.stderr
    return [answer[1:] if answer.startswith("!") else bytes.fromhex(answer) for answer in answers]


def new_classpath() -> list[str]:
    return [str(jars.libs() / "*")]


def old_classpath() -> list[str]:
    """The old clients first; Java takes the rest, such as logging, from the new ones."""
    return [str(jars.old_clients()), str(jars.libs() / "*")]
