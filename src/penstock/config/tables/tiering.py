"""Tiered storage: older segments in an object store (KIP-405)."""

from __future__ import annotations

from penstock.config.declare import (
    CLUSTER_WIDE,
    GIB,
    LOW,
    MINUTE_MS,
    NOT_EMPTY,
    SECOND_MS,
    at_least,
    between,
    boolean,
    double,
    integer,
    long,
    string,
)
from penstock.config.values import LONG_MAX

STORAGE = (
    boolean("remote.log.storage.system.enable", False).not_yet(
        "Allow topics to keep older segments in a remote store."
    ),
    string("remote.log.storage.manager.class.name", None, NOT_EMPTY).no_meaning(
        "The Java class that reaches the remote store."
    ),
    string("remote.log.storage.manager.class.path").no_meaning(
        "Where the Java class that reaches the remote store is found."
    ),
    string("remote.log.storage.manager.impl.prefix", "rsm.config.", NOT_EMPTY).no_meaning(
        "What the names of that class's own settings begin with."
    ),
    string(
        "remote.log.metadata.manager.class.name",
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        NOT_EMPTY,
    ).no_meaning("The Java class that remembers which segments are in the remote store."),
    string("remote.log.metadata.manager.class.path").no_meaning(
        "Where the Java class that remembers remote segments is found."
    ),
    string("remote.log.metadata.manager.impl.prefix", "rlmm.config.", NOT_EMPTY).no_meaning(
        "What the names of that class's own settings begin with."
    ),
    string("remote.log.metadata.manager.listener.name", None, NOT_EMPTY).not_yet(
        "The listener over which the record of remote segments is kept."
    ),
    integer("remote.log.metadata.custom.metadata.max.bytes", 128, at_least(0), LOW).not_yet(
        "How long the note may be that the store leaves with a segment."
    ),
)

RETENTION = (
    long("log.local.retention.ms", -2, at_least(-2), dynamic=CLUSTER_WIDE).not_yet(
        "How long segments that are in the remote store also stay here; -2 for as long as `log.retention.ms` "
        "says."
    ),
    long("log.local.retention.bytes", -2, at_least(-2), dynamic=CLUSTER_WIDE).not_yet(
        "How much of a partition that is in the remote store also stays here; -2 for as much as "
        "`log.retention.bytes` says."
    ),
)

COPYING = (
    long("remote.log.manager.task.interval.ms", 30 * SECOND_MS, at_least(1), LOW).not_yet(
        "How often segments to copy or to delete are looked for."
    ),
    integer("remote.log.manager.copier.thread.pool.size", 10, at_least(1), dynamic=CLUSTER_WIDE).not_yet(
        "How many segments are copied to the store at the same time."
    ),
    integer("remote.log.manager.expiration.thread.pool.size", 10, at_least(1), dynamic=CLUSTER_WIDE).not_yet(
        "How many partitions are cleaned in the store at the same time."
    ),
    integer("remote.log.manager.follower.thread.pool.size", 2, at_least(1), dynamic=CLUSTER_WIDE).no_meaning(
        "Threads with which Kafka's followers learn what is in the store."
    ),
    integer("remote.log.manager.thread.pool.size", 2, at_least(1)).no_meaning(
        "The older name of `remote.log.manager.follower.thread.pool.size`."
    ),
    long("remote.log.manager.copy.max.bytes.per.second", LONG_MAX, at_least(1), dynamic=CLUSTER_WIDE).not_yet(
        "How fast segments are copied to the store."
    ),
    integer("remote.log.manager.copy.quota.window.num", 11, at_least(1)).not_yet(
        "Over how many samples the speed of copying to the store is measured."
    ),
    integer("remote.log.manager.copy.quota.window.size.seconds", 1, at_least(1)).not_yet(
        "How long one sample of the speed of copying to the store is."
    ),
    long("remote.log.manager.task.retry.backoff.ms", 500, at_least(1), LOW, is_internal=True).not_yet(
        "The first pause before failed work on the store is tried again; it grows from there."
    ),
    long(
        "remote.log.manager.task.retry.backoff.max.ms", 30 * SECOND_MS, at_least(1), LOW, is_internal=True
    ).not_yet("The longest pause before failed work on the store is tried again."),
    double("remote.log.manager.task.retry.jitter", 0.2, between(0, 0.5), LOW, is_internal=True).not_yet(
        "By which share a pause is made longer or shorter at random."
    ),
)

READING = (
    integer("remote.fetch.max.wait.ms", 500, at_least(1), dynamic=CLUSTER_WIDE).not_yet(
        "How long a fetch waits for data from the store."
    ),
    long("remote.list.offsets.request.timeout.ms", 30 * SECOND_MS, at_least(1), dynamic=CLUSTER_WIDE).not_yet(
        "How long a lookup of offsets waits for the store."
    ),
    integer("remote.log.reader.threads", 10, at_least(1), dynamic=CLUSTER_WIDE).not_yet(
        "How many reads of the store go on at the same time."
    ),
    integer("remote.log.reader.max.pending.tasks", 100, at_least(1)).not_yet(
        "How many reads of the store may wait; further fetches get an error."
    ),
    long(
        "remote.log.manager.fetch.max.bytes.per.second", LONG_MAX, at_least(1), dynamic=CLUSTER_WIDE
    ).not_yet("How fast the store is read."),
    integer("remote.log.manager.fetch.quota.window.num", 11, at_least(1)).not_yet(
        "Over how many samples the speed of reading the store is measured."
    ),
    integer("remote.log.manager.fetch.quota.window.size.seconds", 1, at_least(1)).not_yet(
        "How long one sample of the speed of reading the store is."
    ),
    long("remote.log.index.file.cache.total.size.bytes", GIB, at_least(1), LOW, CLUSTER_WIDE).not_yet(
        "How much room copies of remote segments' indexes take here."
    ),
    long("remote.log.index.file.cache.ttl.ms", 15 * MINUTE_MS, at_least(-1), LOW, is_internal=True).not_yet(
        "How long an unused copy of a remote segment's index stays here; -1 for no limit."
    ),
    boolean("follower.fetch.last.tiered.offset.enable", False, dynamic=CLUSTER_WIDE).not_yet(
        "Let an empty follower begin behind what is in the store, rather than copy the whole log from its "
        "leader."
    ),
)

SETTINGS = STORAGE + RETENTION + COPYING + READING
