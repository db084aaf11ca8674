"""Groups of consumers and of streams applications, and the offsets that they commit."""

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
    # The same, as a configuration that was written for Kafka may name them; a class of one's own cannot be loaded here.
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
)

COORDINATOR = (
    items(
        "group.coordinator.rebalance.protocols",
        ("classic", "consumer", "streams"),
        some_of("consumer", "classic", "share", "streams"),
    ).means("The group protocols that are served; classic is always among them."),
    integer("group.coordinator.threads", 4, at_least(1), HIGH).no_meaning(
        "Threads of Kafka's group coordinator; here it is a state machine on the event loop."
    ),
    integer("group.coordinator.background.threads", 2, at_least(1), HIGH).no_meaning(
        "Threads for the slow work of Kafka's group coordinator."
    ),
    integer("group.coordinator.append.linger.ms", -1, at_least(-1)).no_meaning(
        "How long Kafka's coordinator gathers records before it writes them; here a write does not wait."
    ),
    integer(
        "group.coordinator.cached.buffer.max.bytes", MIB + 12, at_least(512 * KIB), dynamic=CLUSTER_WIDE
    ).no_meaning("The largest write buffer that Kafka's coordinator keeps for the next use."),
)

CLASSIC = (
    integer("group.min.session.timeout.ms", 6 * SECOND_MS).means(
        "The shortest session timeout that a member of a classic group may ask for."
    ),
    integer("group.max.session.timeout.ms", 30 * MINUTE_MS).means(
        "The longest session timeout that a member of a classic group may ask for."
    ),
    integer("group.initial.rebalance.delay.ms", 3 * SECOND_MS).means(
        "How long an empty classic group waits for more members before its first assignment."
    ),
    integer("group.max.size", INT_MAX, at_least(1)).means("How many members a classic group may have."),
)

CONSUMER = (
    integer("group.consumer.session.timeout.ms", 45 * SECOND_MS, at_least(1)).means(
        "How long a member of a consumer group may be silent before it is put out."
    ),
    integer("group.consumer.min.session.timeout.ms", 45 * SECOND_MS, at_least(1)).means(
        "The least that `consumer.session.timeout.ms` of a group may be."
    ),
    integer("group.consumer.max.session.timeout.ms", MINUTE_MS, at_least(1)).means(
        "The most that `consumer.session.timeout.ms` of a group may be."
    ),
    integer("group.consumer.heartbeat.interval.ms", 5 * SECOND_MS, at_least(1)).means(
        "How often the members of a consumer group are told to send a heartbeat."
    ),
    integer("group.consumer.min.heartbeat.interval.ms", 5 * SECOND_MS, at_least(1)).means(
        "The least that `consumer.heartbeat.interval.ms` of a group may be."
    ),
    integer("group.consumer.max.heartbeat.interval.ms", 15 * SECOND_MS, at_least(1)).means(
        "The most that `consumer.heartbeat.interval.ms` of a group may be."
    ),
    integer("group.consumer.assignment.interval.ms", SECOND_MS, at_least(0), dynamic=CLUSTER_WIDE).means(
        "How much time lies at least between two assignments of a consumer group."
    ),
    integer("group.consumer.min.assignment.interval.ms", 0, at_least(0)).means(
        "The least that `consumer.assignment.interval.ms` of a group may be."
    ),
    integer("group.consumer.max.assignment.interval.ms", 15 * SECOND_MS, at_least(0)).means(
        "The most that `consumer.assignment.interval.ms` of a group may be."
    ),
    integer("group.consumer.max.size", INT_MAX, at_least(1)).means(
        "How many members a consumer group may have."
    ),
    items("group.consumer.assignors", ("uniform", "range"), some_of(*ASSIGNORS)).means(
        "The assignors that a consumer group may use, uniform and range; the first where a member names none."
    ),
    string(
        "group.consumer.migration.policy",
        "bidirectional",
        one_of_any_case("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
    ).means("Whether a group with members may turn from the classic protocol to the newer one, or back."),
    integer(
        "group.consumer.regex.refresh.interval.ms", 10 * MINUTE_MS, at_least(10 * SECOND_MS), is_internal=True
    ).means("How often it is looked up anew which topics a subscription by regular expression matches."),
)

STREAMS = (
    integer("group.streams.session.timeout.ms", 45 * SECOND_MS, at_least(1)).means(
        "How long a member of a streams group may be silent before it is put out."
    ),
    integer("group.streams.min.session.timeout.ms", 45 * SECOND_MS, at_least(1)).means(
        "The least that `streams.session.timeout.ms` of a group may be."
    ),
    integer("group.streams.max.session.timeout.ms", MINUTE_MS, at_least(1)).means(
        "The most that `streams.session.timeout.ms` of a group may be."
    ),
    integer("group.streams.heartbeat.interval.ms", 5 * SECOND_MS, at_least(1)).means(
        "How often the members of a streams group are told to send a heartbeat."
    ),
    integer("group.streams.min.heartbeat.interval.ms", 5 * SECOND_MS, at_least(1)).means(
        "The least that `streams.heartbeat.interval.ms` of a group may be."
    ),
    integer("group.streams.max.heartbeat.interval.ms", 15 * SECOND_MS, at_least(1)).means(
        "The most that `streams.heartbeat.interval.ms` of a group may be."
    ),
    integer("group.streams.assignment.interval.ms", SECOND_MS, at_least(0), dynamic=CLUSTER_WIDE).means(
        "How much time lies at least between two assignments of a streams group."
    ),
    integer("group.streams.min.assignment.interval.ms", 0, at_least(0)).means(
        "The least that `streams.assignment.interval.ms` of a group may be."
    ),
    integer("group.streams.max.assignment.interval.ms", 15 * SECOND_MS, at_least(0)).means(
        "The most that `streams.assignment.interval.ms` of a group may be."
    ),
    integer("group.streams.max.size", INT_MAX, at_least(1)).means(
        "How many members a streams group may have."
    ),
    integer("group.streams.num.standby.replicas", 0, at_least(0)).means(
        "How many copies of each task's state are kept warm elsewhere."
    ),
    integer("group.streams.max.standby.replicas", 2, at_least(0)).means(
        "The most that `streams.num.standby.replicas` of a group may be."
    ),
    integer("group.streams.initial.rebalance.delay.ms", 3 * SECOND_MS, at_least(0)).means(
        "How long a new streams group waits for more members before its first assignment."
    ),
)

OFFSETS = (
    integer("offsets.topic.num.partitions", 50, at_least(1), HIGH).means(
        "Partitions of the topic of committed offsets. Not to be changed once the topic exists."
    ),
    short("offsets.topic.replication.factor", 3, at_least(1), HIGH).means(
        "Replicas of the topic of committed offsets. It is not created before there are so many brokers; left at its "
        "default, it gets as many as there are."
    ),
    integer("offsets.topic.segment.bytes", 100 * MIB, at_least(1), HIGH).means(
        "The segment size of the topic of committed offsets; small ones are compacted and loaded sooner."
    ),
    integer("offsets.topic.compression.codec", 0, between(0, 4), HIGH).means(
        "How the topic of committed offsets is compressed: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."
    ),
    integer("offsets.load.buffer.size", 5 * MIB, at_least(1), HIGH).means(
        "How much is read at a time when a new coordinator loads its groups."
    ),
    integer("offsets.commit.timeout.ms", 5 * SECOND_MS, at_least(1), HIGH).means(
        "How long a write of the coordinator waits for its replicas."
    ),
    integer("offsets.retention.minutes", 7 * 24 * 60, at_least(1), HIGH).means(
        "How long an empty group's offsets are kept."
    ),
    long("offsets.retention.check.interval.ms", 10 * MINUTE_MS, at_least(1), HIGH).means(
        "How often offsets that outlived their time are looked for."
    ),
    integer("offset.metadata.max.bytes", 4096, importance=HIGH).means(
        "How long the note may be that a consumer leaves with an offset."
    ),
)

SETTINGS = COORDINATOR + CLASSIC + CONSUMER + STREAMS + OFFSETS
