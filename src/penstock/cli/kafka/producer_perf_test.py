"""`kafka-producer-perf-test.sh`: a producer's throughput, in the lines that scripts read out of Kafka's own tool."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from penstock.cli.failures import FAILED
from penstock.cli.kafka.flags import (
    BOOTSTRAP_SERVER,
    BadFlags,
    Flag,
    Flags,
    Said,
    client_properties,
    run_tool,
)

if TYPE_CHECKING:
    from penstock.cli.perf.measuring import Span

TRANSACTION_MS = 3_000.0
DELIMITER = "\\n"

FLAGS = Flags(
    "This tool is used to verify the producer performance.",
    BOOTSTRAP_SERVER,
    Flag("topic", "Produce records to this topic.", "TOPIC", is_required=True),
    Flag("num-records", "Number of records to produce.", "NUM-RECORDS", is_required=True),
    Flag(
        "throughput",
        "At most so many records/sec; -1 for as many as possible.",
        "THROUGHPUT",
        is_required=True,
    ),
    Flag("record-size", "Record size in bytes.", "RECORD-SIZE"),
    Flag("payload-file", "File to read the record payloads from.", "PAYLOAD-FILE"),
    Flag("payload-delimiter", "What stands between payloads in the file.", "DELIMITER", default=DELIMITER),
    Flag("payload-monotonic", "Payload is a monotonically increasing integer."),
    Flag("command-property", "Settings of the producer, as key=value.", "PROP=VALUE ...", takes_rest=True),
    Flag("producer-props", "The old name of --command-property.", "PROP=VALUE ...", takes_rest=True),
    Flag("command-config", "Property file with settings of the producer.", "CONFIG-FILE"),
    Flag("producer.config", "The old name of --command-config.", "CONFIG-FILE"),
    Flag("transactional-id", "Write in transactions, as this one.", "TRANSACTIONAL-ID"),
    Flag("transaction-duration-ms", "How long a transaction is held open.", "TRANSACTION-DURATION"),
    Flag("warmup-records", "Records that the second sum leaves out.", "WARMUP-RECORDS", default="0"),
    Flag("reporting-interval", "Milliseconds between two lines.", "INTERVAL-MS", default="5000"),
    Flag("print-metrics", "Print out metrics at the end of the test; there are none."),
)


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _produce)


def _produce(said: Said) -> int:
    from penstock.cli.perf.producing import ProduceLoad, produce

    settings, transaction_ms = settings_of(said)
    load = ProduceLoad(
        said.text("topic"),
        said.number("num-records"),
        float(said.number("throughput")),
        warm_up=said.number("warmup-records"),
        transaction_ms=transaction_ms,
        window_seconds=said.number("reporting-interval") / 1000,
    )
    if load.warm_up >= load.count:
        print("The value for --warmup-records must be strictly fewer than --num-records.", file=sys.stderr)
        return FAILED
    produced = produce(
        load, _payloads(said), settings, lambda window, done: print(window_line(window), flush=True)
    )
    print(total_line(produced.total))
    if produced.steady is not None:
        print(total_line(produced.steady, what="steady state records sent"))
    return 0


def settings_of(said: Said) -> tuple[dict[str, str], float | None]:
    """The producer's settings, and how long a transaction is held open where there are any."""
    settings = client_properties(
        said, files=("producer.config", "command-config"), properties=("producer-props", "command-property")
    )
    settings.setdefault("client.id", "perf-producer-client")
    if said.has("transactional-id"):
        settings["transactional.id"] = said.text("transactional-id")
    duration = said.integer("transaction-duration-ms")
    if duration is not None and duration <= 0:
        raise BadFlags("--transaction-duration-ms should be greater than zero")
    if duration is not None:
        settings.setdefault("transactional.id", f"performance-producer-{uuid.uuid4()}")
    if "transactional.id" not in settings:
        return settings, None
    return settings, float(duration or TRANSACTION_MS)


def _payloads(said: Said) -> Iterator[bytes]:
    from penstock.cli.perf import producing

    sources = [name for name in ("record-size", "payload-file", "payload-monotonic") if said.has(name)]
    if len(sources) != 1:
        raise BadFlags("one of the arguments --record-size --payload-file --payload-monotonic is required")
    match sources[0]:
        case "record-size":
            return producing.random_payloads(said.number("record-size"))
        case "payload-file":
            path = said.text("payload-file")
            print(f"Reading payloads from: {os.path.abspath(path)}")
            delimiter = said.text("payload-delimiter").replace("\\n", "\n").replace("\\t", "\t")
            return producing.payloads_of_file(path, delimiter=delimiter)
        case _:
            return producing.counting_payloads()


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
