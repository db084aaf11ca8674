"""Settings of a consumer."""

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
        "Brokers to connect to first, as host:port. The client finds the other brokers through them."
    ),
    string("client.id", "", importance=LOW).means(
        "The name of this client in the logs, metrics and quotas of brokers."
    ),
    string("client.rack", "", importance=LOW).means(
        "The rack or availability zone of this client. Brokers and assignors prefer replicas in the same "
        "rack."
    ),
    # Kafka's 64 KiB stall the broker after every 64 KiB; the system's buffer grows (bench "consume into Arrow").
    integer("receive.buffer.bytes", -1, at_least(-1)).means(
        "The receive buffer of a socket (SO_RCVBUF). -1 leaves it to the operating system."
    ),
    long("connections.max.idle.ms", 9 * MINUTE_MS).means(
        "The client closes a connection after this time without traffic. A negative value disables it."
    ),
    integer("default.api.timeout.ms", MINUTE_MS, at_least(0)).means(
        "The default timeout of a call, including retries."
    ),
    boolean("enable.metrics.push", True, importance=LOW).not_yet(
        "Push client metrics to brokers that subscribe to them."
    ),
)

GROUP = (
    string("group.id", importance=HIGH).means(
        "The consumer group, which shares the partitions among its members and stores committed offsets."
    ),
    string("group.instance.id", None, NOT_EMPTY).means(
        "The id of a static member: a restart of this consumer does not trigger a rebalance."
    ),
    string("group.protocol", "classic", one_of_any_case("CONSUMER", "CLASSIC"), HIGH).means(
        "Who assigns partitions: the group leader (`classic`), or the group coordinator (`consumer`, "
        "KIP-848)."
    ),
    string("group.remote.assignor").means("The server-side assignor. Only for `group.protocol=consumer`."),
    items(
        "partition.assignment.strategy",
        (
            "org.apache.kafka.clients.consumer.RangeAssignor",
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        ),
        DISTINCT,
    ).means(
        "The assignors of this member in order of preference: `range`, `roundrobin`, `sticky`, "
        "`cooperative-sticky`, their Java classes, or objects of your own. Only for "
        "`group.protocol=classic`."
    ),
    integer("session.timeout.ms", 45 * SECOND_MS, importance=HIGH).means(
        "The group removes this member after this time without a heartbeat. Only for "
        "`group.protocol=classic`."
    ),
    integer("heartbeat.interval.ms", 3 * SECOND_MS, importance=HIGH).means(
        "How often this member sends a heartbeat. Only for `group.protocol=classic`."
    ),
    integer("max.poll.interval.ms", 5 * MINUTE_MS, at_least(1)).means(
        "The maximum time between two polls. After that, the member leaves the group."
    ),
    boolean("enable.auto.commit", True).means(
        "Commit the offsets of consumed records periodically and on close."
    ),
    integer("auto.commit.interval.ms", 5 * SECOND_MS, at_least(0), LOW).means(
        "How often offsets are committed automatically."
    ),
    string("share.acknowledgement.mode", "implicit", one_of("implicit", "explicit")).not_yet(
        "How a member of a share group acknowledges records."
    ),
    string(
        "share.acquire.mode", "BATCH_OPTIMIZED", one_of_any_case("BATCH_OPTIMIZED", "RECORD_LIMIT")
    ).not_yet("Whether a member of a share group acquires whole batches or an exact number of records."),
)

FETCHING = (
    # Without a group there is no committed offset to resume from: `client.setting_checks` then uses earliest.
    string(
        "auto.offset.reset",
        "latest",
        Rule(_is_reset, "one of latest, earliest, none, or by_duration: with a duration such as PT1H"),
    ).means(
        "Where to start without a committed offset, or if it is out of range: `earliest`, `latest`, a "
        "duration before now (`by_duration:PT1H`), or `none` to raise an error."
    ),
    integer("fetch.min.bytes", 1, at_least(0), HIGH).means(
        "The broker collects at least this many bytes before it responds, up to `fetch.max.wait.ms`."
    ),
    integer("fetch.max.bytes", 50 * MIB, at_least(0)).means(
        "The maximum size of a fetch response. A single larger batch is still returned."
    ),
    integer("fetch.max.wait.ms", 500, at_least(0), LOW).means(
        "How long a broker waits for `fetch.min.bytes`."
    ),
    integer("max.partition.fetch.bytes", MIB, at_least(0), HIGH).means(
        "The maximum bytes per partition in a fetch response. A single larger batch is still returned."
    ),
    integer("max.poll.records", 500, at_least(1)).means(
        "The maximum number of records that one poll returns."
    ),
    string("isolation.level", "read_uncommitted", one_of("read_committed", "read_uncommitted")).means(
        "Which transactional records to read: only those of committed transactions (read_committed), or "
        "all (read_uncommitted)."
    ),
    boolean("check.crcs", True, importance=LOW).means("Verify the CRC of each batch."),
    boolean("allow.auto.create.topics", False).means(
        "Let the broker create a missing topic, if its `auto.create.topics.enable` allows it. Kafka's "
        "default is true, which turns a misspelled name into an empty topic."
    ),
    boolean("exclude.internal.topics", True).means("Exclude internal topics from a subscription by pattern."),
)

RECORDS = (
    class_name("key.deserializer", importance=HIGH).means(
        "The deserializer of keys: a name (`string`, `json`, `long` ...), a Java class of Kafka, a "
        "function or an object. By default, keys stay bytes."
    ),
    class_name("value.deserializer", importance=HIGH).means(
        "The deserializer of values: a name (`string`, `json`, `long` ...), a Java class of Kafka, a "
        "function or an object. By default, values stay bytes."
    ),
    items("interceptor.classes", (), DISTINCT, LOW).means(
        "Interceptors, as objects or import names of classes. They see records before the application, and "
        "each commit."
    ),
    boolean(
        "internal.throw.on.fetch.stable.offset.unsupported", False, importance=LOW, is_internal=True
    ).ignored("Reject brokers that cannot wait for transactional offset commits."),
)

SETTINGS = CONNECTION + GROUP + FETCHING + RECORDS + registry.SETTINGS + common.SETTINGS
