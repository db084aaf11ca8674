"""`kafka-producer-perf-test.sh`: the throughput of a producer, in the lines of Kafka's own tool."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.cli.failures import FAILED
from penstock.cli.flags import OneOf, UsageError
from penstock.cli.kafka.tool import BOOTSTRAP_SERVER, Options, Tool, client_settings, flag

if TYPE_CHECKING:
    from penstock.cli.perf.measurement import Span

TRANSACTION_MS = 3_000.0
DELIMITER = "\\n"

PAYLOADS = ("record-size", "payload-file", "payload-monotonic")

TOOL = Tool(
    "This tool is used to verify the producer performance.",
    BOOTSTRAP_SERVER,
    flag("topic", "Produce records to this topic.", "TOPIC", is_required=True),
    flag("num-records", "Number of records to produce.", "NUM-RECORDS", is_required=True),
    flag(
        "throughput",
        "At most this many records/sec; -1 for no limit.",
        "THROUGHPUT",
        is_required=True,
    ),
    flag("record-size", "Record size in bytes.", "RECORD-SIZE"),
    flag("payload-file", "File to read the record payloads from.", "PAYLOAD-FILE"),
    flag("payload-delimiter", "Delimiter of payloads in the file.", "DELIMITER", default=DELIMITER),
    flag("payload-monotonic", "Payload is a monotonically increasing integer."),
    flag(
        "command-property",
        "Producer settings, as key=value.",
        "PROP=VALUE ...",
        older=("--producer-props",),
        takes_rest=True,
    ),
    flag(
        "command-config", "Property file with producer settings.", "CONFIG-FILE", older=("--producer.config",)
    ),
    flag("transactional-id", "Produce in transactions with this id.", "TRANSACTIONAL-ID"),
    flag("transaction-duration-ms", "Duration of a transaction.", "TRANSACTION-DURATION"),
    flag("warmup-records", "First records, excluded from the steady state.", "WARMUP-RECORDS", default="0"),
    flag("reporting-interval", "Milliseconds per line.", "INTERVAL-MS", default="5000"),
    flag("print-metrics", "Without effect: there are no metrics."),
    one_of=[
        OneOf(PAYLOADS, "one of the arguments --record-size --payload-file --payload-monotonic is required")
    ],
)


def run(options: Options) -> int:
    from penstock.cli.perf.producer import ProduceLoad, produce

    settings, transaction_ms = settings_of(options)
    load = ProduceLoad(
        options.text("topic"),
        options.number("num-records"),
        float(options.number("throughput")),
        warm_up=options.number("warmup-records"),
        transaction_ms=transaction_ms,
        window_seconds=options.number("reporting-interval") / 1000,
    )
    if load.warm_up >= load.count:
        print("The value for --warmup-records must be strictly fewer than --num-records.", file=sys.stderr)
        return FAILED
    produced = produce(
        load, _payloads(options), settings, lambda window, done: print(window_line(window), flush=True)
    )
    print(total_line(produced.total))
    if produced.steady is not None:
        print(total_line(produced.steady, what="steady state records sent"))
    return 0


def settings_of(options: Options) -> tuple[dict[str, str], float | None]:
    """The producer settings, and the duration of a transaction if transactions are used."""
    settings = client_settings(options)
    settings.setdefault("client.id", "perf-producer-client")
    if options.has("transactional-id"):
        settings["transactional.id"] = options.text("transactional-id")
    duration = options.integer("transaction-duration-ms")
    if duration is not None and duration <= 0:
        raise UsageError("--transaction-duration-ms should be greater than zero")
    if duration is not None:
        settings.setdefault("transactional.id", f"performance-producer-{uuid.uuid4()}")
    if "transactional.id" not in settings:
        return settings, None
    return settings, float(duration or TRANSACTION_MS)


def _payloads(options: Options) -> Iterator[bytes]:
    from penstock.cli.perf import producer

    match options.given(PAYLOADS):
        case "record-size":
            return producer.random_payloads(options.number("record-size"))
        case "payload-file":
            path = options.text("payload-file")
            print(f"Reading payloads from: {os.path.abspath(path)}")
            delimiter = options.text("payload-delimiter").replace("\\n", "\n").replace("\\t", "\t")
            return producer.payloads_of_file(path, delimiter=delimiter)
        case _:
            return producer.counting_payloads()


def window_line(window: Span) -> str:
    return (
        f"{window.records} records sent, {window.records_per_second:.1f} records/sec "
        f"({window.mib_per_second:.2f} MB/sec), {window.latencies.mean:.1f} ms avg latency, "
        f"{window.latencies.maximum:.1f} ms max latency."
    )


def total_line(total: Span, *, what: str = "records sent") -> str:
    p50, p95, p99, p999 = (int(value) for value in total.latencies.percentiles(0.5, 0.95, 0.99, 0.999))
    return (
        f"{total.records} {what}, {total.records_per_second:.1f} records/sec "
        f"({total.mib_per_second:.2f} MB/sec), {total.latencies.mean:.2f} ms avg latency, "
        f"{total.latencies.maximum:.2f} ms max latency, {p50} ms 50th, {p95} ms 95th, {p99} ms 99th, "
        f"{p999} ms 99.9th."
    )
