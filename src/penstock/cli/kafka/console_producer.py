"""`kafka-console-producer.sh`: lines of stdin as records of a topic."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from penstock.cli.failures import Refusal
from penstock.cli.kafka.flags import (
    BOOTSTRAP_SERVER,
    Flag,
    Flags,
    Said,
    client_properties,
    parse_pairs,
    run_tool,
)

FLAGS = Flags(
    "This tool helps to read data from standard input and publish it to Kafka.",
    BOOTSTRAP_SERVER,
    Flag("broker-list", "The name of --bootstrap-server before Kafka 2.5.", "servers", is_hidden=True),
    Flag("topic", "The topic name to produce messages to.", "String: topic", is_required=True),
    Flag("reader-property", "How a line is read, as key=value, such as parse.key=true.", "String: prop"),
    Flag("property", "The old name of --reader-property.", "String: prop"),
    Flag("reader-config", "Property file of what --reader-property says.", "String: config file"),
    Flag("command-property", "A setting of the producer, as key=value.", "String: producer_prop"),
    Flag("producer-property", "The old name of --command-property.", "String: producer_prop"),
    Flag("command-config", "Property file with settings of the producer.", "String: config file"),
    Flag("producer.config", "The old name of --command-config.", "String: config file"),
    Flag("compression-codec", "none, gzip, snappy, lz4 or zstd.", "String: codec", alone="gzip"),
    Flag("sync", "Wait for each record before the next one is read."),
    Flag("batch-size", "batch.size of the producer.", "Integer: size"),
    Flag("max-partition-memory-bytes", "The old name of --batch-size.", "Integer: size"),
    Flag("timeout", "linger.ms of the producer.", "Long: timeout_ms"),
    Flag("max-block-ms", "max.block.ms of the producer.", "Long"),
    Flag("max-memory-bytes", "buffer.memory of the producer.", "Long: bytes"),
    Flag("message-send-max-retries", "retries of the producer.", "Integer"),
    Flag("metadata-expiry-ms", "metadata.max.age.ms of the producer.", "Long"),
    Flag("request-required-acks", "acks of the producer.", "String: acks"),
    Flag("request-timeout-ms", "request.timeout.ms of the producer.", "Integer"),
    Flag("retry-backoff-ms", "retry.backoff.ms of the producer.", "Long"),
    Flag("socket-buffer-size", "send.buffer.bytes of the producer.", "Integer: size"),
    Flag("line-reader", "What reads lines; LineMessageReader is the one there is.", "String: reader_class"),
)

# Flags that are settings of the producer by another name. What is not said is left to the producer.
SETTINGS = {
    "compression-codec": "compression.type",
    "max-partition-memory-bytes": "batch.size",
    "batch-size": "batch.size",
    "timeout": "linger.ms",
    "max-block-ms": "max.block.ms",
    "max-memory-bytes": "buffer.memory",
    "message-send-max-retries": "retries",
    "metadata-expiry-ms": "metadata.max.age.ms",
    "request-required-acks": "acks",
    "request-timeout-ms": "request.timeout.ms",
    "retry-backoff-ms": "retry.backoff.ms",
    "socket-buffer-size": "send.buffer.bytes",
}
KNOWN_READER = "LineMessageReader"


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _produce)


def settings_of(said: Said) -> dict[str, str]:
    """The producer's settings: what a flag says gives way to a property of the same meaning."""
    by_flags = {
        setting: value for name, setting in SETTINGS.items() if said.has(name) and (value := said.get(name))
    }
    properties = client_properties(
        said,
        files=("producer.config", "command-config"),
        properties=("producer-property", "command-property"),
        server="bootstrap-server" if said.has("bootstrap-server") else "broker-list",
    )
    return {"client.id": "console-producer", **by_flags, **properties}


def reader_properties(said: Said) -> dict[str, str]:
    from penstock.cli.connection import read_properties

    properties: dict[str, str] = {}
    for file in said.all("reader-config"):
        properties |= read_properties(file)
    return {**properties, **parse_pairs([*said.all("property"), *said.all("reader-property")])}


def _produce(said: Said) -> int:
    from penstock.cli.producing import standard_input, write_records
    from penstock.cli.records.line_reader import LineRules, read_lines

    reader = said.get("line-reader")
    if reader is not None and reader.rpartition(".")[2] != KNOWN_READER:
        raise Refusal(f"--line-reader {reader}: only {KNOWN_READER} is there")
    rules = LineRules.of_properties(reader_properties(said))
    is_prompting = sys.stdin.isatty() and sys.stdout.isatty()
    lines = standard_input(prompt=">" if is_prompting else None)
    write_records(
        said.text("topic"), read_lines(lines, rules), settings_of(said), waits_for_each=said.has("sync")
    )
    return 0
