"""`kafka-verifiable-producer.sh`: increasing numbers into a topic, and an event for each that was written."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.cli.kafka.events import EventPrinter, ended_by_signals, shown
from penstock.cli.kafka.flags import BOOTSTRAP_SERVER, Flag, Flags, Said, client_properties, run_tool
from penstock.cli.perf.measuring import Pace

if TYPE_CHECKING:
    from penstock.records.producing import Receipt

FLAGS = Flags(
    "This tool produces increasing integers to the specified topic and prints JSON metadata to stdout on each "
    '"send" request, making externally visible which messages have been acked and which have not.',
    BOOTSTRAP_SERVER,
    Flag("topic", "Produce messages to this topic.", "TOPIC", is_required=True),
    Flag("max-messages", "Produce this many messages; -1 for no end.", "MAX-MESSAGES", default="-1"),
    Flag(
        "throughput", "At most so many messages/sec; -1 for as many as possible.", "THROUGHPUT", default="-1"
    ),
    Flag("acks", "Acks required on each produced message.", "ACKS", default="-1"),
    Flag("message-create-time", "Timestamps from here on, in milliseconds.", "CREATE-TIME", default="-1"),
    Flag("value-prefix", "Each value has this prefix with a dot separator.", "VALUE-PREFIX"),
    Flag("repeating-keys", "Keys from 0 to this number, over and over.", "REPEATING-KEYS"),
    Flag("command-config", "Property file with settings of the producer.", "CONFIG-FILE"),
    Flag("producer.config", "The old name of --command-config.", "CONFIG-FILE"),
    Flag("broker-list", "The old name of --bootstrap-server.", "servers", is_hidden=True),
)


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _produce)


class Sender:
    """Sends numbers, and tells of each what became of it."""

    def __init__(self, said: Said, events: EventPrinter) -> None:
        self._topic = said.text("topic")
        self._prefix = said.get("value-prefix")
        self._keys = said.integer("repeating-keys")
        self._create_time_ms = said.number("message-create-time")
        self._began_ms = time.time_ns() // 1_000_000
        self._events = events
        self.sent = 0
        self.acked = 0

    def message(self, number: int) -> tuple[bytes | None, bytes, int | None]:
        """Key, value and time of one message."""
        key = None if self._keys is None else b"%d" % (number % self._keys)
        value = f"{self._prefix}.{number}" if self._prefix is not None else str(number)
        timestamp_ms: int | None = None
        if self._create_time_ms >= 0:
            timestamp_ms = self._create_time_ms + time.time_ns() // 1_000_000 - self._began_ms
        return key, value.encode(), timestamp_ms

    def listener(self, key: bytes | None, value: bytes) -> Callable[[Receipt], None]:
        return lambda receipt: self._answered(receipt, key, value)

    def _answered(self, receipt: Receipt, key: bytes | None, value: bytes) -> None:
        """Called on the producer's thread."""
        problem = receipt.exception(0)
        facts = {"key": shown(key), "value": shown(value)}
        if problem is None:
            delivery = receipt.result(0)
            self.acked += 1
            self._events.tell(
                "producer_send_success",
                **facts,
                offset=delivery.offset,
                topic=delivery.topic,
                partition=delivery.partition,
            )
        else:
            self._events.tell(
                "producer_send_error",
                **facts,
                exception=str(type(problem)),
                message=str(problem),
                topic=self._topic,
            )


def _produce(said: Said) -> int:
    from penstock.cli.ending import producing

    server = "bootstrap-server" if said.has("bootstrap-server") else "broker-list"
    settings = client_properties(
        said, files=("producer.config", "command-config"), properties=(), server=server
    )
    settings |= {"acks": said.text("acks"), "retries": "0", "enable.idempotence": "false"}
    count, throughput = said.number("max-messages"), said.number("throughput")
    events = EventPrinter()
    sender = Sender(said, events)
    began = time.monotonic()
    pace = Pace(throughput, now=began)
    with ended_by_signals() as is_asked_to_end:
        with producing(settings) as producer:
            events.tell("startup_complete")
            while (count < 0 or sender.sent < count) and not is_asked_to_end():
                key, value, timestamp_ms = sender.message(sender.sent)
                sender.sent += 1
                receipt = producer.send(said.text("topic"), value, key=key, timestamp_ms=timestamp_ms)
                receipt.add_done_callback(sender.listener(key, value))
                wait = pace.is_ahead(sender.sent, time.monotonic())
                if wait > 0:
                    time.sleep(wait)
        events.tell("shutdown_complete")
    seconds = time.monotonic() - began
    events.tell(
        "tool_data",
        sent=sender.sent,
        acked=sender.acked,
        target_throughput=throughput,
        avg_throughput=sender.acked / seconds,
    )
    return 0
