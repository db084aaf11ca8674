"""`kafka-consumer-perf-test.sh`: the throughput of a consumer, in the columns of Kafka's own tool."""

from __future__ import annotations

import random
import re
import time
from datetime import datetime
from typing import TYPE_CHECKING

from penstock.cli.flags import OneOf, UsageError
from penstock.cli.kafka.tool import BOOTSTRAP_SERVER, Options, Tool, client_settings, flag

if TYPE_CHECKING:
    from penstock.cli.perf.consumer import Consumed
    from penstock.cli.perf.measurement import Span

DATE_FORMAT = "yyyy-MM-dd HH:mm:ss:SSS"
EXTRA_COLUMNS = "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"

TOOL = Tool(
    "This tool is used to verify the consumer performance.",
    BOOTSTRAP_SERVER,
    flag("topic", "The topic to consume from.", "String: topic"),
    flag("include", "Regular expression of topics to consume from.", "String: regex"),
    flag("num-records", "The number of records to consume.", "Long: count", older=("--messages",)),
    flag("group", "The group id to consume on.", "String: gid"),
    flag("command-property", "A consumer setting, as key=value.", "String: prop1=val1"),
    flag(
        "command-config",
        "Property file with consumer settings.",
        "String: config file",
        older=("--consumer.config",),
    ),
    flag("from-latest", "Start with the latest record if there is no committed offset."),
    flag("fetch-size", "max.partition.fetch.bytes of the consumer.", "Integer: size", default="1048576"),
    flag("socket-buffer-size", "receive.buffer.bytes of the consumer.", "Integer: size", default="2097152"),
    flag(
        "timeout",
        "Stop if no record comes for this long.",
        "Long: milliseconds",
        default="10000",
        implied="10000",
    ),
    flag("show-detailed-stats", "Print a line per interval."),
    flag("reporting-interval", "Milliseconds per line.", "Long: interval_ms", default="5000"),
    flag("date-format", "Format of times, as in Java.", "String: date format", default=DATE_FORMAT),
    flag("hide-header", "Omit the column names."),
    flag("print-metrics", "Without effect: there are no metrics."),
    flag("threads", "Without effect; for old scripts.", "count", is_hidden=True),
    one_of=[
        OneOf(("topic", "include"), "Exactly one of the following arguments is required: [topic], [include]")
    ],
)

# Java's date patterns in Python's notation.
LETTERS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "SSS": "%f"}


def run(options: Options) -> int:
    from penstock.cli.perf.consumer import ConsumeLoad, consume

    count = options.integer("num-records")
    if not count:
        raise UsageError('Missing required argument "[num-records]"')
    load = ConsumeLoad(
        (options.text("topic"),) if options.has("topic") else (),
        re.compile(options.text("include")) if options.has("include") else None,
        count,
        patience_ms=options.number("timeout"),
        window_seconds=options.number("reporting-interval") / 1000,
    )
    is_detailed = options.has("show-detailed-stats")
    if not options.has("hide-header"):
        first = "time, threadId" if is_detailed else "start.time, end.time"
        print(f"{first}, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, {EXTRA_COLUMNS}")
    began = time.time()

    def on_window(window: Span, consumed: Consumed) -> None:
        if is_detailed:
            print(window_line(window, consumed, options.text("date-format")), flush=True)

    consumed = consume(load, settings_of(options), on_window)
    if not consumed.is_complete:
        print(
            "WARNING: Exiting before consuming the expected number of records: timeout "
            f"({options.number('timeout')} ms) exceeded. You can use the --timeout option to increase the timeout."
        )
    if not is_detailed:
        print(total_line(consumed, began, options.text("date-format")))
    return 0


def settings_of(options: Options) -> dict[str, str]:
    settings = client_settings(options)
    defaults = {
        "client.id": "perf-consumer-client",
        "group.id": f"perf-consumer-{random.Random().randrange(100_000)}",
        "auto.offset.reset": "latest" if options.has("from-latest") else "earliest",
        "receive.buffer.bytes": options.text("socket-buffer-size"),
        "max.partition.fetch.bytes": options.text("fetch-size"),
        "check.crcs": "false",
    }
    if options.has("group"):
        settings["group.id"] = options.text("group")
    return {**defaults, **settings}


def show_date(seconds: float, letters: str) -> str:
    """A local time in a pattern of Java's SimpleDateFormat; only numeric fields."""
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
