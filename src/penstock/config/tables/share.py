"""Share groups (queues, KIP-932) and the coordinator of their state."""

from __future__ import annotations

from penstock.config.declare import (
    CLUSTER_WIDE,
    DISTINCT_SOME,
    HIGH,
    HOUR_MS,
    KIB,
    LOW,
    MIB,
    MINUTE_MS,
    SECOND_MS,
    at_least,
    between,
    integer,
    items,
    short,
    string,
)

GROUPS = (
    integer("group.share.session.timeout.ms", 45 * SECOND_MS, at_least(1)).not_yet(
        "How long a member of a share group may be silent before it is put out."
    ),
    integer("group.share.min.session.timeout.ms", 45 * SECOND_MS, at_least(1)).not_yet(
        "The least that `share.session.timeout.ms` of a group may be."
    ),
    integer("group.share.max.session.timeout.ms", MINUTE_MS, at_least(1)).not_yet(
        "The most that `share.session.timeout.ms` of a group may be."
    ),
    integer("group.share.heartbeat.interval.ms", 5 * SECOND_MS, at_least(1)).not_yet(
        "How often the members of a share group are told to send a heartbeat."
    ),
    integer("group.share.min.heartbeat.interval.ms", 5 * SECOND_MS, at_least(1)).not_yet(
        "The least that `share.heartbeat.interval.ms` of a group may be."
    ),
    integer("group.share.max.heartbeat.interval.ms", 15 * SECOND_MS, at_least(1)).not_yet(
        "The most that `share.heartbeat.interval.ms` of a group may be."
    ),
    integer("group.share.assignment.interval.ms", SECOND_MS, at_least(0), dynamic=CLUSTER_WIDE).not_yet(
        "How much time lies at least between two assignments of a share group."
    ),
    integer("group.share.min.assignment.interval.ms", 0, at_least(0)).not_yet(
        "The least that `share.assignment.interval.ms` of a group may be."
    ),
    integer("group.share.max.assignment.interval.ms", 15 * SECOND_MS, at_least(0)).not_yet(
        "The most that `share.assignment.interval.ms` of a group may be."
    ),
    integer("group.share.max.size", 200, between(1, 1000)).not_yet(
        "How many members a share group may have."
    ),
    items("group.share.assignors", ("simple",), DISTINCT_SOME).not_yet(
        "The one assignor of share groups; simple is the one that there is."
    ),
    integer("group.share.max.share.sessions", 2000, at_least(1)).not_yet(
        "How many share sessions the broker serves at once."
    ),
    integer(
        "group.share.initialize.retry.interval.ms", 30 * SECOND_MS, at_least(1), LOW, is_internal=True
    ).not_yet("How long to wait before a share group's state is set up again after a failure."),
    string(
        "group.share.persister.class.name",
        "org.apache.kafka.server.share.persister.DefaultStatePersister",
        is_internal=True,
    ).no_meaning("The Java class that keeps the state of share groups."),
)

DELIVERY = (
    integer("group.share.record.lock.duration.ms", 30 * SECOND_MS, between(SECOND_MS, HOUR_MS)).not_yet(
        "How long a member has a record to itself before another may get it."
    ),
    integer(
        "group.share.min.record.lock.duration.ms", 15 * SECOND_MS, between(SECOND_MS, 30 * SECOND_MS)
    ).not_yet("The least that `share.record.lock.duration.ms` of a group may be."),
    integer("group.share.max.record.lock.duration.ms", MINUTE_MS, between(30 * SECOND_MS, HOUR_MS)).not_yet(
        "The most that `share.record.lock.duration.ms` of a group may be."
    ),
    integer("group.share.delivery.count.limit", 5, between(2, 10)).not_yet(
        "How often a record is delivered before it counts as undeliverable."
    ),
    integer("group.share.min.delivery.count.limit", 2, between(2, 5)).not_yet(
        "The least that `share.delivery.count.limit` of a group may be."
    ),
    integer("group.share.max.delivery.count.limit", 10, between(5, 25)).not_yet(
        "The most that `share.delivery.count.limit` of a group may be."
    ),
    integer("group.share.partition.max.record.locks", 2000, between(100, 10000)).not_yet(
        "How many records of one partition a share group may have under way."
    ),
    integer("group.share.min.partition.max.record.locks", 100, between(100, 2000)).not_yet(
        "The least that `share.partition.max.record.locks` of a group may be."
    ),
    integer("group.share.max.partition.max.record.locks", 4000, between(2000, 10000)).not_yet(
        "The most that `share.partition.max.record.locks` of a group may be."
    ),
)

COORDINATOR = (
    integer("share.coordinator.state.topic.num.partitions", 50, at_least(1), HIGH).means(
        "Partitions of the topic of share groups' state. Not to be changed once the topic exists."
    ),
    short("share.coordinator.state.topic.replication.factor", 3, at_least(1), HIGH).means(
        "Replicas of the topic of share groups' state. It is not created before there are so many brokers."
    ),
    short("share.coordinator.state.topic.min.isr", 2, at_least(1), HIGH).means(
        "The `min.insync.replicas` of the topic of share groups' state."
    ),
    integer("share.coordinator.state.topic.segment.bytes", 100 * MIB, at_least(1), HIGH).means(
        "The segment size of the topic of share groups' state."
    ),
    integer("share.coordinator.state.topic.compression.codec", 0, between(0, 4), HIGH).not_yet(
        "How the topic of share groups' state is compressed: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."
    ),
    integer(
        "share.coordinator.state.topic.prune.interval.ms", 5 * MINUTE_MS, at_least(1), LOW, is_internal=True
    ).not_yet("How often records that a later snapshot covers are deleted."),
    integer("share.coordinator.snapshot.update.records.per.snapshot", 500, between(0, 500)).not_yet(
        "How many updates of a partition's state are written before a snapshot of it."
    ),
    integer(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        5 * MINUTE_MS,
        at_least(1),
        LOW,
        is_internal=True,
    ).not_yet("How often a snapshot is written of partitions that have no updates."),
    integer("share.coordinator.load.buffer.size", 5 * MIB, at_least(1), HIGH).not_yet(
        "How much is read at a time when a new coordinator loads the state of share groups."
    ),
    integer("share.coordinator.write.timeout.ms", 5 * SECOND_MS, at_least(1), HIGH).not_yet(
        "How long a write of the coordinator waits for its replicas."
    ),
    integer("share.coordinator.append.linger.ms", -1, at_least(-1)).not_yet(
        "How long the coordinator gathers records before it writes them together; -1 lets the load decide."
    ),
    integer("share.coordinator.threads", 1, at_least(1)).no_meaning(
        "Threads of Kafka's share coordinator; here it is a state machine on the event loop."
    ),
    integer(
        "share.coordinator.cached.buffer.max.bytes", MIB + 12, at_least(512 * KIB), dynamic=CLUSTER_WIDE
    ).no_meaning("The largest write buffer that Kafka's coordinator keeps for the next use."),
)

SETTINGS = GROUPS + DELIVERY + COORDINATOR
