"""`kafka-console-consumer.sh`: records of topics as lines of stdout.

Without `--group` none is made up: the consumer reads by itself, and leaves nothing behind in the cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.cli.failures import Refusal, status_of
from penstock.cli.kafka.flags import (
    BOOTSTRAP_SERVER,
    BadFlags,
    Flag,
    Flags,
    Said,
    client_properties,
    parse_pairs,
    run_tool,
)

if TYPE_CHECKING:
    from penstock import Consumer, Message
    from penstock.cli.records.formatters import Formatter

FORMATTER = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
BATCH_MAX = 500  # messages that are taken at once, and so printed together
POLL_S = 1.0

FLAGS = Flags(
    "This tool helps to read data from Kafka topics and outputs it to standard output.",
    BOOTSTRAP_SERVER,
    Flag("topic", "The topic to consume from.", "String: topic"),
    Flag("include", "Regular expression of topics to consume from.", "String: regex", ("--whitelist",)),
    Flag("partition", "The partition to consume from.", "Integer: partition"),
    Flag(
        "offset",
        "Where in the partition to begin: a number, earliest or latest.",
        "String: offset",
        default="latest",
    ),
    Flag("group", "The consumer group id of the consumer.", "String: group id"),
    Flag("from-beginning", "Begin with the earliest record where there is no offset to go on from."),
    Flag("max-messages", "End after so many messages.", "Integer: num_messages"),
    Flag("timeout-ms", "End if no message comes for so long.", "Long: timeout_ms"),
    Flag("formatter", "What prints messages.", "String: class", default=FORMATTER),
    Flag(
        "formatter-property",
        "How messages are printed, as key=value, such as print.key=true.",
        "String: prop",
    ),
    Flag("property", "The old name of --formatter-property.", "String: prop"),
    Flag("formatter-config", "Property file of what --formatter-property says.", "String: config file"),
    Flag("command-property", "A setting of the consumer, as key=value.", "String: consumer_prop"),
    Flag("consumer-property", "The old name of --command-property.", "String: consumer_prop"),
    Flag("command-config", "Property file with settings of the consumer.", "String: config file"),
    Flag("consumer.config", "The old name of --command-config.", "String: config file"),
    Flag("key-deserializer", "How keys are read.", "String: class"),
    Flag("value-deserializer", "How values are read.", "String: class"),
    Flag("isolation-level", "read_committed or read_uncommitted.", "String", default="read_uncommitted"),
    Flag("skip-message-on-error", "Go on after a message that cannot be printed."),
    Flag("enable-systest-events", "Also print when the consumer has ended."),
    Flag("new-consumer", "From the times of two consumers; without effect.", is_hidden=True),
)


def run(arguments: Sequence[str]) -> int:
    return run_tool(FLAGS, arguments, _consume)


def check(said: Said) -> None:
    """Refuse, in Kafka's words, what contradicts itself."""
    if said.has("topic") == said.has("include"):
        raise BadFlags("Exactly one of --include/--topic is required. ")
    if said.has("partition"):
        if not said.has("topic"):
            raise BadFlags("The topic is required when partition is specified.")
        if said.has("from-beginning") and said.has("offset"):
            raise BadFlags("Options from-beginning and offset cannot be specified together.")
        if said.has("group"):
            raise BadFlags("Options group and partition cannot be specified together.")
    elif said.has("offset"):
        raise BadFlags("The partition is required when offset is specified.")
    _offset(said)


def settings_of(said: Said) -> dict[str, str]:
    """The consumer's settings."""
    properties = client_properties(
        said,
        files=("consumer.config", "command-config"),
        properties=("consumer-property", "command-property"),
    )
    groups = {group for group in (said.get("group"), properties.get("group.id")) if group}
    if len(groups) > 1:
        named = ", ".join(f"'{group}'" for group in sorted(groups))
        raise BadFlags(
            f"The group ids provided in different places do not match. Detected group ids: {named}"
        )
    if said.has("group"):
        properties["group.id"] = said.text("group")
    reset = properties.get("auto.offset.reset")
    if said.has("from-beginning") and reset not in (None, "earliest"):
        raise BadFlags(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
    defaults = {
        "client.id": "console-consumer",
        "auto.offset.reset": "earliest" if said.has("from-beginning") else "latest",
    }
    return {**defaults, **properties, "isolation.level": said.text("isolation-level").strip().lower()}


def _offset(said: Said) -> int | str:
    """Where in a partition to begin: a number, "earliest" or "latest"."""
    if said.has("from-beginning"):
        return "earliest"
    text = said.text("offset").strip().lower()
    if text in ("earliest", "latest"):
        return text
    if not text.isdecimal():
        raise BadFlags(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a "
            "non-negative long."
        )
    return int(text)


def _consume(said: Said) -> int:
    from penstock.cli.connection import read_properties
    from penstock.cli.ending import consuming
    from penstock.cli.records.formatters import make_formatter

    check(said)
    properties: dict[str, str] = {}
    for file in said.all("formatter-config"):
        properties |= read_properties(file)
    properties |= parse_pairs([*said.all("property"), *said.all("formatter-property")])
    format_message = make_formatter(
        said.text("formatter"),
        properties,
        key_deserializer=said.get("key-deserializer"),
        value_deserializer=said.get("value-deserializer"),
    )
    printer = Printer(format_message, skips_errors=said.has("skip-message-on-error"))
    try:
        with consuming(settings_of(said)) as consumer:
            begin(consumer, said)
            printer.print_all(
                consumer, messages_max=said.integer("max-messages"), patience_ms=said.integer("timeout-ms")
            )
    except KeyboardInterrupt as stop:
        return status_of(stop)
    finally:
        print(f"Processed a total of {printer.count} messages", file=sys.stderr)
        if said.has("enable-systest-events"):
            print("shutdown_complete")
    return 0


def begin(consumer: Consumer, said: Said) -> None:
    """Subscribe, or take the one partition that was asked for."""
    from penstock import TopicPartition

    if said.has("include"):
        consumer.subscribe(pattern=said.text("include"))
    elif not said.has("partition"):
        consumer.subscribe([said.text("topic")])
    else:
        partition = TopicPartition(said.text("topic"), said.number("partition"))
        consumer.assign([partition])
        match _offset(said):
            case "earliest":
                consumer.seek_to_beginning(partition)
            case "latest":
                consumer.seek_to_end(partition)
            case int(offset):
                consumer.seek(partition, offset)


class Printer:
    """Prints messages, and counts them."""

    def __init__(self, format_message: Formatter, *, skips_errors: bool) -> None:
        self._format = format_message
        self._skips_errors = skips_errors
        self.count = 0

    def print_all(self, consumer: Consumer, *, messages_max: int | None, patience_ms: int | None) -> None:
        """Until so many were printed, or none came for so long; a negative time is for ever, as in Kafka."""
        from penstock.cli.ending import give_back

        if patience_ms is not None and patience_ms < 0:
            patience_ms = None
        out = sys.stdout.buffer
        while messages_max is None or messages_max < 0 or self.count < messages_max:
            left = BATCH_MAX if messages_max is None or messages_max < 0 else messages_max - self.count
            messages = consumer.poll(
                timeout=POLL_S if patience_ms is None else patience_ms / 1000,
                max_records=min(left, BATCH_MAX),
            )
            if not messages and patience_ms is not None:
                return
            before = self.count
            try:
                for message in messages:
                    self.count += 1
                    self._print(message)
                out.flush()
            except KeyboardInterrupt:
                give_back(consumer, messages[self.count - before :])
                raise

    def _print(self, message: Message) -> None:
        try:
            sys.stdout.buffer.write(self._format(message))
        except Refusal as problem:
            if not self._skips_errors:
                raise
            print(f"Error processing message, skipping this message: {problem}", file=sys.stderr)
