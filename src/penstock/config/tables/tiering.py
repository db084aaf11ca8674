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
        "Allow topics to use tiered storage: older segments move to a remote store."
    ),
    string("remote.log.storage.manager.class.name", None, NOT_EMPTY).ignored(
        "The Java class that accesses the remote store."
    ),
    string("remote.log.storage.manager.class.path").ignored("The class path of the remote storage manager."),
    string("remote.log.storage.manager.impl.prefix", "rsm.config.", NOT_EMPTY).ignored(
        "The prefix of the remote storage manager's own settings."
    ),
    string(
        "remote.log.metadata.manager.class.name",
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        NOT_EMPTY,
    ).ignored("The Java class that stores the metadata of remote segments."),
    string("remote.log.metadata.manager.class.path").ignored(
        "The class path of the remote log metadata manager."
    ),
    string("remote.log.metadata.manager.impl.prefix", "rlmm.config.", NOT_EMPTY).ignored(
        "The prefix of the remote log metadata manager's own settings."
    ),
    string("remote.log.metadata.manager.listener.name", None, NOT_EMPTY).not_yet(
        "The listener for the metadata of remote segments."
    ),
    integer("remote.log.metadata.custom.metadata.max.bytes", 128, at_least(0), LOW).not_yet(
        "The maximum size of the metadata that the remote store adds to a segment."
    ),
)

RETENTION = (
    long("log.local.retention.ms", -2, at_least(-2), dynamic=CLUSTER_WIDE).not_yet(
        "How long segments stay on local disk after they were copied to the remote store. -2 means "
        "`log.retention.ms`."
    ),
    long("log.local.retention.bytes", -2, at_least(-2), dynamic=CLUSTER_WIDE).not_yet(
        "The maximum local size of a partition whose segments are in the remote store. -2 means "
        "`log.retention.bytes`."
    ),
)

COPYING = (
    long("remote.log.manager.task.interval.ms", 30 * SECOND_MS, at_least(1), LOW).not_yet(
        "How often the broker looks for segments to copy to, or delete from, the remote store."
    ),
    integer("remote.log.manager.copier.thread.pool.size", 10, at_least(1), dynamic=CLUSTER_WIDE).not_yet(
        "The number of segments that are copied to the remote store at the same time."
    ),
    integer("remote.log.manager.expiration.thread.pool.size", 10, at_least(1), dynamic=CLUSTER_WIDE).not_yet(
        "The number of partitions whose remote segments are expired at the same time."
    ),
    integer("remote.log.manager.follower.thread.pool.size", 2, at_least(1), dynamic=CLUSTER_WIDE).ignored(
        "Kafka's threads in which followers read the metadata of remote segments."
    ),
    integer("remote.log.manager.thread.pool.size", 2, at_least(1)).ignored(
        "The older name of `remote.log.manager.follower.thread.pool.size`."
    ),
    long("remote.log.manager.copy.max.bytes.per.second", LONG_MAX, at_least(1), dynamic=CLUSTER_WIDE).not_yet(
        "The maximum rate of copying to the remote store."
    ),
    integer("remote.log.manager.copy.quota.window.num", 11, at_least(1)).not_yet(
        "The number of windows over which the rate of copying to the remote store is measured."
    ),
    integer("remote.log.manager.copy.quota.window.size.seconds", 1, at_least(1)).not_yet(
        "The length of one window of the rate of copying to the remote store."
    ),
    long("remote.log.manager.task.retry.backoff.ms", 500, at_least(1), LOW, is_internal=True).not_yet(
        "The wait before the first retry of a failed task of the remote store. It grows with every failure."
    ),
    long(
        "remote.log.manager.task.retry.backoff.max.ms", 30 * SECOND_MS, at_least(1), LOW, is_internal=True
    ).not_yet("The maximum wait before a retry of a failed task of the remote store."),
    double("remote.log.manager.task.retry.jitter", 0.2, between(0, 0.5), LOW, is_internal=True).not_yet(
        "The share by which such a wait is randomly longer or shorter."
    ),
)

READING = (
    integer("remote.fetch.max.wait.ms", 500, at_least(1), dynamic=CLUSTER_WIDE).not_yet(
        "How long a fetch waits for data from the remote store."
    ),
    long("remote.list.offsets.request.timeout.ms", 30 * SECOND_MS, at_least(1), dynamic=CLUSTER_WIDE).not_yet(
        "How long ListOffsets waits for the remote store."
    ),
    integer("remote.log.reader.threads", 10, at_least(1), dynamic=CLUSTER_WIDE).not_yet(
        "The number of parallel reads from the remote store."
    ),
    integer("remote.log.reader.max.pending.tasks", 100, at_least(1)).not_yet(
        "The maximum number of queued reads from the remote store. Further fetches fail."
    ),
    long(
        "remote.log.manager.fetch.max.bytes.per.second", LONG_MAX, at_least(1), dynamic=CLUSTER_WIDE
    ).not_yet("The maximum rate of reading from the remote store."),
    integer("remote.log.manager.fetch.quota.window.num", 11, at_least(1)).not_yet(
        "The number of windows over which the rate of reading from the remote store is measured."
    ),
    integer("remote.log.manager.fetch.quota.window.size.seconds", 1, at_least(1)).not_yet(
        "The length of one window of the rate of reading from the remote store."
    ),
    long("remote.log.index.file.cache.total.size.bytes", GIB, at_least(1), LOW, CLUSTER_WIDE).not_yet(
        "The maximum size of the local cache of remote indexes."
    ),
    long("remote.log.index.file.cache.ttl.ms", 15 * MINUTE_MS, at_least(-1), LOW, is_internal=True).not_yet(
        "How long an unused index stays in the cache of remote indexes. -1 means no limit."
    ),
    boolean("follower.fetch.last.tiered.offset.enable", False, dynamic=CLUSTER_WIDE).not_yet(
        "Let an empty follower start after the segments in the remote store, instead of copying the whole "
        "log from the leader."
    ),
)

SETTINGS = STORAGE + RETENTION + COPYING + READING
