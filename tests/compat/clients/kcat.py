"""kcat: librdkafka as packaged by a distribution, used through pipes."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace

from compat.clients.base import ALL_CODECS, READ_SECONDS, WriteJob
from harness.brokers import tool
from harness.samples import Headers, Sample

HEADERS: Headers = (
    ("origin", b"kcat"),
    ("trace", b"42"),
)  # kcat gives all records of one call the same headers
FORMAT = "%o %T %K %S %h\\n%k%s\\n"


class KcatProducer:
    name = "kcat"
    codecs = ALL_CODECS

    def expected(self, sample: Sample) -> Sample:
        # With -Z, the only way to write a null, everything empty is null.
        return replace(
            sample, key=sample.key or None, value=sample.value or None, headers=HEADERS, timestamp_ms=None
        )

    def produce(self, bootstrap: str, jobs: Sequence[WriteJob]) -> None:
        for job in jobs:
            lines = [(record.key or b"") + b"\t" + (record.value or b"") for record in job.records]
            headers = [
                word for name, value in HEADERS for word in ("-H", f"{name}={(value or b'').decode()}")
            ]
            options = ["-P", "-t", job.topic, "-p", "0", "-K", "\t", "-Z", "-z", job.codec, *headers]
            run_kcat(bootstrap, *options, "-X", "enable.idempotence=true", stdin=b"\n".join(lines) + b"\n")


class KcatConsumer:
    name = "kcat"
    codecs = ALL_CODECS
    reads_headers = True

    def consume(self, bootstrap: str, counts: Mapping[str, int]) -> dict[str, list[Sample]]:
        return {topic: self._read(bootstrap, topic) for topic in counts}

    def _read(self, bootstrap: str, topic: str) -> list[Sample]:
        options = ["-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-f", FORMAT]
        return parse(run_kcat(bootstrap, *options, "-X", "fetch.wait.max.ms=20"))


def run_kcat(bootstrap: str, *options: str, stdin: bytes = b"") -> bytes:
    """Run kcat to its end; its output."""
    command = [tool("kcat"), "-b", bootstrap, *options]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=READ_SECONDS)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr.decode()}"
    return done.stdout


def parse(output: bytes) -> list[Sample]:
    """Reads FORMAT: a line of numbers and headers, then key and value with the lengths in that line."""
    records, position = [], 0
    while position < len(output):
        line_end = output.index(b"\n", position)
        offset, timestamp, key_bytes, value_bytes, *headers = output[position:line_end].decode().split(" ", 4)
        key, position = _take(output, line_end + 1, int(key_bytes))
        value, position = _take(output, position, int(value_bytes))
        assert output[position : position + 1] == b"\n"
        position += 1
        pairs = (pair.split("=", 1) for pair in "".join(headers).split(",") if pair)
        records.append(
            Sample(
                key, value, tuple((name, text.encode()) for name, text in pairs), int(timestamp), int(offset)
            )
        )
    return records


def _take(output: bytes, start: int, size: int) -> tuple[bytes | None, int]:
    if size < 0:
        return None, start
    return output[start : start + size], start + size
