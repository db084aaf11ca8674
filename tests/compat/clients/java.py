"""Kafka's own Java: its client in several versions, and its command-line tools.

`make` compiles the classes under `tests/compat/java` into `.cache/kafka/classes`. The tools of one session share one
JVM (`ToolServer`), because starting a JVM takes longer than most tools run.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType

import pytest

from compat.clients.base import ALL_CODECS, READ_SECONDS, WriteJob
from harness.brokers import KAFKA_CACHE, tool
from harness.samples import Sample, from_lines, to_lines, without_headers

CURRENT = "4.3.1"
TOOL_SECONDS = 45.0
CLIENT_LIBRARIES = ("slf4j-api", "lz4-java", "snappy-java", "zstd-jni")
# Memory and threads of a short-lived program: otherwise the JVM uses a second core for garbage collection.
JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def class_path(version: str = CURRENT) -> str:
    """Penstock's classes and Kafka's. A client of another version gets only the libraries of its version."""
    libs = KAFKA_CACHE / "libs"
    assert libs.exists(), f"{libs} is missing: run the tests with `make test`, which fetches Kafka's jars"
    kafka = [f"{libs}/*"]
    if version != CURRENT:
        shared = [str(jar) for stem in CLIENT_LIBRARIES for jar in libs.glob(f"{stem}-*.jar")]
        kafka = [str(KAFKA_CACHE / "old" / f"kafka-clients-{version}.jar"), *shared]
    return ":".join([str(KAFKA_CACHE / "classes"), *kafka])


def run_java(main: str, *arguments: str, stdin: str = "", version: str = CURRENT) -> str:
    command = [tool("java"), *JVM_OPTIONS, "-cp", class_path(version), main, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=3 * READ_SECONDS)
    assert done.returncode == 0, f"{main} {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_scenarios(bootstrap: str, *theme: str) -> dict[str, str]:
    """Run all scenarios of a theme in one JVM; the outcome of each."""
    lines = run_java("ClientScenarios", bootstrap, *theme).splitlines()
    return dict(line.split("\t", 1) for line in lines)


class JavaProducer:
    """The Java client's producer, idempotent with acks=all in versions that have it (the default since 3.0)."""

    def __init__(self, version: str = CURRENT, codecs: Sequence[str] = ALL_CODECS) -> None:
        self.version = version
        self.name = f"java-{version}"
        self.codecs = tuple(codecs)

    def expected(self, sample: Sample) -> Sample:
        return without_headers(sample) if self.version.startswith("0.10") else sample

    def produce(self, bootstrap: str, jobs: Sequence[WriteJob]) -> None:
        stdin = "".join(f"job\t{job.topic}\t{job.codec}\n{to_lines(job.records)}" for job in jobs)
        run_java("PlainClient", "produce", bootstrap, stdin=stdin, version=self.version)


class JavaConsumer:
    def __init__(self, version: str = CURRENT, codecs: Sequence[str] = ALL_CODECS) -> None:
        self.version = version
        self.name = f"java-{version}"
        self.codecs = tuple(codecs)
        self.reads_headers = not version.startswith("0.10")

    def consume(self, bootstrap: str, counts: Mapping[str, int]) -> dict[str, list[Sample]]:
        stdin = "".join(f"{topic}\t{count}\n" for topic, count in counts.items())
        output = run_java("PlainClient", "consume", bootstrap, stdin=stdin, version=self.version)
        lines: dict[str, list[str]] = {topic: [] for topic in counts}
        for line in output.splitlines():
            topic, _, record = line.partition("\t")
            lines[topic].append(record)
        return {topic: from_lines("\n".join(parts)) for topic, parts in lines.items()}


@dataclass(frozen=True, slots=True)
class ToolResult:
    status: int
    stdout: str
    stderr: str


class JavaTools:
    """A JVM that runs Kafka's tools by class name, one at a time.

    A tool that does not end in time is killed with its JVM, and the next one gets a new JVM.
    """

    def __init__(self) -> None:
        self._process = self._start()

    def __enter__(self) -> JavaTools:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(READ_SECONDS)
        process.stdout.close()

    def try_run(self, name: str, *arguments: str, stdin: str = "") -> ToolResult:
        """Run a tool; its output, whatever its status."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        watch = threading.Timer(TOOL_SECONDS, process.kill)
        watch.start()
        try:
            process.stdin.write(json.dumps({"tool": name, "args": arguments, "stdin": stdin}) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        finally:
            watch.cancel()
        if not answer:
            self.__exit__(None, None, None)
            self._process = self._start()
            pytest.fail(f"{name} {' '.join(arguments)} did not end within {TOOL_SECONDS:.0f} s")
        return ToolResult(**json.loads(answer))

    def _start(self) -> subprocess.Popen[str]:
        command = [tool("java"), *JVM_OPTIONS, "-cp", class_path(), "ToolServer"]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def run(self, name: str, *arguments: str, stdin: str = "") -> str:
        """Run a tool that must succeed; its output."""
        result = self.try_run(name, *arguments, stdin=stdin)
        assert result.status == 0, f"{name} {' '.join(arguments)}\n{result.stdout}\n{result.stderr}"
        return result.stdout
