"""`kafka-console-producer.sh`: write lines of stdin to a topic."""

from __future__ import annotations

import sys

from penstock.cli.failures import Refusal
from penstock.cli.kafka.tool import (
    BOOTSTRAP_SERVER_OR_BROKER_LIST,
    Options,
    Tool,
    client_settings,
    flag,
    read_settings,
)

TOOL = Tool(
    "This tool helps to read data from standard input and publish it to Kafka.",
    BOOTSTRAP_SERVER_OR_BROKER_LIST,
    flag("topic", "The topic name to produce messages to.", "String: topic", is_required=True),
    flag(
        "reader-property",
        "How to read a line, as key=value, such as parse.key=true.",
        "String: prop",
        older=("--property",),
    ),
    flag("reader-config", "Property file of the line reader.", "String: config file"),
    flag(
        "command-property",
        "A producer setting, as key=value.",
        "String: producer_prop",
        older=("--producer-property",),
    ),
    flag(
        "command-config",
        "Property file with producer settings.",
        "String: config file",
        older=("--producer.config",),
    ),
    flag("compression-codec", "none, gzip, snappy, lz4 or zstd.", "String: codec", implied="gzip"),
    flag("sync", "Wait for the acknowledgement of each record."),
    flag(
        "batch-size", "batch.size of the producer.", "Integer: size", older=("--max-partition-memory-bytes",)
    ),
    flag("timeout", "linger.ms of the producer.", "Long: timeout_ms"),
    flag("max-block-ms", "max.block.ms of the producer.", "Long"),
    flag("max-memory-bytes", "buffer.memory of the producer.", "Long: bytes"),
    flag("message-send-max-retries", "retries of the producer.", "Integer"),
    flag("metadata-expiry-ms", "metadata.max.age.ms of the producer.", "Long"),
    flag("request-required-acks", "acks of the producer.", "String: acks"),
    flag("request-timeout-ms", "request.timeout.ms of the producer.", "Integer"),
    flag("retry-backoff-ms", "retry.backoff.ms of the producer.", "Long"),
    flag("socket-buffer-size", "send.buffer.bytes of the producer.", "Integer: size"),
    flag(
        "line-reader", "Class that reads lines; only LineMessageReader is supported.", "String: reader_class"
    ),
)

# Flags that set a producer setting.
SETTINGS = {
    "compression-codec": "compression.type",
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


def settings_of(options: Options) -> dict[str, str]:
    """The producer settings. A property overrides the flag for the same setting."""
    by_flags = {
        setting: value
        for name, setting in SETTINGS.items()
        if options.has(name) and (value := options.get(name))
    }
    properties = client_settings(options)
    return {"client.id": "console-producer", **by_flags, **properties}


def run(options: Options) -> int:
    from penstock.cli.record_writer import standard_input, write_records
    from penstock.cli.records.line_reader import LineRules, read_lines

    reader = options.get("line-reader")
    if reader is not None and reader.rpartition(".")[2] != KNOWN_READER:
        raise Refusal(f"--line-reader {reader}: only {KNOWN_READER} is supported")
    rules = LineRules.of_properties(read_settings(options, file="reader-config", pairs="reader-property"))
    is_prompting = sys.stdin.isatty() and sys.stdout.isatty()
    lines = standard_input(prompt=">" if is_prompting else None)
    write_records(
        options.text("topic"),
        read_lines(lines, rules),
        settings_of(options),
        waits_for_each=options.has("sync"),
    )
    return 0
