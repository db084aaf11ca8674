"""`kafka-consumer-perf-test.sh`: a consumer's throughput, in the columns that scripts read out of Kafka's own
tool.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

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
    from penstock.cli.perf.consuming import Consumed
    from penstock.cli.perf.measuring import Span

DATE_FORMAT = "yyyy-MM-dd HH:mm:ss:SSS"
EXTRA_COLUMNS = "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"

FLAGS = Flags(
    "This tool is used to verify the consumer performance.",
    BOOTSTRAP_SERVER,
    Flag("topic", "The topic to consume from.", "String: topic"),
    Flag("include", "Regular expression of topics to consume from.", "String: regex"),
    Flag("num-records", "The number of records to consume.", "Long: count"),
    Flag("messages", "The old name of --num-records.", "Long: count"),
    Flag("group", "The group id to consume on.", "String: gid"),
    Flag("command-property", "A setting of the consumer, as key=value.", "String: prop1=val1"),
    Flag("command-config", "Property file with settings of the consumer.", "String: config file"),
    Flag("consumer.config", "The old name of --command-config.", "String: config file"),
    Flag("from-latest", "Begin with the latest record where there is no offset to go on from."),
    Flag("fetch-size", "max.partition.fetch.bytes of the consumer.", "Integer: size", default="1048576"),
    Flag("socket-buffer-size", "receive.buffer.bytes of the consumer.", "Integer: size", default="2097152"),
    Flag(
        "timeout", "End if no record comes for so long.", "Long: milliseconds", default="10000", alone="10000"
    ),
    Flag("show-detailed-stats", "A line for each interval."),
    Flag("reporting-interval", "Milliseconds between two lines.", "Long: interval_ms", default="5000"),
    Flag(
        "date-format", "How times are shown, in Java's letters.", "String: date format", default=DATE_FORMAT
    ),
    Flag("hide-header", "No names over the columns."),
    Flag("print-metrics", "Print out metrics; there are none."),
    Flag("threads", "From the times of several threads; without effect.", "count", is_hidden=True),
)

# Java's letters of a date, longest first, and Python's.
LETTERS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "SSS": "%f"}


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _consume)


def _consume(said: Said) -> int:
    from penstock.cli.perf.consuming import ConsumeLoad, consume

    if said.has("topic") == said.has("include"):
        raise BadFlags("Exactly one of the following arguments is required: [topic], [include]")
    count = said.integer("num-records") or said.integer("messages")
    if count is None:
        raise BadFlags('Missing required argument "[num-records]"')
    load = ConsumeLoad(
        (said.text("topic"),) if said.has("topic") else (),
        re.compile(said.text("include")) if said.has("include") else None,
        count,
        patience_ms=said.number("timeout"),
        window_seconds=said.number("reporting-interval") / 1000,
    )
    is_detailed = said.has("show-detailed-stats")
    if not said.has("hide-header"):
        first = "time, threadId" if is_detailed else "start.time, end.time"
        print(f"{first}, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, {EXTRA_COLUMNS}")
    began = time.time()

    def told(window: Span, consumed: Consumed) -> None:
        if is_detailed:
            print(window_line(window, consumed, said.text("date-format")), flush=True)

    consumed = consume(load, settings_of(said), told)
    if not consumed.is_complete:
        print(
            "WARNING: Exiting before consuming the expected number of records: timeout "
            f"({said.number('timeout')} ms) exceeded. You can use the --timeout option to increase the timeout."
        )
    if not is_detailed:
        print(total_line(consumed, began, said.text("date-format")))
    return 0


def settings_of(said: Said) -> dict[str, str]:
    settings = client_properties(
        said, files=("consumer.config", "command-config"), properties=("command-property",)
    )
    defaults = {
        "client.id": "perf-consumer-client",
        "group.id": f"perf-consumer-{random.randrange(100_000)}",
        "auto.offset.reset": "latest" if said.has("from-latest") else "earliest",
        "receive.buffer.bytes": said.text("socket-buffer-size"),
        "max.partition.fetch.bytes": said.text("fetch-size"),
        "check.crcs": "false",
    }
    if said.has("group"):
        settings["group.id"] = said.text("group")
    return {**defaults, **settings}


def show_date(seconds: float, letters: str) -> str:
    """A local time, in the notation of Java's SimpleDateFormat, as far as numbers go."""
    moment = datetime.fromtimestamp(seconds)
    return re.sub(
        "yyyy|MM|dd|HH|mm|ss|SSS",
        lambda match: (
            f"{moment.microsecond // 1000:03}" if match[0] == "SSS" else moment.strftime(LETTERS[match[0]])
        ),
        letters,
    )


def total_line(consumed: Consumed, began: float, letters: str) -> str:
    total = consumed.total
    fetch_s = max(total.seconds - consumed.joining_ms / 1000, 1e-3)
    mib = total.bytes / (1024 * 1024)
    return (
        f"{show_date(began, letters)}, {show_date(began + total.seconds, letters)}, {mib:.4f}, "
        f"{total.mib_per_second:.4f}, {total.records}, {total.records_per_second:.4f}, {consumed.joining_ms:.0f}, "
        f"{fetch_s * 1000:.0f}, {mib / fetch_s:.4f}, {total.records / fetch_s:.4f}"
    )


def window_line(window: Span, consumed: Consumed, letters: str) -> str:
    fetch_s = window.seconds - consumed.joining_ms_in_window / 1000
    mib = window.bytes / (1024 * 1024)
    return (
        f"{show_date(time.time(), letters)}, 0, {consumed.total.bytes / (1024 * 1024):.4f}, "
        f"{window.mib_per_second:.4f}, {consumed.total.records}, {window.records_per_second:.4f}, "
        f"{consumed.joining_ms_in_window:.0f}, {fetch_s * 1000:.0f}, "
        f"{mib / fetch_s if fetch_s > 0 else 0.0:.4f}, {window.records / fetch_s if fetch_s > 0 else 0.0:.4f}"
    )
