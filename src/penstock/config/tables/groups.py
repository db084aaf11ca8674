"""Classic, consumer and streams groups, and committed offsets."""

from __future__ import annotations

from penstock.config.declare import (
    CLUSTER_WIDE,
    HIGH,
    KIB,
    MIB,
    MINUTE_MS,
    SECOND_MS,
    at_least,
    between,
    integer,
    items,
    long,
    one_of_any_case,
    short,
    some_of,
    string,
)
from penstock.config.values import INT_MAX

ASSIGNORS = (
    "uniform",
    "range",
    # The names of the same assignors in a Kafka configuration. Other Java classes cannot be loaded.
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
)

COORDINATOR = (
    items(
        "group.coordinator.rebalance.protocols",
        ("classic", "consumer", "streams"),
        some_of("consumer", "classic", "share", "streams"),
    ).means("The enabled group protocols. classic is always enabled."),
    integer("group.coordinator.threads", 4, at_least(1), HIGH).ignored(
        "Threads of Kafka's group coordinator. Here it runs on the event loop."
    ),
    integer("group.coordinator.background.threads", 2, at_least(1), HIGH).ignored(
        "Background threads of Kafka's group coordinator."
    ),
    integer("group.coordinator.append.linger.ms", -1, at_least(-1)).ignored(
        "How long Kafka's group coordinator collects records before it writes them. Here a write does not "
        "wait."
    ),
    integer(
        "group.coordinator.cached.buffer.max.bytes", MIB + 12, at_least(512 * KIB), dynamic=CLUSTER_WIDE
    ).ignored("The largest write buffer that Kafka's group coordinator keeps for reuse."),
)

CLASSIC = (
    integer("group.min.session.timeout.ms", 6 * SECOND_MS).means(
        "The minimum session timeout of members of classic groups."
    ),
    integer("group.max.session.timeout.ms", 30 * MINUTE_MS).means(
        "The maximum session timeout of members of classic groups."
    ),
    integer("group.initial.rebalance.delay.ms", 3 * SECOND_MS).means(
        "How long an empty classic group waits for more members before its first rebalance."
    ),
    integer("group.max.size", INT_MAX, at_least(1)).means(
        "The maximum number of members of a classic group."
    ),
)

CONSUMER = (
    integer("group.consumer.session.timeout.ms", 45 * SECOND_MS, at_least(1)).means(
        "A member of a consumer group is removed after this time without a heartbeat."
    ),
    integer("group.consumer.min.session.timeout.ms", 45 * SECOND_MS, at_least(1)).means(
        "The minimum of a group's `consumer.session.timeout.ms`."
    ),
    integer("group.consumer.max.session.timeout.ms", MINUTE_MS, at_least(1)).means(
        "The maximum of a group's `consumer.session.timeout.ms`."
    ),
    integer("group.consumer.heartbeat.interval.ms", 5 * SECOND_MS, at_least(1)).means(
        "How often members of a consumer group send a heartbeat."
    ),
    integer("group.consumer.min.heartbeat.interval.ms", 5 * SECOND_MS, at_least(1)).means(
        "The minimum of a group's `consumer.heartbeat.interval.ms`."
    ),
    integer("group.consumer.max.heartbeat.interval.ms", 15 * SECOND_MS, at_least(1)).means(
        "The maximum of a group's `consumer.heartbeat.interval.ms`."
    ),
    integer("group.consumer.assignment.interval.ms", SECOND_MS, at_least(0), dynamic=CLUSTER_WIDE).means(
        "The minimum time between two assignments of a consumer group."
    ),
    integer("group.consumer.min.assignment.interval.ms", 0, at_least(0)).means(
        "The minimum of a group's `consumer.assignment.interval.ms`."
    ),
    integer("group.consumer.max.assignment.interval.ms", 15 * SECOND_MS, at_least(0)).means(
        "The maximum of a group's `consumer.assignment.interval.ms`."
    ),
    integer("group.consumer.max.size", INT_MAX, at_least(1)).means(
        "The maximum number of members of a consumer group."
    ),
    items("group.consumer.assignors", ("uniform", "range"), some_of(*ASSIGNORS)).means(
        "The server-side assignors for consumer groups: uniform and range. The first is used if a member "
        "names none."
    ),
    string(
        "group.consumer.migration.policy",
        "bidirectional",
        one_of_any_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
    ).means(
        "Whether a group with members may change from the classic to the consumer protocol (upgrade), back "
        "(downgrade), or both."
    ),
    integer(
        "group.consumer.regex.refresh.interval.ms", 10 * MINUTE_MS, at_least(10 * SECOND_MS), is_internal=True
    ).means("How often the topics that match a regular expression are resolved again."),
)

STREAMS = (
    integer("group.streams.session.timeout.ms", 45 * SECOND_MS, at_least(1)).means(
        "A member of a streams group is removed after this time without a heartbeat."
    ),
    integer("group.streams.min.session.timeout.ms", 45 * SECOND_MS, at_least(1)).means(
        "The minimum of a group's `streams.session.timeout.ms`."
    ),
    integer("group.streams.max.session.timeout.ms", MINUTE_MS, at_least(1)).means(
        "The maximum of a group's `streams.session.timeout.ms`."
    ),
    integer("group.streams.heartbeat.interval.ms", 5 * SECOND_MS, at_least(1)).means(
        "How often members of a streams group send a heartbeat."
    ),
    integer("group.streams.min.heartbeat.interval.ms", 5 * SECOND_MS, at_least(1)).means(
        "The minimum of a group's `streams.heartbeat.interval.ms`."
    ),
    integer("group.streams.max.heartbeat.interval.ms", 15 * SECOND_MS, at_least(1)).means(
        "The maximum of a group's `streams.heartbeat.interval.ms`."
    ),
    integer("group.streams.assignment.interval.ms", SECOND_MS, at_least(0), dynamic=CLUSTER_WIDE).means(
        "The minimum time between two assignments of a streams group."
    ),
    integer("group.streams.min.assignment.interval.ms", 0, at_least(0)).means(
        "The minimum of a group's `streams.assignment.interval.ms`."
    ),
    integer("group.streams.max.assignment.interval.ms", 15 * SECOND_MS, at_least(0)).means(
        "The maximum of a group's `streams.assignment.interval.ms`."
    ),
    integer("group.streams.max.size", INT_MAX, at_least(1)).means(
        "The maximum number of members of a streams group."
    ),
    integer("group.streams.num.standby.replicas", 0, at_least(0)).means(
        "The number of standby replicas of each task."
    ),
    integer("group.streams.max.standby.replicas", 2, at_least(0)).means(
        "The maximum of a group's `streams.num.standby.replicas`."
    ),
    integer("group.streams.initial.rebalance.delay.ms", 3 * SECOND_MS, at_least(0)).means(
        "How long a new streams group waits for more members before its first assignment."
    ),
)

OFFSETS = (
    integer("offsets.topic.num.partitions", 50, at_least(1), HIGH).means(
        "The number of partitions of `__consumer_offsets`. Do not change it after the topic was created."
    ),
    short("offsets.topic.replication.factor", 3, at_least(1), HIGH).means(
        "The replication factor of `__consumer_offsets`. The topic is created only when that many brokers "
        "are available. If not set, the number of available brokers is used, up to the default."
    ),
    integer("offsets.topic.segment.bytes", 100 * MIB, at_least(1), HIGH).means(
        "The segment size of `__consumer_offsets`. Small segments are compacted and loaded faster."
    ),
    integer("offsets.topic.compression.codec", 0, between(0, 4), HIGH).means(
        "The compression of `__consumer_offsets`: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."
    ),
    integer("offsets.load.buffer.size", 5 * MIB, at_least(1), HIGH).means(
        "The read size when a new coordinator loads its groups."
    ),
    integer("offsets.commit.timeout.ms", 5 * SECOND_MS, at_least(1), HIGH).means(
        "How long a write of the group coordinator waits for its replicas."
    ),
    integer("offsets.retention.minutes", 7 * 24 * 60, at_least(1), HIGH).means(
        "How long the offsets of an empty group are kept."
    ),
    long("offsets.retention.check.interval.ms", 10 * MINUTE_MS, at_least(1), HIGH).means(
        "How often the coordinator looks for expired offsets."
    ),
    integer("offset.metadata.max.bytes", 4096, importance=HIGH).means(
        "The maximum size of the metadata that a consumer commits with an offset."
    ),
)

SETTINGS = COORDINATOR + CLASSIC + CONSUMER + STREAMS + OFFSETS
