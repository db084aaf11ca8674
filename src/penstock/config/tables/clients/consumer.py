"""What can be said of a consumer."""

from __future__ import annotations

from penstock.config.declare import (
    DISTINCT,
    DISTINCT_SOME,
    HIGH,
    LOW,
    MIB,
    MINUTE_MS,
    NOT_EMPTY,
    SECOND_MS,
    Rule,
    at_least,
    boolean,
    class_name,
    integer,
    items,
    long,
    one_of,
    one_of_any_case,
    string,
)
from penstock.config.durations import is_by_duration
from penstock.config.tables.clients import common, registry


def _is_reset(text: str) -> bool:
    return text in ("latest", "earliest", "none") or is_by_duration(text)


CONNECTION = (
    items("bootstrap.servers", common.HERE, DISTINCT_SOME, HIGH).means(
        "Some brokers of the cluster, as host:port, through which the others are found."
    ),
    string("client.id", "", importance=LOW).means(
        "A name for this client, by which brokers log, measure and limit it."
    ),
    string("client.rack", "", importance=LOW).means(
        "Where this client stands: replicas and assignors prefer what stands near."
    ),
    # Kafka's 64 KiB make a broker stop every 64 KiB; the system's own grows as it is used (bench "consume into Arrow").
    integer("receive.buffer.bytes", -1, at_least(-1)).means(
        "The size of a socket's receive buffer; -1 for the operating system's."
    ),
    long("connections.max.idle.ms", 9 * MINUTE_MS).means(
        "After how long without traffic a connection is closed; negative for never."
    ),
    integer("default.api.timeout.ms", MINUTE_MS, at_least(0)).means(
        "How long a call may take, with all retries, where it is not told otherwise."
    ),
    boolean("enable.metrics.push", True, importance=LOW).not_yet(
        "Send measurements to brokers that ask for them."
    ),
)

GROUP = (
    string("group.id", importance=HIGH).means(
        "The group that shares the work and remembers what was read; without one, neither."
    ),
    string("group.instance.id", None, NOT_EMPTY).means(
        "A lasting name for this member, so that its restart moves no partitions."
    ),
    string("group.protocol", "classic", one_of_any_case("CONSUMER", "CLASSIC"), HIGH).means(
        "Who assigns partitions: one of the members (`classic`), or the coordinator (`consumer`, KIP-848)."
    ),
    string("group.remote.assignor").means(
        "Which assignor the coordinator is to use; only with the protocol `consumer`."
    ),
    items(
        "partition.assignment.strategy",
        (
            "org.apache.kafka.clients.consumer.RangeAssignor",
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        ),
        DISTINCT,
    ).means(
        "Assignors that this member offers, the best first: `range`, `roundrobin`, `sticky`, `cooperative-sticky`, "
        "their Java classes, or objects of your own; only with the protocol `classic`."
    ),
    integer("session.timeout.ms", 45 * SECOND_MS, importance=HIGH).means(
        "After how long without a heartbeat the group gives this member up; only with the protocol `classic`."
    ),
    integer("heartbeat.interval.ms", 3 * SECOND_MS, importance=HIGH).means(
        "How often this member shows that it is alive; only with the protocol `classic`."
    ),
    integer("max.poll.interval.ms", 5 * MINUTE_MS, at_least(1)).means(
        "How long the application may take between two polls before the member leaves the group."
    ),
    boolean("enable.auto.commit", True).means(
        "Commit what the application was given, from time to time and at the end."
    ),
    integer("auto.commit.interval.ms", 5 * SECOND_MS, at_least(0), LOW).means("How often that is done."),
    string("share.acknowledgement.mode", "implicit", one_of("implicit", "explicit")).not_yet(
        "How a member of a share group acknowledges records."
    ),
    string(
        "share.acquire.mode", "BATCH_OPTIMIZED", one_of_any_case("BATCH_OPTIMIZED", "RECORD_LIMIT")
    ).not_yet("Whether a member of a share group is given whole batches or an exact number of records."),
)

FETCHING = (
    # A consumer without a group has no place to go on from and wants the topic: `client.setting_checks` makes it
    # earliest there.
    string(
        "auto.offset.reset",
        "latest",
        Rule(_is_reset, "one of latest, earliest, none, or by_duration: with a duration such as PT1H"),
    ).means(
        "Where to begin where nothing is committed, or the committed offset is gone: `earliest`, `latest`, at a time "
        "before now (`by_duration:PT1H`), or not at all (`none`)."
    ),
    integer("fetch.min.bytes", 1, at_least(0), HIGH).means(
        "How many bytes a broker collects before it answers, up to `fetch.max.wait.ms`."
    ),
    integer("fetch.max.bytes", 50 * MIB, at_least(0)).means(
        "How many bytes one answer may hold; a single larger batch still comes."
    ),
    integer("fetch.max.wait.ms", 500, at_least(0), LOW).means(
        "How long a broker waits for `fetch.min.bytes`."
    ),
    integer("max.partition.fetch.bytes", MIB, at_least(0), HIGH).means(
        "How many bytes of one partition an answer may hold; a single larger batch still comes."
    ),
    integer("max.poll.records", 500, at_least(1)).means("How many messages one poll gives at most."),
    string("isolation.level", "read_uncommitted", one_of("read_committed", "read_uncommitted")).means(
        "Whether to see only what committed transactions wrote, or everything."
    ),
    boolean("check.crcs", True, importance=LOW).means("Check the checksum of each batch."),
    boolean("allow.auto.create.topics", False).means(
        "Let the broker create a topic that is read and does not exist, if its auto.create.topics.enable allows it. "
        "Kafka's default is true, so that a misspelled name makes an empty topic."
    ),
    boolean("exclude.internal.topics", True).means(
        "Keep internal topics out of what a pattern subscribes to."
    ),
)

RECORDS = (
    class_name("key.deserializer", importance=HIGH).means(
        "What makes a key of bytes: a name (`string`, `json`, `long` ...), a Java class of Kafka, a function or an "
        "object. Where nothing is said, bytes come as they are."
    ),
    class_name("value.deserializer", importance=HIGH).means(
        "What makes a value of bytes: a name (`string`, `json`, `long` ...), a Java class of Kafka, a function or an "
        "object. Where nothing is said, bytes come as they are."
    ),
    items("interceptor.classes", (), DISTINCT, LOW).means(
        "Objects, or classes by their import names, that see messages before the application and each commit."
    ),
    boolean(
        "internal.throw.on.fetch.stable.offset.unsupported", False, importance=LOW, is_internal=True
    ).no_meaning("Refuse brokers that cannot wait for transactional offset commits."),
)

SETTINGS = CONNECTION + GROUP + FETCHING + RECORDS + registry.SETTINGS + common.SETTINGS
