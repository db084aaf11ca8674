"""Kafka's console producer and console consumer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compat.clients.base import ALL_CODECS, WriteJob
from compat.clients.java import JavaTools
from harness.samples import Headers, Sample, without_timestamp

PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
NULL = "<null>"
NO_HEADERS = "NO_HEADERS"
PRODUCER_PROPERTIES = ("parse.key=true", "parse.headers=true", f"null.marker={NULL}")
CONSUMER_PROPERTIES = (
    "print.timestamp=true",
    "print.offset=true",
    "print.headers=true",
    "print.key=true",
    "print.value=true",
    f"null.literal={NULL}",
)


class ConsoleProducer:
    name = "console-producer"
    codecs = ALL_CODECS

    def expected(self, sample: Sample) -> Sample:
        return without_timestamp(sample)

    def produce(self, bootstrap: str, jobs: Sequence[WriteJob]) -> None:
        properties = [word for text in PRODUCER_PROPERTIES for word in ("--reader-property", text)]
        with JavaTools() as tools:
            for job in jobs:
                options = [
                    "--bootstrap-server",
                    bootstrap,
                    "--topic",
                    job.topic,
                    "--compression-codec",
                    job.codec,
                ]
                lines = "".join(f"{_line(record)}\n" for record in job.records)
                tools.run(PRODUCER, *options, *properties, stdin=lines)


class ConsoleConsumer:
    name = "console-consumer"
    codecs = ALL_CODECS
    reads_headers = True

    def consume(self, bootstrap: str, counts: Mapping[str, int]) -> dict[str, list[Sample]]:
        properties = [word for text in CONSUMER_PROPERTIES for word in ("--formatter-property", text)]
        records = {}
        with JavaTools() as tools:
            for topic, count in counts.items():
                place = ["--topic", topic, "--partition", "0", "--offset", "earliest"]
                limits = ["--max-messages", str(count), "--timeout-ms", "20000"]
                limits += [
                    "--command-property",
                    "fetch.max.wait.ms=50",
                ]  # closing waits for a fetch in flight
                output = tools.run(CONSUMER, "--bootstrap-server", bootstrap, *place, *limits, *properties)
                records[topic] = [_parse(line) for line in output.split("\n") if line]
        return records


def _line(record: Sample) -> str:
    headers = ",".join(f"{name}:{(value or b'').decode()}" for name, value in record.headers)
    return "\t".join([headers or NULL, _text(record.key), _text(record.value)])


def _parse(line: str) -> Sample:
    timestamp, offset, headers, key, value = line.split("\t")
    pairs: Headers = ()
    if headers != NO_HEADERS:
        pairs = tuple(
            (name, text.encode()) for name, text in (pair.split(":", 1) for pair in headers.split(","))
        )
    return Sample(
        key=_bytes(key),
        value=_bytes(value),
        headers=pairs,
        timestamp_ms=int(timestamp.partition(":")[2]),
        offset=int(offset.partition(":")[2]),
    )


def _text(data: bytes | None) -> str:
    return NULL if data is None else data.decode()


def _bytes(text: str) -> bytes | None:
    return None if text == NULL else text.encode()
