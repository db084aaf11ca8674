"""kafka-python, the newest and 1.4.7, each as a separate program.

1.4.7 has its own environment and can be configured for an older broker, whose protocol and message formats it then
uses. The newest runs separately as well: it leaves unclosed sockets, which is an error in this suite.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from compat.clients.base import ALL_CODECS, READ_SECONDS, WriteJob
from harness.brokers import ROOT
from harness.samples import Sample, from_lines, to_lines, without_headers, without_timestamp

OLD = "1.4.7"
OLD_INTERPRETER = ROOT / ".cache" / "kafka-python-1.4.7" / "bin" / "python"
OLD_CODECS = ("none", "gzip", "snappy", "lz4")  # it does not support zstd
PROGRAM = Path(__file__).parents[1] / "programs" / "kafka_python_client.py"


class KafkaPython:
    """The version of kafka-python, and the broker version that it expects."""

    def __init__(self, release: str = "newest", *, api_version: str = "auto") -> None:
        self.release = release
        self.api_version = api_version
        self.name = "kafka-python" if release == "newest" else f"kafka-python-{release}"
        if api_version != "auto":
            self.name += f"-as-of-{api_version}"
        self.codecs = OLD_CODECS if release == OLD else ALL_CODECS

    def is_before(self, broker_version: str) -> bool:
        return self.api_version != "auto" and _numbers(self.api_version) < _numbers(broker_version)

    def run(self, mode: str, bootstrap: str, stdin: str) -> str:
        interpreter = sys.executable if self.release == "newest" else str(OLD_INTERPRETER)
        assert Path(interpreter).exists(), f"{interpreter} is missing: run the tests with `make test`"
        command = [interpreter, str(PROGRAM), mode, bootstrap, self.api_version]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=2 * READ_SECONDS)
        assert done.returncode == 0, done.stderr
        return done.stdout


class KafkaPythonProducer(KafkaPython):
    def expected(self, sample: Sample) -> Sample:
        if self.is_before("0.11"):
            sample = without_headers(sample)
        if self.is_before("0.10"):
            sample = without_timestamp(sample)
        return sample

    def produce(self, bootstrap: str, jobs: Sequence[WriteJob]) -> None:
        work = [
            {"topic": job.topic, "codec": job.codec, "lines": to_lines(map(self.expected, job.records))}
            for job in jobs
        ]
        self.run("produce", bootstrap, json.dumps(work))


class KafkaPythonConsumer(KafkaPython):
    @property
    def reads_headers(self) -> bool:
        return not self.is_before("0.11")

    def consume(self, bootstrap: str, counts: Mapping[str, int]) -> dict[str, list[Sample]]:
        output = self.run("consume", bootstrap, json.dumps(counts))
        return {topic: from_lines(lines) for topic, lines in json.loads(output).items()}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
