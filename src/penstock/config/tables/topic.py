"""Settings of a topic, and the broker settings that are their defaults."""

from __future__ import annotations

import re
from typing import NamedTuple

from penstock.config.declare import (
    DAY_MS,
    GIB,
    HOUR_MS,
    KIB,
    MIB,
    MINUTE_MS,
    Rule,
    at_least,
    between,
    boolean,
    double,
    integer,
    items,
    long,
    string,
)
from penstock.config.tables.log import (
    CLEANUP_POLICIES,
    COMPRESSION_TYPES,
    GZIP_LEVELS,
    LZ4_LEVELS,
    TIMESTAMP_TYPES,
    ZSTD_LEVELS,
)
from penstock.config.values import LONG_MAX

REPLICA = re.compile(r"[0-9]+:[0-9]+")
THROTTLED_REPLICAS = Rule(
    lambda replicas: replicas == ("*",) or all(map(REPLICA.fullmatch, replicas)),
    "of partition:broker, or *",
)

RETENTION = (
    items("cleanup.policy", ("delete",), CLEANUP_POLICIES).means(
        "How old data is removed: delete (by age and size), compact (keep the last value of each key), or "
        "both. Empty keeps everything."
    ),
    long("retention.ms", 7 * DAY_MS, at_least(-1)).means(
        "How long data is kept, if the cleanup policy includes delete. -1 means forever."
    ),
    long("retention.bytes", -1).means(
        "The maximum size of each partition, if the cleanup policy includes delete. -1 means no limit. The "
        "limit of a topic is this times its partitions."
    ),
    long("file.delete.delay.ms", MINUTE_MS, at_least(0)).means(
        "How long the files of a deleted segment stay on disk, for readers that still use them."
    ),
)

SEGMENTS = (
    integer("segment.bytes", GIB, at_least(MIB)).means(
        "The size at which the log rolls to a new segment. Retention and compaction work on whole segments."
    ),
    long("segment.ms", 7 * DAY_MS, at_least(1)).means(
        "The age at which the log rolls to a new segment, even if the segment is not full, so that its "
        "data can be deleted or compacted."
    ),
    long("segment.jitter.ms", 0, at_least(0)).means(
        "The maximum random time by which a segment rolls earlier, so that not all logs roll at once."
    ),
    integer("segment.index.bytes", 10 * MIB, at_least(4)).means(
        "The maximum size of an offset or time index. The segment rolls when its index is full."
    ),
    integer("index.interval.bytes", 4 * KIB, at_least(0)).means(
        "The number of log bytes between two index entries. Smaller makes lookups faster, larger makes "
        "indexes smaller."
    ),
    boolean("preallocate", False).means(
        "Allocate the full size of a new segment on disk when it is created."
    ),
    integer("internal.segment.bytes", is_internal=True).ignored(
        "A segment size without a lower limit, for Kafka's own tests."
    ),
)

DURABILITY = (
    long("flush.messages", LONG_MAX, at_least(1)).means(
        "Sync the log to disk after this many records, and acknowledge them only then. 1 syncs every "
        "append. One sync acknowledges all appends that wait for it. Replication protects against the loss "
        "of a machine at a lower cost."
    ),
    long("flush.ms", LONG_MAX, at_least(0)).means(
        "Sync the log to disk when its oldest unsynced record has this age."
    ),
    integer("min.insync.replicas", 1, at_least(1)).means(
        "How many replicas, including the leader, must have a record before a producer with acks=all gets "
        "its response. If fewer are in sync, such writes fail."
    ),
    boolean("unclean.leader.election.enable", False).means(
        "If no in-sync replica is left, elect one that is behind. The partition becomes available again, "
        "but records that this replica had not copied are lost."
    ),
)

RECORDS = (
    integer("max.message.bytes", MIB + 12, at_least(0)).means(
        "The maximum size of a record batch, after compression."
    ),
    string("compression.type", "producer", COMPRESSION_TYPES).means(
        "How batches are stored: as the producer compressed them (producer), or recompressed with this codec."
    ),
    integer("compression.gzip.level", -1, GZIP_LEVELS).means(
        "The gzip compression level, if `compression.type` is gzip."
    ),
    integer("compression.lz4.level", 9, LZ4_LEVELS).means(
        "The lz4 compression level, if `compression.type` is lz4."
    ),
    integer("compression.zstd.level", 3, ZSTD_LEVELS).means(
        "The zstd compression level, if `compression.type` is zstd."
    ),
    string("message.timestamp.type", "CreateTime", TIMESTAMP_TYPES).means(
        "The timestamp of records: the producer's (CreateTime), or the broker's time of the append "
        "(LogAppendTime)."
    ),
    long("message.timestamp.before.max.ms", LONG_MAX, at_least(0)).means(
        "How far in the past a producer's timestamp may be. A batch with an older one is rejected. Not "
        "used with LogAppendTime."
    ),
    long("message.timestamp.after.max.ms", HOUR_MS, at_least(0)).means(
        "How far in the future a producer's timestamp may be. A batch with a later one is rejected. Not "
        "used with LogAppendTime."
    ),
)

COMPACTION = (
    double("min.cleanable.dirty.ratio", 0.5, between(0, 1)).means(
        "The share of the log that must be dirty (new since the last compaction) before it is compacted "
        "again."
    ),
    long("min.compaction.lag.ms", 0, at_least(0)).means(
        "The minimum age of a record before it can be compacted."
    ),
    long("max.compaction.lag.ms", LONG_MAX, at_least(1)).means(
        "The maximum age of a record before the log must be compacted. At least `min.compaction.lag.ms`."
    ),
    long("delete.retention.ms", DAY_MS, at_least(0)).means(
        "How long a compacted log keeps tombstones. A consumer that needs longer to read the log from its "
        "start may miss them."
    ),
)

REPLICATION = (
    items("leader.replication.throttled.replicas", (), THROTTLED_REPLICAS).means(
        "The replicas whose replication is throttled on the leader, as partition:broker. * means all."
    ),
    items("follower.replication.throttled.replicas", (), THROTTLED_REPLICAS).means(
        "The replicas whose replication is throttled on the follower, as partition:broker. * means all."
    ),
)

TIERING = (
    boolean("remote.storage.enable", False).not_yet(
        "Use tiered storage: keep older segments in a remote store. To disable it again, set "
        "`remote.log.delete.on.disable` to true."
    ),
    boolean("remote.log.copy.disable", False).not_yet(
        "Stop copying segments to the remote store. Segments that are there stay readable until they expire."
    ),
    boolean("remote.log.delete.on.disable", False).not_yet(
        "Delete the remote segments when `remote.storage.enable` is set to false."
    ),
    long("local.retention.ms", -2, at_least(-2)).not_yet(
        "How long segments stay on local disk after they were copied to the remote store. -2 means "
        "`retention.ms`."
    ),
    long("local.retention.bytes", -2, at_least(-2)).not_yet(
        "The maximum local size of a partition whose segments are in the remote store. -2 means "
        "`retention.bytes`."
    ),
)

SETTINGS = RETENTION + SEGMENTS + DURABILITY + RECORDS + COMPACTION + REPLICATION + TIERING


class BrokerSynonym(NamedTuple):
    """A broker setting that is the default of a topic setting."""

    name: str
    factor: int = 1
    """Converts its value, such as minutes or hours, to the unit of the topic setting."""


def _same(name: str) -> tuple[BrokerSynonym, ...]:
    return (BrokerSynonym(name),)


# In order of precedence: the first that is set counts. A topic setting that is not listed has no broker setting.
BROKER_SYNONYMS: dict[str, tuple[BrokerSynonym, ...]] = {
    "cleanup.policy": _same("log.cleanup.policy"),
    "compression.gzip.level": _same("compression.gzip.level"),
    "compression.lz4.level": _same("compression.lz4.level"),
    "compression.type": _same("compression.type"),
    "compression.zstd.level": _same("compression.zstd.level"),
    "delete.retention.ms": _same("log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": _same("log.segment.delete.delay.ms"),
    "flush.messages": _same("log.flush.interval.messages"),
    "flush.ms": (BrokerSynonym("log.flush.interval.ms"), BrokerSynonym("log.flush.scheduler.interval.ms")),
    "index.interval.bytes": _same("log.index.interval.bytes"),
    "local.retention.bytes": _same("log.local.retention.bytes"),
    "local.retention.ms": _same("log.local.retention.ms"),
    "max.compaction.lag.ms": _same("log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": _same("message.max.bytes"),
    "message.timestamp.after.max.ms": _same("log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": _same("log.message.timestamp.before.max.ms"),
    "message.timestamp.type": _same("log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": _same("log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": _same("log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": _same("min.insync.replicas"),
    "preallocate": _same("log.preallocate"),
    "retention.bytes": _same("log.retention.bytes"),
    "retention.ms": (
        BrokerSynonym("log.retention.ms"),
        BrokerSynonym("log.retention.minutes", MINUTE_MS),
        BrokerSynonym("log.retention.hours", HOUR_MS),
    ),
    "segment.bytes": _same("log.segment.bytes"),
    "segment.index.bytes": _same("log.index.size.max.bytes"),
    "segment.jitter.ms": (
        BrokerSynonym("log.roll.jitter.ms"),
        BrokerSynonym("log.roll.jitter.hours", HOUR_MS),
    ),
    "segment.ms": (BrokerSynonym("log.roll.ms"), BrokerSynonym("log.roll.hours", HOUR_MS)),
    "unclean.leader.election.enable": _same("unclean.leader.election.enable"),
}
