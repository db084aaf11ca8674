"""`kafka-verifiable-consumer.sh`: a member of a group that tells of all that happens to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.cli.kafka.events import EventPrinter, ended_by_signals, shown
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
    from penstock import Consumer, Message, TopicPartition

POLL_S = 0.2
BATCH_MAX = 500
RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"

FLAGS = Flags(
    "This tool consumes messages from a specific topic and emits consumer events (e.g. group rebalances, received "
    "messages, and offsets committed) as JSON objects to STDOUT.",
    BOOTSTRAP_SERVER,
    Flag("topic", "Consumes messages from this topic.", "TOPIC", is_required=True),
    Flag("group-id", "The group id of the consumer group.", "GROUP-ID", is_required=True),
    Flag("group-protocol", "classic or consumer.", "GROUP-PROTOCOL", default="classic"),
    Flag("group-remote-assignor", "Who divides partitions, with group.protocol=consumer.", "ASSIGNOR"),
    Flag("group-instance-id", "A unique identifier of the consumer instance.", "GROUP-INSTANCE-ID"),
    Flag("max-messages", "Consume this many messages; -1 for no end.", "MAX-MESSAGES", default="-1"),
    Flag(
        "session-timeout", "The session timeout, with group.protocol=classic.", "TIMEOUT-MS", default="30000"
    ),
    Flag("verbose", "Tell of every message."),
    Flag("enable-autocommit", "Enable offset auto-commit on consumer."),
    Flag("reset-policy", "earliest, latest or none.", "RESET-POLICY", default="earliest"),
    Flag(
        "assignment-strategy", "Who divides partitions, with group.protocol=classic.", "CLASS", default=RANGE
    ),
    Flag("command-config", "Property file with settings of the consumer.", "CONFIG-FILE"),
    Flag("consumer.config", "The old name of --command-config.", "CONFIG-FILE"),
    Flag("broker-list", "The old name of --bootstrap-server.", "servers", is_hidden=True),
)


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _consume)


def settings_of(said: Said) -> dict[str, str]:
    server = "bootstrap-server" if said.has("bootstrap-server") else "broker-list"
    settings = client_properties(
        said, files=("consumer.config", "command-config"), properties=(), server=server
    )
    settings |= {
        "group.id": said.text("group-id"),
        "enable.auto.commit": "true" if said.has("enable-autocommit") else "false",
        "auto.offset.reset": said.text("reset-policy"),
    }
    match said.text("group-protocol").lower():
        case "classic":
            settings |= {
                "group.protocol": "classic",
                "session.timeout.ms": said.text("session-timeout"),
                "partition.assignment.strategy": said.text("assignment-strategy"),
            }
        case "consumer":
            settings["group.protocol"] = "consumer"
            if said.has("group-remote-assignor"):
                settings["group.remote.assignor"] = said.text("group-remote-assignor")
        case other:
            raise BadFlags(f"group-protocol can be classic or consumer, and not {other}")
    if said.has("group-instance-id"):
        settings["group.instance.id"] = said.text("group-instance-id")
    return settings


class Teller:
    """Turns what happens to a consumer into events. It is the consumer's listener."""

    def __init__(self, events: EventPrinter) -> None:
        self._events = events

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition], /) -> None:
        self._events.tell("partitions_assigned", partitions=_named(partitions))

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition], /) -> None:
        self._events.tell("partitions_revoked", partitions=_named(partitions))

    def on_partitions_lost(self, partitions: Sequence[TopicPartition], /) -> None:
        self.on_partitions_revoked(partitions)

    def received(self, messages: Sequence[Message], *, is_verbose: bool) -> None:
        ranges: dict[tuple[str, int], list[int]] = {}
        for message in messages:
            ranges.setdefault((message.topic, message.partition), []).append(message.offset)
            if is_verbose:
                self._events.tell(
                    "record_data",
                    key=shown(message.key),
                    value=shown(message.value),
                    topic=message.topic,
                    partition=message.partition,
                    offset=message.offset,
                )
        self._events.tell(
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
        told = [
            {"topic": topic, "partition": partition, "offset": offset}
            for (topic, partition), offset in offsets.items()
        ]
        try:
            consumer.commit()
        except PenstockError as problem:
            self._events.tell("offsets_committed", offsets=told, error=str(problem), success=False)
        else:
            self._events.tell("offsets_committed", offsets=told, success=True)


def _named(partitions: Sequence[TopicPartition]) -> list[dict[str, object]]:
    return [{"topic": partition.topic, "partition": partition.partition} for partition in partitions]


def _consume(said: Said) -> int:
    from penstock.cli.ending import consuming

    events = EventPrinter()
    teller = Teller(events)
    count, wanted = 0, said.number("max-messages")
    with ended_by_signals() as is_asked_to_end:
        with consuming(settings_of(said)) as consumer:
            events.tell("startup_complete")
            consumer.subscribe([said.text("topic")], listener=teller)
            while (wanted < 0 or count < wanted) and not is_asked_to_end():
                most = BATCH_MAX if wanted < 0 else min(BATCH_MAX, wanted - count)
                messages = consumer.poll(timeout=POLL_S, max_records=most)
                if not messages:
                    continue
                count += len(messages)
                teller.received(messages, is_verbose=said.has("verbose"))
                if not said.has("enable-autocommit"):
                    teller.commit(consumer, messages)
        events.tell("shutdown_complete")
    return 0
