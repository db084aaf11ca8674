"""`kafka-console-consumer.sh`: print records of topics.

Without `--group` the consumer uses no group, and leaves nothing behind in the cluster.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from penstock.cli.failures import Refusal, status_of
from penstock.cli.flags import OneOf, UsageError
from penstock.cli.kafka.tool import (
    BOOTSTRAP_SERVER,
    Options,
    Tool,
    client_settings,
    flag,
    read_settings,
)

if TYPE_CHECKING:
    from penstock import Consumer, Message
    from penstock.cli.records.formatters import Formatter

FORMATTER = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
BATCH_MAX = 500  # messages per poll
POLL_S = 1.0

TOOL = Tool(
    "This tool helps to read data from Kafka topics and outputs it to standard output.",
    BOOTSTRAP_SERVER,
    flag("topic", "The topic to consume from.", "String: topic"),
    flag("include", "Regular expression of topics to consume from.", "String: regex", ("--whitelist",)),
    flag(
        "partition",
        "The partition to consume from.",
        "Integer: partition",
        needs={"topic": "The topic is required when partition is specified."},
    ),
    flag(
        "offset",
        "Where to start in the partition: an offset, earliest or latest.",
        "String: offset",
        default="latest",
        needs={"partition": "The partition is required when offset is specified."},
        forbids={"from-beginning": "Options from-beginning and offset cannot be specified together."},
    ),
    flag(
        "group",
        "The consumer group id of the consumer.",
        "String: group id",
        forbids={"partition": "Options group and partition cannot be specified together."},
    ),
    flag("from-beginning", "Start with the earliest record if there is no committed offset."),
    flag("max-messages", "Stop after this many messages.", "Integer: num_messages"),
    flag("timeout-ms", "Stop if no message comes for this long.", "Long: timeout_ms"),
    flag("formatter", "The class that formats messages.", "String: class", default=FORMATTER),
    flag(
        "formatter-property",
        "A property of the formatter, as key=value, such as print.key=true.",
        "String: prop",
        older=("--property",),
    ),
    flag("formatter-config", "Property file of the formatter.", "String: config file"),
    flag(
        "command-property",
        "A consumer setting, as key=value.",
        "String: consumer_prop",
        older=("--consumer-property",),
    ),
    flag(
        "command-config",
        "Property file with consumer settings.",
        "String: config file",
        older=("--consumer.config",),
    ),
    flag("key-deserializer", "Deserializer of keys.", "String: class"),
    flag("value-deserializer", "Deserializer of values.", "String: class"),
    flag("isolation-level", "read_committed or read_uncommitted.", "String", default="read_uncommitted"),
    flag("skip-message-on-error", "Skip messages that cannot be printed."),
    flag("enable-systest-events", "Print an event when the consumer has shut down."),
    flag("new-consumer", "Without effect; for old scripts.", is_hidden=True),
    one_of=[OneOf(("topic", "include"), "Exactly one of --include/--topic is required. ")],
)


def settings_of(options: Options) -> dict[str, str]:
    """The consumer's settings."""
    properties = client_settings(options)
    groups = {group for group in (options.get("group"), properties.get("group.id")) if group}
    if len(groups) > 1:
        named = ", ".join(f"'{group}'" for group in sorted(groups))
        raise UsageError(
            f"The group ids provided in different places do not match. Detected group ids: {named}"
        )
    if options.has("group"):
        properties["group.id"] = options.text("group")
    reset = properties.get("auto.offset.reset")
    if options.has("from-beginning") and reset not in (None, "earliest"):
        raise UsageError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
    defaults = {
        "client.id": "console-consumer",
        "auto.offset.reset": "earliest" if options.has("from-beginning") else "latest",
    }
    return {**defaults, **properties, "isolation.level": options.text("isolation-level").strip().lower()}


def _offset(options: Options) -> int | str:
    """Where to start in the partition: an offset, "earliest" or "latest"."""
    if options.has("from-beginning"):
        return "earliest"
    text = options.text("offset").strip().lower()
    if text in ("earliest", "latest"):
        return text
    if not text.isdecimal():
        raise UsageError(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a "
            "non-negative long."
        )
    return int(text)


def run(options: Options) -> int:
    from penstock.cli.clients import open_consumer
    from penstock.cli.records.formatters import make_formatter

    _offset(options)  # before anything connects
    format_message = make_formatter(
        options.text("formatter"),
        read_settings(options, file="formatter-config", pairs="formatter-property"),
        key_deserializer=options.get("key-deserializer"),
        value_deserializer=options.get("value-deserializer"),
    )
    printer = Printer(format_message, skips_errors=options.has("skip-message-on-error"))
    try:
        with open_consumer(settings_of(options)) as consumer:
            subscribe(consumer, options)
            printer.print_all(
                consumer,
                messages_max=options.integer("max-messages"),
                patience_ms=options.integer("timeout-ms"),
            )
    except KeyboardInterrupt as stop:
        return status_of(stop)
    finally:
        print(f"Processed a total of {printer.count} messages", file=sys.stderr)
        if options.has("enable-systest-events"):
            print("shutdown_complete")
    return 0


def subscribe(consumer: Consumer, options: Options) -> None:
    """Subscribe, or assign the given partition."""
    from penstock import TopicPartition

    if options.has("include"):
        consumer.subscribe(pattern=options.text("include"))
    elif not options.has("partition"):
        consumer.subscribe([options.text("topic")])
    else:
        partition = TopicPartition(options.text("topic"), options.number("partition"))
        consumer.assign([partition])
        match _offset(options):
            case "earliest":
                consumer.seek_to_beginning(partition)
            case "latest":
                consumer.seek_to_end(partition)
            case int(offset):
                consumer.seek(partition, offset)


class Printer:
    """Prints and counts messages."""

    def __init__(self, format_message: Formatter, *, skips_errors: bool) -> None:
        self._format = format_message
        self._skips_errors = skips_errors
        self.count = 0

    def print_all(self, consumer: Consumer, *, messages_max: int | None, patience_ms: int | None) -> None:
        """Print up to `messages_max` messages, or until none has come for `patience_ms`. A negative time is unlimited,
        as in Kafka."""
        from penstock.cli.clients import seek_back

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
                seek_back(consumer, messages[self.count - before :])
                raise

    def _print(self, message: Message) -> None:
        try:
            sys.stdout.buffer.write(self._format(message))
        except Refusal as problem:
            if not self._skips_errors:
                raise
            print(f"Error processing message, skipping this message: {problem}", file=sys.stderr)
