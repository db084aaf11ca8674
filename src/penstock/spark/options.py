"""Every option of the source and the sink, declared once: its name, meaning, default and check.

    options = Options.read(given, Use.STREAM_READ)
    options.get("failOnDataLoss")        # of the declared type
    options.settings                     # what follows `kafka.`: settings of the clients

Names are those of Spark's own Kafka connector where it has one, in small or large letters as there. What is unknown is
refused with the nearest name: a misspelt option that is ignored costs a night. Options of the other direction are let
pass, since one mapping often serves both. What options mean together stands where it is decided: `offsets`, `plan`.

Settings of clients are refused here too, in the words of the client: a task would find the same, and be tried again.
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
    take: Callable[[str], Any]
    """Makes the value of the text, or raises ValueError with words that follow 'is'."""
    default: Any
    meaning: str
    is_secret: bool = False


class Options:
    """What was said, read and checked. Never changes, and can be pickled."""

    def __init__(self, values: Mapping[str, Any], settings: Mapping[str, str]) -> None:
        """Not to be called from outside: `read` checks what it is given."""
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
                values[option.name] = _taken(option, value)
            elif name.lower() not in OF_SPARK:
                raise BadOption(_unknown(name))
        options = cls(values, settings)
        _check_settings(options, use)
        _check_write_id(options, use)
        return options

    def get(self, name: str) -> Any:
        """The value, of the declared type; the default where nothing was said."""
        option = BY_NAME[name.lower()]
        return self._values.get(option.name, option.default)

    def is_set(self, name: str) -> bool:
        return BY_NAME[name.lower()].name in self._values

    @property
    def is_committed_only(self) -> bool:
        """Whether records of open and aborted transactions are left out."""
        return self.settings.get("isolation.level", "").strip() == "read_committed"

    def is_exactly_once(self, *, is_stream: bool) -> bool:
        """Streams are written exactly once by default. Batches are if they have a `writeId`."""
        usual = EXACTLY_ONCE if is_stream or self.is_set("writeId") else AT_LEAST_ONCE
        return (self.get("guarantee") or usual) == EXACTLY_ONCE

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
POLL_TIMEOUT_MS = 120_000  # as `spark.network.timeout`, which the connector takes
RETRIES = 3
RETRY_INTERVAL_MS = 1000
TRIGGER_DELAY_MS = 15 * 60_000

OPTIONS: tuple[Option, ...] = (
    # What is read
    Option("subscribe", Use.READ, names, None, "Topics, with commas between them."),
    Option("subscribePattern", Use.READ, pattern, None, "A regular expression that is found in names of topics."),
    Option("assign", Use.READ, partitions, None, 'Partitions: `{"orders": [0, 1]}`.'),
    Option(
        "startingOffsets", Use.READ, place, None,
        "Where a new query begins: earliest (default of batches), latest (of streams), or offsets of all partitions,"
        " -2 for earliest, -1 for latest.",
    ),
    Option("endingOffsets", Use.BATCH_READ, place, "latest", "Where a batch ends, exclusive; as startingOffsets."),
    Option("startingTimestamp", Use.READ, integer(0), None, "Begin with the first record of this time (ms) or later."),
    Option("endingTimestamp", Use.BATCH_READ, integer(0), None, "End before the first record of this time or later."),
    Option(
        "startingOffsetsByTimestamp", Use.READ, numbers(TIMES, 0), None, "The same, of each partition its own time."
    ),
    Option(
        "endingOffsetsByTimestamp", Use.BATCH_READ, numbers(TIMES, 0), None, "The same, of each partition its own time."
    ),
    Option(
        "startingOffsetsByTimestampStrategy", Use.READ, choice("error", "latest"), "error",
        "What to do where no record is as young as the starting time: fail, or begin at the end.",
    ),
    # How much at a time
    Option("maxOffsetsPerTrigger", Use.STREAM_READ, integer(), None, "Most offsets of a micro-batch, shared out."),
    Option("minOffsetsPerTrigger", Use.STREAM_READ, integer(0), None, "Wait until there are as many."),
    Option("maxTriggerDelay", Use.STREAM_READ, duration_ms, TRIGGER_DELAY_MS, "But not longer than this."),
    Option(
        "maxBytesPerTrigger", Use.STREAM_READ, size_bytes, None,
        "Most bytes of a micro-batch (64m), reckoned by the mean size of a partition's records on disk.",
    ),
    Option(
        "inOrder", Use.READ, boolean, None,
        "Whether one task reads all that a batch has of a partition, so that rows keep its order: as a rule in streams,"
        " and not in batches, where large partitions are cut so that all cores work.",
    ),
    Option("minPartitions", Use.READ, integer(), None, "Cut ranges until there are as many tasks."),
    Option("maxRecordsPerPartition", Use.READ, integer(), None, "Most offsets of one task."),
    # How it is read
    Option("failOnDataLoss", Use.READ, boolean, True, "Stop when records went away before they were read; else warn."),
    Option("includeHeaders", Use.ANY, boolean, False, "Add the column headers."),
    Option("columns", Use.READ, names, None, "Read only these columns: `key,value`."),
    Option(
        "filterPushdown", Use.BATCH_READ, boolean, False,
        "Narrow the read by the query's filters; only for a DataFrame that is used once.",
    ),
    Option("rowsPerBatch", Use.READ, integer(), None, "Rows of one Arrow batch."),
    Option("groupId", Use.STREAM_READ, text, None, "Commit what was processed to this consumer group, for lag tools."),
    Option("groupIdPrefix", Use.READ, text, None, "Taken for the connector's sake: tasks read without a group."),
    Option(
        "kafkaConsumer.pollTimeoutMs", Use.READ, integer(), POLL_TIMEOUT_MS, "How long a task waits for records."
    ),
    Option("fetchOffset.numRetries", Use.READ, integer(0), RETRIES, "How often a failed look for offsets is repeated."),
    Option("fetchOffset.retryIntervalMs", Use.READ, integer(0), RETRY_INTERVAL_MS, "How long to wait before that."),
    Option(
        "partition.metadata.cache.ttl.ms", Use.READ, integer(-1), -1,
        "How long the list of partitions serves before it is asked for again; -1: for one batch.",
    ),
    Option("penstock.transform", Use.ANY, raw, None, "Internal: a pickled function that runs in the tasks."),
    # What keys and values are
    Option("valueFormat", Use.READ, choice(*FORMATS), "bytes", "How values are decoded."),
    Option("keyFormat", Use.READ, choice(*FORMATS), "bytes", "How keys are decoded."),
    Option("valueSchema", Use.READ, text, None, "The schema of values, in the words of their format."),
    Option("keySchema", Use.READ, text, None, "The schema of keys."),
    Option("valueMessage", Use.READ, text, None, "The full name of the Protobuf message that values are."),
    Option("keyMessage", Use.READ, text, None, "The same for keys."),
    Option("valueSubject", Use.READ, text, None, "The subject of values in the registry; <topic>-value."),
    Option("keySubject", Use.READ, text, None, "The subject of keys in the registry; <topic>-key."),
    Option("schemaRegistryUrl", Use.READ, text, None, "Where schemas are looked up, by the id at a record's head."),
    Option("schemaRegistryLogin", Use.READ, text, None, "user:password for the registry.", is_secret=True),
    Option("poison", Use.READ, choice(*POISON), "fail", "What becomes of what cannot be decoded."),
    Option("deadLetterTopic", Use.READ, text, None, "Where it goes, with the reason in its headers."),
    # What is written
    Option("topic", Use.WRITE, text, None, "Where rows go that have no column topic."),
    Option(
        "guarantee", Use.WRITE, choice(EXACTLY_ONCE, AT_LEAST_ONCE), None,
        "exactly-once (default of streams) or at-least-once (of batches).",
    ),
    Option(
        "writeId", Use.BATCH_WRITE, text, None,
        "Identifies an exactly-once batch write: a rerun with the same id finishes it and writes nothing again.",
    ),
    Option("penstock.batch", Use.BATCH_WRITE, raw, None, "Internal: the batch of a stream that a job writes."),
    Option("transactionalIdPrefix", Use.WRITE, text, None, "What transactional ids begin with; penstock."),
)  # fmt: skip

BY_NAME: dict[str, Option] = {option.name.lower(): option for option in OPTIONS}

# What Spark itself puts beside a user's options.
OF_SPARK = frozenset({"path", "checkpointlocation", "queryname", "outputmode", "paths"})

_WE_DECIDE = "the query decides that, and its checkpoint remembers it"
_OF_BOTH = {"interceptor.classes": "an interceptor could change records under the query's feet"}
REFUSED_READING = _OF_BOTH | {
    "auto.offset.reset": f"say startingOffsets: {_WE_DECIDE}",
    "enable.auto.commit": "say groupId to have offsets committed after each micro-batch",
    "key.deserializer": "keys come as bytes; say keyFormat",
    "value.deserializer": "values come as bytes; say valueFormat",
}
REFUSED_WRITING = _OF_BOTH | {
    "key.serializer": "keys are written as the bytes or the text that they are",
    "value.serializer": "values are written as the bytes or the text that they are",
    "transactional.id": "every task has a transaction of its own; say transactionalIdPrefix",
    "transaction.two.phase.commit.enable": "transactions are prepared wherever the broker grants it",
}


def _check_settings(options: Options, use: Use) -> None:
    settings = options.settings
    refused = REFUSED_READING if use & Use.READ else REFUSED_WRITING
    for name, reason in refused.items():
        if name in settings:
            raise BadOption(f"option {KAFKA}{name} cannot be set here: {reason}")
    if not settings.get("bootstrap.servers", "").strip():
        raise BadOption(f"option {KAFKA}bootstrap.servers is missing: say where brokers are, as host:port")
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
    """What a program passes in place of a dict, such as the name of a topic."""
    if not isinstance(given, Mapping):
        raise BadOption(f"{what} is a dict of names and values, not {given!r}")


def _check_write_id(options: Options, use: Use) -> None:
    if not options.is_set("writeId"):
        return
    if use is Use.STREAM_WRITE:
        raise BadOption("option writeId identifies a batch write; a stream is identified by its checkpoint")
    if use is Use.BATCH_WRITE and options.get("guarantee") == AT_LEAST_ONCE:
        raise BadOption(f"option writeId needs guarantee={EXACTLY_ONCE}, but guarantee is {AT_LEAST_ONCE}")


def _taken(option: Option, given: str) -> Any:
    try:
        return option.take(given)
    except ValueError as error:
        shown = "what was given" if option.is_secret else repr(given)
        raise BadOption(f"option {option.name}: {shown} is {error}") from None


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), [*BY_NAME, *OF_SPARK], n=1, cutoff=0.6)
    if near:
        nearest = BY_NAME[near[0]].name if near[0] in BY_NAME else near[0]
        return f"there is no option {name}; is {nearest} meant?"
    return f"there is no option {name}; settings of clients begin with {KAFKA}"
