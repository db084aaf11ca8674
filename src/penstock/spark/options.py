"""Every option of the source and the sink, declared once: its name, meaning, default and parser.

    options = Options.read(given, Use.STREAM_READ)
    options.get("failOnDataLoss")        # of the declared type
    options.settings                     # client settings, given with the prefix `kafka.`

Names are those of Spark's Kafka connector where it has one, and case-insensitive as there. Unknown options are
rejected; the error suggests the closest name. Options of the other direction are accepted, because one mapping often
serves both. Combinations of options are checked where they are used: `offsets`, `plan`.

Client settings are validated here too, with the client's messages: otherwise every task would fail, and be retried.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, Self

from penstock.client.errors import BadConfiguration
from penstock.spark import clients
from penstock.spark.errors import BadOption
from penstock.spark.option_values import (
    boolean,
    choice,
    duration_ms,
    integer,
    names,
    numbers,
    partitions,
    pattern,
    place,
    raw,
    size_bytes,
    text,
)
from penstock.spark.sink import AT_LEAST_ONCE, EXACTLY_ONCE

KAFKA = "kafka."


class Use(Flag):
    """What an option is for."""

    BATCH_READ = auto()
    STREAM_READ = auto()
    BATCH_WRITE = auto()
    STREAM_WRITE = auto()
    READ = BATCH_READ | STREAM_READ
    WRITE = BATCH_WRITE | STREAM_WRITE
    ANY = READ | WRITE


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    use: Use
    parse: Callable[[str], Any]
    """Converts the text, or raises ValueError with a message that follows 'is'."""
    default: Any
    meaning: str
    is_secret: bool = False


class Options:
    """The given options, parsed and validated. Immutable, and can be pickled."""

    def __init__(self, values: Mapping[str, Any], settings: Mapping[str, str]) -> None:
        """Called by `read`, which validates."""
        self._values = dict(values)
        self.settings: dict[str, str] = dict(settings)
        """Of the clients, without `kafka.`."""

    @classmethod
    def read(cls, given: Mapping[str, str], use: Use) -> Self:
        check_mapping(given, "options")
        values: dict[str, Any] = {}
        settings: dict[str, str] = {}
        for name, value in given.items():
            if name.lower().startswith(KAFKA):
                settings[name[len(KAFKA) :].lower()] = value
            elif (option := BY_NAME.get(name.lower())) is not None:
                values[option.name] = _parsed(option, value)
            elif name.lower() not in SPARK_OPTIONS:
                raise BadOption(_unknown(name))
        options = cls(values, settings)
        _check_settings(options, use)
        _check_write_id(options, use)
        return options

    def get(self, name: str) -> Any:
        """The value, of the declared type; the default if it was not given."""
        option = BY_NAME[name.lower()]
        return self._values.get(option.name, option.default)

    def is_set(self, name: str) -> bool:
        return BY_NAME[name.lower()].name in self._values

    @property
    def is_committed_only(self) -> bool:
        """Whether records of open and aborted transactions are left out."""
        return self.settings.get("isolation.level", "").strip() == "read_committed"

    def is_exactly_once(self, *, is_stream: bool) -> bool:
        """By default, streams are written exactly once; batches are if they have a `writeId`."""
        default = EXACTLY_ONCE if is_stream or self.is_set("writeId") else AT_LEAST_ONCE
        return (self.get("guarantee") or default) == EXACTLY_ONCE

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Options):
            return NotImplemented
        return self._values == other._values and self.settings == other.settings

    __hash__ = None  # type: ignore[assignment]  # values may be lists

    def __repr__(self) -> str:
        shown = [
            f"{name}={value}" for name, value in self._values.items() if not BY_NAME[name.lower()].is_secret
        ]
        return f"Options({', '.join(shown)})"


FORMATS = "bytes", "string", "json", "avro", "protobuf", "arrow"
POISON = "fail", "null", "drop", "deadLetter"
TIMES = '{"orders": {"0": 1700000000000}}'
POLL_TIMEOUT_MS = 120_000  # the connector's default is `spark.network.timeout`
RETRIES = 3
RETRY_INTERVAL_MS = 1000
TRIGGER_DELAY_MS = 15 * 60_000

OPTIONS: tuple[Option, ...] = (
    # What to read
    Option("subscribe", Use.READ, names, None, "Topics, separated by commas."),
    Option("subscribePattern", Use.READ, pattern, None, "A regular expression; it may match any part of a topic name."),
    Option("assign", Use.READ, partitions, None, 'Partitions: `{"orders": [0, 1]}`.'),
    Option(
        "startingOffsets", Use.READ, place, None,
        "Where a new query starts: earliest (default of batches), latest (default of streams), or offsets of all"
        " partitions, with -2 for earliest and -1 for latest.",
    ),
    Option("endingOffsets", Use.BATCH_READ, place, "latest", "Where a batch ends, exclusive; like startingOffsets."),
    Option("startingTimestamp", Use.READ, integer(0), None, "Start at the first record of this time (ms) or later."),
    Option("endingTimestamp", Use.BATCH_READ, integer(0), None, "End before the first record of this time or later."),
    Option(
        "startingOffsetsByTimestamp", Use.READ, numbers(TIMES, 0), None, "The same, with a timestamp per partition."
    ),
    Option(
        "endingOffsetsByTimestamp", Use.BATCH_READ, numbers(TIMES, 0), None,
        "The same, with a timestamp per partition.",
    ),
    Option(
        "startingOffsetsByTimestampStrategy", Use.READ, choice("error", "latest"), "error",
        "If no record is as recent as the starting timestamp: fail (error), or start at the end (latest).",
    ),
    # Size of a micro-batch and of its tasks
    Option("maxOffsetsPerTrigger", Use.STREAM_READ, integer(), None, "The most offsets in a micro-batch, in total."),
    Option("minOffsetsPerTrigger", Use.STREAM_READ, integer(0), None, "Wait until this many offsets are available."),
    Option("maxTriggerDelay", Use.STREAM_READ, duration_ms, TRIGGER_DELAY_MS, "The longest such wait."),
    Option(
        "maxBytesPerTrigger", Use.STREAM_READ, size_bytes, None,
        "The most bytes in a micro-batch (64m), estimated by the average size of a partition's records on disk.",
    ),
    Option(
        "inOrder", Use.READ, boolean, None,
        "Whether one task reads all of a partition, so that rows keep their order. Default: true for streams; false for"
        " batches, where large partitions are split so that all cores work.",
    ),
    Option("minPartitions", Use.READ, integer(), None, "Split ranges until there are at least this many tasks."),
    Option("maxRecordsPerPartition", Use.READ, integer(), None, "The most offsets in one task."),
    # How to read
    Option("failOnDataLoss", Use.READ, boolean, True, "Fail if unread records were deleted; otherwise warn."),
    Option("includeHeaders", Use.ANY, boolean, False, "Add the column headers."),
    Option("columns", Use.READ, names, None, "Read only these columns: `key,value`."),
    Option(
        "filterPushdown", Use.BATCH_READ, boolean, False,
        "Read less by applying the query's filters; only for a DataFrame that is used once.",
    ),
    Option("rowsPerBatch", Use.READ, integer(), None, "Rows in an Arrow batch."),
    Option("groupId", Use.STREAM_READ, text, None, "Commit processed offsets to this consumer group, for lag tools."),
    Option("groupIdPrefix", Use.READ, text, None, "Accepted but ignored: tasks read without a group."),
    Option(
        "kafkaConsumer.pollTimeoutMs", Use.READ, integer(), POLL_TIMEOUT_MS, "How long a task waits for records."
    ),
    Option("fetchOffset.numRetries", Use.READ, integer(0), RETRIES, "How often a failed offset request is retried."),
    Option("fetchOffset.retryIntervalMs", Use.READ, integer(0), RETRY_INTERVAL_MS, "How long to wait before a retry."),
    Option(
        "partition.metadata.cache.ttl.ms", Use.READ, integer(-1), -1,
        "How long the list of partitions is cached; -1: for one batch.",
    ),
    Option("penstock.transform", Use.ANY, raw, None, "Internal: a pickled function that runs in the tasks."),
    # Formats of keys and values
    Option("valueFormat", Use.READ, choice(*FORMATS), "bytes", "The format of values."),
    Option("keyFormat", Use.READ, choice(*FORMATS), "bytes", "The format of keys."),
    Option("valueSchema", Use.READ, text, None, "The schema of values, in the notation of their format."),
    Option("keySchema", Use.READ, text, None, "The schema of keys."),
    Option("valueMessage", Use.READ, text, None, "The full name of the Protobuf message in values."),
    Option("keyMessage", Use.READ, text, None, "The same for keys."),
    Option("valueSubject", Use.READ, text, None, "The registry subject of values; <topic>-value by default."),
    Option("keySubject", Use.READ, text, None, "The registry subject of keys; <topic>-key by default."),
    Option("schemaRegistryUrl", Use.READ, text, None, "The registry with the schemas that records name by id."),
    Option("schemaRegistryLogin", Use.READ, text, None, "user:password for the registry.", is_secret=True),
    Option("poison", Use.READ, choice(*POISON), "fail", "What to do with a record that cannot be decoded."),
    Option("deadLetterTopic", Use.READ, text, None, "The topic for such records, with the reason in headers."),
    # How to write
    Option("topic", Use.WRITE, text, None, "The topic for all rows. It overrides the column topic."),
    Option(
        "guarantee", Use.WRITE, choice(EXACTLY_ONCE, AT_LEAST_ONCE), None,
        "exactly-once (default of streams) or at-least-once (default of batches).",
    ),
    Option(
        "writeId", Use.BATCH_WRITE, text, None,
        "Identifies an exactly-once batch write: a rerun with the same id finishes it and writes nothing again.",
    ),
    Option("penstock.batch", Use.BATCH_WRITE, raw, None, "Internal: the stream batch that a job writes."),
    Option("transactionalIdPrefix", Use.WRITE, text, None, "The prefix of transactional ids; penstock by default."),
)  # fmt: skip

BY_NAME: dict[str, Option] = {option.name.lower(): option for option in OPTIONS}

# Options that Spark adds itself.
SPARK_OPTIONS = frozenset({"path", "checkpointlocation", "queryname", "outputmode", "paths"})

_QUERY_DECIDES = "the query decides, and its checkpoint remembers"
_OF_BOTH = {"interceptor.classes": "an interceptor could change the records of a query"}
REFUSED_READING = _OF_BOTH | {
    "auto.offset.reset": f"set startingOffsets instead; {_QUERY_DECIDES}",
    "enable.auto.commit": "set groupId to commit offsets after each micro-batch",
    "key.deserializer": "set keyFormat instead; keys are read as bytes",
    "value.deserializer": "set valueFormat instead; values are read as bytes",
}
REFUSED_WRITING = _OF_BOTH | {
    "key.serializer": "keys are written as their bytes or text",
    "value.serializer": "values are written as their bytes or text",
    "transactional.id": "every task has its own transaction; set transactionalIdPrefix instead",
    "transaction.two.phase.commit.enable": "it is used whenever the broker allows it",
}


def _check_settings(options: Options, use: Use) -> None:
    settings = options.settings
    refused = REFUSED_READING if use & Use.READ else REFUSED_WRITING
    for name, reason in refused.items():
        if name in settings:
            raise BadOption(f"option {KAFKA}{name} cannot be set here: {reason}")
    if not settings.get("bootstrap.servers", "").strip():
        raise BadOption(f"option {KAFKA}bootstrap.servers is missing: set it to host:port of a broker")
    try:
        if use & Use.READ:
            clients.check_consumer(settings)
        if use & Use.WRITE:
            is_once = options.is_exactly_once(is_stream=Use.STREAM_WRITE in use)
            clients.check_producer(settings, is_transactional=is_once)
        elif options.is_set("deadLetterTopic"):
            clients.check_producer(settings)
        clients.check_admin(settings)
    except BadConfiguration as error:
        raise BadOption(f"option {KAFKA}{error}") from error


def check_mapping(given: object, what: str) -> None:
    """Reject a program that passes something else than a dict, such as the name of a topic."""
    if not isinstance(given, Mapping):
        raise BadOption(f"{what} must be a dict of names and values, not {given!r}")


def _check_write_id(options: Options, use: Use) -> None:
    if not options.is_set("writeId"):
        return
    if use is Use.STREAM_WRITE:
        raise BadOption("option writeId identifies a batch write; a stream is identified by its checkpoint")
    if use is Use.BATCH_WRITE and options.get("guarantee") == AT_LEAST_ONCE:
        raise BadOption(f"option writeId needs guarantee={EXACTLY_ONCE}, but guarantee is {AT_LEAST_ONCE}")


def _parsed(option: Option, given: str) -> Any:
    try:
        return option.parse(given)
    except ValueError as error:
        shown = "the given value" if option.is_secret else repr(given)
        raise BadOption(f"option {option.name}: {shown} is {error}") from None


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), [*BY_NAME, *SPARK_OPTIONS], n=1, cutoff=0.6)
    if near:
        nearest = BY_NAME[near[0]].name if near[0] in BY_NAME else near[0]
        return f"unknown option {name}; did you mean {nearest}?"
    return f"unknown option {name}; client settings start with {KAFKA}"
