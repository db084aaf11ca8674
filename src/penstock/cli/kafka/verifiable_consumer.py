"""`kafka-verifiable-consumer.sh`: a group member that prints its events as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.cli.flags import UsageError
from penstock.cli.kafka.events import EventPrinter, shown, stopped_by_signals
from penstock.cli.kafka.tool import (
    BOOTSTRAP_SERVER_OR_BROKER_LIST,
    Options,
    Tool,
    client_settings,
    flag,
)

if TYPE_CHECKING:
    from penstock import Consumer, Message, TopicPartition

POLL_S = 0.2
BATCH_MAX = 500
RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"

TOOL = Tool(
    "This tool consumes messages from a specific topic and emits consumer events (e.g. group rebalances, received "
    "messages, and offsets committed) as JSON objects to STDOUT.",
    BOOTSTRAP_SERVER_OR_BROKER_LIST,
    flag("topic", "Consumes messages from this topic.", "TOPIC", is_required=True),
    flag("group-id", "The group id of the consumer group.", "GROUP-ID", is_required=True),
    flag("group-protocol", "classic or consumer.", "GROUP-PROTOCOL", default="classic"),
    flag("group-remote-assignor", "Server-side assignor, with group.protocol=consumer.", "ASSIGNOR"),
    flag("group-instance-id", "A unique identifier of the consumer instance.", "GROUP-INSTANCE-ID"),
    flag("max-messages", "Consume this many messages; -1 for no limit.", "MAX-MESSAGES", default="-1"),
    flag(
        "session-timeout", "The session timeout, with group.protocol=classic.", "TIMEOUT-MS", default="30000"
    ),
    flag("verbose", "Print every message."),
    flag("enable-autocommit", "Enable offset auto-commit on consumer."),
    flag("reset-policy", "earliest, latest or none.", "RESET-POLICY", default="earliest"),
    flag("assignment-strategy", "Assignor, with group.protocol=classic.", "CLASS", default=RANGE),
    flag(
        "command-config", "Property file with consumer settings.", "CONFIG-FILE", older=("--consumer.config",)
    ),
)


def settings_of(options: Options) -> dict[str, str]:
    settings = client_settings(options)
    settings |= {
        "group.id": options.text("group-id"),
        "enable.auto.commit": "true" if options.has("enable-autocommit") else "false",
        "auto.offset.reset": options.text("reset-policy"),
    }
    match options.text("group-protocol").lower():
        case "classic":
            settings |= {
                "group.protocol": "classic",
                "session.timeout.ms": options.text("session-timeout"),
                "partition.assignment.strategy": options.text("assignment-strategy"),
            }
        case "consumer":
            settings["group.protocol"] = "consumer"
            if options.has("group-remote-assignor"):
                settings["group.remote.assignor"] = options.text("group-remote-assignor")
        case other:
            raise UsageError(f"group-protocol must be classic or consumer, not {other}")
    if options.has("group-instance-id"):
        settings["group.instance.id"] = options.text("group-instance-id")
    return settings


class EventListener:
    """The rebalance listener; prints all events of the consumer."""

    def __init__(self, events: EventPrinter) -> None:
        self._events = events

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition], /) -> None:
        self._events.print("partitions_assigned", partitions=_named(partitions))

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition], /) -> None:
        self._events.print("partitions_revoked", partitions=_named(partitions))

    def on_partitions_lost(self, partitions: Sequence[TopicPartition], /) -> None:
        self.on_partitions_revoked(partitions)

    def print_received(self, messages: Sequence[Message], *, is_verbose: bool) -> None:
        ranges: dict[tuple[str, int], list[int]] = {}
        for message in messages:
            ranges.setdefault((message.topic, message.partition), []).append(message.offset)
            if is_verbose:
                self._events.print(
                    "record_data",
                    key=shown(message.key),
                    value=shown(message.value),
                    topic=message.topic,
                    partition=message.partition,
                    offset=message.offset,
                )
        self._events.print(
            "records_consumed",
            count=len(messages),
            partitions=[
                {
                    "topic": topic,
                    "partition": partition,
                    "count": len(offsets),
                    "minOffset": offsets[0],
                    "maxOffset": offsets[-1],
                }
                for (topic, partition), offsets in ranges.items()
            ],
        )

    def commit(self, consumer: Consumer, messages: Sequence[Message]) -> None:
        from penstock.errors import PenstockError

        offsets = {(message.topic, message.partition): message.offset + 1 for message in messages}
        committed = [
            {"topic": topic, "partition": partition, "offset": offset}
            for (topic, partition), offset in offsets.items()
        ]
        try:
            consumer.commit()
        except PenstockError as problem:
            self._events.print("offsets_committed", offsets=committed, error=str(problem), success=False)
        else:
            self._events.print("offsets_committed", offsets=committed, success=True)


def _named(partitions: Sequence[TopicPartition]) -> list[dict[str, object]]:
    return [{"topic": partition.topic, "partition": partition.partition} for partition in partitions]


def run(options: Options) -> int:
    from penstock.cli.clients import open_consumer

    events = EventPrinter()
    listener = EventListener(events)
    count, wanted = 0, options.number("max-messages")
    with stopped_by_signals() as is_stopped:
        with open_consumer(settings_of(options)) as consumer:
            events.print("startup_complete")
            consumer.subscribe([options.text("topic")], listener=listener)
            while (wanted < 0 or count < wanted) and not is_stopped():
                most = BATCH_MAX if wanted < 0 else min(BATCH_MAX, wanted - count)
                messages = consumer.poll(timeout=POLL_S, max_records=most)
                if not messages:
                    continue
                count += len(messages)
                listener.print_received(messages, is_verbose=options.has("verbose"))
                if not options.has("enable-autocommit"):
                    listener.commit(consumer, messages)
        events.print("shutdown_complete")
    return 0
