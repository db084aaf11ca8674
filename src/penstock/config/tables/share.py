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
        "A member of a share group is removed after this time without a heartbeat."
    ),
    integer("group.share.min.session.timeout.ms", 45 * SECOND_MS, at_least(1)).not_yet(
        "The minimum of a group's `share.session.timeout.ms`."
    ),
    integer("group.share.max.session.timeout.ms", MINUTE_MS, at_least(1)).not_yet(
        "The maximum of a group's `share.session.timeout.ms`."
    ),
    integer("group.share.heartbeat.interval.ms", 5 * SECOND_MS, at_least(1)).not_yet(
        "How often members of a share group send a heartbeat."
    ),
    integer("group.share.min.heartbeat.interval.ms", 5 * SECOND_MS, at_least(1)).not_yet(
        "The minimum of a group's `share.heartbeat.interval.ms`."
    ),
    integer("group.share.max.heartbeat.interval.ms", 15 * SECOND_MS, at_least(1)).not_yet(
        "The maximum of a group's `share.heartbeat.interval.ms`."
    ),
    integer("group.share.assignment.interval.ms", SECOND_MS, at_least(0), dynamic=CLUSTER_WIDE).not_yet(
        "The minimum time between two assignments of a share group."
    ),
    integer("group.share.min.assignment.interval.ms", 0, at_least(0)).not_yet(
        "The minimum of a group's `share.assignment.interval.ms`."
    ),
    integer("group.share.max.assignment.interval.ms", 15 * SECOND_MS, at_least(0)).not_yet(
        "The maximum of a group's `share.assignment.interval.ms`."
    ),
    integer("group.share.max.size", 200, between(1, 1000)).not_yet(
        "The maximum number of members of a share group."
    ),
    items("group.share.assignors", ("simple",), DISTINCT_SOME).not_yet(
        "The assignor of share groups. Only simple is available."
    ),
    integer("group.share.max.share.sessions", 2000, at_least(1)).not_yet(
        "The maximum number of share sessions of this broker."
    ),
    integer(
        "group.share.initialize.retry.interval.ms", 30 * SECOND_MS, at_least(1), LOW, is_internal=True
    ).not_yet("The wait before a failed initialization of a share group's state is retried."),
    string(
        "group.share.persister.class.name",
        "org.apache.kafka.server.share.persister.DefaultStatePersister",
        is_internal=True,
    ).ignored("The Java class that stores the state of share groups."),
)

DELIVERY = (
    integer("group.share.record.lock.duration.ms", 30 * SECOND_MS, between(SECOND_MS, HOUR_MS)).not_yet(
        "How long a record is locked for one member before another member can acquire it."
    ),
    integer(
        "group.share.min.record.lock.duration.ms", 15 * SECOND_MS, between(SECOND_MS, 30 * SECOND_MS)
    ).not_yet("The minimum of a group's `share.record.lock.duration.ms`."),
    integer("group.share.max.record.lock.duration.ms", MINUTE_MS, between(30 * SECOND_MS, HOUR_MS)).not_yet(
        "The maximum of a group's `share.record.lock.duration.ms`."
    ),
    integer("group.share.delivery.count.limit", 5, between(2, 10)).not_yet(
        "The maximum number of delivery attempts of a record."
    ),
    integer("group.share.min.delivery.count.limit", 2, between(2, 5)).not_yet(
        "The minimum of a group's `share.delivery.count.limit`."
    ),
    integer("group.share.max.delivery.count.limit", 10, between(5, 25)).not_yet(
        "The maximum of a group's `share.delivery.count.limit`."
    ),
    integer("group.share.partition.max.record.locks", 2000, between(100, 10000)).not_yet(
        "The maximum number of locked records of one partition in a share group."
    ),
    integer("group.share.min.partition.max.record.locks", 100, between(100, 2000)).not_yet(
        "The minimum of a group's `share.partition.max.record.locks`."
    ),
    integer("group.share.max.partition.max.record.locks", 4000, between(2000, 10000)).not_yet(
        "The maximum of a group's `share.partition.max.record.locks`."
    ),
)

COORDINATOR = (
    integer("share.coordinator.state.topic.num.partitions", 50, at_least(1), HIGH).means(
        "The number of partitions of `__share_group_state`. Do not change it after the topic was created."
    ),
    short("share.coordinator.state.topic.replication.factor", 3, at_least(1), HIGH).means(
        "The replication factor of `__share_group_state`. The topic is created only when that many brokers "
        "are available."
    ),
    short("share.coordinator.state.topic.min.isr", 2, at_least(1), HIGH).means(
        "The `min.insync.replicas` of `__share_group_state`."
    ),
    integer("share.coordinator.state.topic.segment.bytes", 100 * MIB, at_least(1), HIGH).means(
        "The segment size of `__share_group_state`."
    ),
    integer("share.coordinator.state.topic.compression.codec", 0, between(0, 4), HIGH).not_yet(
        "The compression of `__share_group_state`: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."
    ),
    integer(
        "share.coordinator.state.topic.prune.interval.ms", 5 * MINUTE_MS, at_least(1), LOW, is_internal=True
    ).not_yet("How often records that a later snapshot replaces are deleted."),
    integer("share.coordinator.snapshot.update.records.per.snapshot", 500, between(0, 500)).not_yet(
        "The number of state updates of a partition between two snapshots."
    ),
    integer(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        5 * MINUTE_MS,
        at_least(1),
        LOW,
        is_internal=True,
    ).not_yet("How often a snapshot of partitions without updates is written."),
    integer("share.coordinator.load.buffer.size", 5 * MIB, at_least(1), HIGH).not_yet(
        "The read size when a new coordinator loads the state of share groups."
    ),
    integer("share.coordinator.write.timeout.ms", 5 * SECOND_MS, at_least(1), HIGH).not_yet(
        "How long a write of the share coordinator waits for its replicas."
    ),
    integer("share.coordinator.append.linger.ms", -1, at_least(-1)).not_yet(
        "How long the share coordinator collects records before it writes them. -1 adapts it to the load."
    ),
    integer("share.coordinator.threads", 1, at_least(1)).ignored(
        "Threads of Kafka's share coordinator. Here it runs on the event loop."
    ),
    integer(
        "share.coordinator.cached.buffer.max.bytes", MIB + 12, at_least(512 * KIB), dynamic=CLUSTER_WIDE
    ).ignored("The largest write buffer that Kafka's share coordinator keeps for reuse."),
)

SETTINGS = GROUPS + DELIVERY + COORDINATOR
