"""`kafka-verifiable-producer.sh`: produce increasing numbers, and print an event for each acknowledgement."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.cli.kafka.events import EventPrinter, shown, stopped_by_signals
from penstock.cli.kafka.tool import (
    BOOTSTRAP_SERVER_OR_BROKER_LIST,
    Options,
    Tool,
    client_settings,
    flag,
)
from penstock.cli.perf.measurement import Pace

if TYPE_CHECKING:
    from penstock.records.producing import Receipt

TOOL = Tool(
    "This tool produces increasing integers to the specified topic and prints JSON metadata to stdout on each "
    '"send" request, making externally visible which messages have been acked and which have not.',
    BOOTSTRAP_SERVER_OR_BROKER_LIST,
    flag("topic", "Produce messages to this topic.", "TOPIC", is_required=True),
    flag("max-messages", "Produce this many messages; -1 for no limit.", "MAX-MESSAGES", default="-1"),
    flag("throughput", "At most this many messages/sec; -1 for no limit.", "THROUGHPUT", default="-1"),
    flag("acks", "Acks required on each produced message.", "ACKS", default="-1"),
    flag("message-create-time", "First timestamp, in milliseconds.", "CREATE-TIME", default="-1"),
    flag("value-prefix", "Each value has this prefix with a dot separator.", "VALUE-PREFIX"),
    flag("repeating-keys", "Repeat keys from 0 to this number.", "REPEATING-KEYS"),
    flag(
        "command-config", "Property file with producer settings.", "CONFIG-FILE", older=("--producer.config",)
    ),
)


class Sender:
    """Sends numbers, and prints the result of each."""

    def __init__(self, options: Options, events: EventPrinter) -> None:
        self._topic = options.text("topic")
        self._prefix = options.get("value-prefix")
        self._keys = options.integer("repeating-keys")
        self._create_time_ms = options.number("message-create-time")
        self._began_ms = time.time_ns() // 1_000_000
        self._events = events
        self.sent = 0
        self.acked = 0

    def message(self, number: int) -> tuple[bytes | None, bytes, int | None]:
        """Key, value and timestamp of a message."""
        key = None if self._keys is None else b"%d" % (number % self._keys)
        value = f"{self._prefix}.{number}" if self._prefix is not None else str(number)
        timestamp_ms: int | None = None
        if self._create_time_ms >= 0:
            timestamp_ms = self._create_time_ms + time.time_ns() // 1_000_000 - self._began_ms
        return key, value.encode(), timestamp_ms

    def listener(self, key: bytes | None, value: bytes) -> Callable[[Receipt], None]:
        return lambda receipt: self._on_done(receipt, key, value)

    def _on_done(self, receipt: Receipt, key: bytes | None, value: bytes) -> None:
        """Called on the thread of the producer."""
        problem = receipt.exception(0)
        facts = {"key": shown(key), "value": shown(value)}
        if problem is None:
            delivery = receipt.result(0)
            self.acked += 1
            self._events.print(
                "producer_send_success",
                **facts,
                offset=delivery.offset,
                topic=delivery.topic,
                partition=delivery.partition,
            )
        else:
            self._events.print(
                "producer_send_error",
                **facts,
                exception=str(type(problem)),
                message=str(problem),
                topic=self._topic,
            )


def run(options: Options) -> int:
    from penstock.cli.clients import open_producer

    settings = client_settings(options)
    settings |= {"acks": options.text("acks"), "retries": "0", "enable.idempotence": "false"}
    count, throughput = options.number("max-messages"), options.number("throughput")
    events = EventPrinter()
    sender = Sender(options, events)
    began = time.monotonic()
    pace = Pace(throughput, now=began)
    with stopped_by_signals() as is_stopped:
        with open_producer(settings) as producer:
            events.print("startup_complete")
            while (count < 0 or sender.sent < count) and not is_stopped():
                key, value, timestamp_ms = sender.message(sender.sent)
                sender.sent += 1
                receipt = producer.send(options.text("topic"), value, key=key, timestamp_ms=timestamp_ms)
                receipt.add_done_callback(sender.listener(key, value))
                wait = pace.wait_seconds(sender.sent, time.monotonic())
                if wait > 0:
                    time.sleep(wait)
        events.print("shutdown_complete")
    seconds = time.monotonic() - began
    events.print(
        "tool_data",
        sent=sender.sent,
        acked=sender.acked,
        target_throughput=throughput,
        avg_throughput=sender.acked / seconds,
    )
    return 0
