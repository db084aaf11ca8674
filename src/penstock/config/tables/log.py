"""Logs on disk: directories, segments, retention, flushing, compression, compaction, and new topics."""

from __future__ import annotations

import sys

from penstock.config.declare import (
    CLUSTER_WIDE,
    DAY_MS,
    DISTINCT,
    DISTINCT_SOME,
    GIB,
    HIGH,
    HOUR_MS,
    KIB,
    LOW,
    MIB,
    MINUTE_MS,
    PER_BROKER,
    SECOND_MS,
    Rule,
    at_least,
    between,
    boolean,
    double,
    integer,
    items,
    long,
    one_of,
    some_of,
    string,
)
from penstock.config.values import LONG_MAX

COMPRESSION_TYPES = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
GZIP_LEVELS = Rule(
    lambda level: level == -1 or 1 <= level <= 9, "from 1 to 9, or -1 for the codec's own choice"
)
LZ4_LEVELS = between(1, 17)
ZSTD_LEVELS = between(-131072, 22)
CLEANUP_POLICIES = some_of("compact", "delete", may_be_empty=True)
TIMESTAMP_TYPES = one_of("CreateTime", "LogAppendTime")

TOPICS = (
    integer("num.partitions", 1, at_least(1)).means("The default number of partitions of a new topic."),
    integer("default.replication.factor", 1).means("The default replication factor of a new topic."),
    boolean("auto.create.topics.enable", True, importance=HIGH).means(
        "Create a missing topic when a client asks for its metadata, if the client allows it."
    ),
    boolean("delete.topic.enable", True, importance=HIGH).means(
        "Allow clients to delete topics. If false, DeleteTopics requests are rejected."
    ),
)

DIRECTORIES = (
    items("log.dirs", None, DISTINCT_SOME, HIGH).means(
        "The directories for the logs of partitions, ideally one per disk. If one fails, only that "
        "directory goes offline. If not set, `log.dir` is used."
    ),
    # Kafka's default is /tmp/kafka-logs, which many systems delete at a restart. `BrokerSettings` uses the state
    # directory of the user instead.
    items("log.dir", None, DISTINCT_SOME, HIGH).means(
        "The log directory if `log.dirs` is not set. By default `penstock` in $XDG_STATE_HOME or in "
        "~/.local/state."
    ),
    items("cordoned.log.dirs", (), DISTINCT, dynamic=PER_BROKER).not_yet(
        "Log directories that get no new partitions. * means all of them."
    ),
    long("log.dir.failure.timeout.ms", 30 * SECOND_MS, at_least(1), LOW).means(
        "How long a broker tries to report a failed log directory to the controller before it shuts down."
    ),
    integer("num.recovery.threads.per.data.dir", 2, at_least(1), HIGH, CLUSTER_WIDE).means(
        "Threads per log directory that recover logs after an unclean shutdown."
    ),
    integer("num.replica.alter.log.dirs.threads", importance=HIGH).ignored(
        "Kafka's threads that move replicas between log directories. Here the background threads do it."
    ),
    long("log.initial.task.delay.ms", 30 * SECOND_MS, at_least(0), LOW, is_internal=True).means(
        "The delay between startup and the first run of retention, flushing and checkpoints."
    ),
)

SEGMENTS = (
    integer("log.segment.bytes", GIB, at_least(MIB), HIGH, CLUSTER_WIDE).means(
        "The size at which a log rolls to a new segment. Retention deletes whole segments."
    ),
    long("log.roll.ms", None, importance=HIGH, dynamic=CLUSTER_WIDE).means(
        "The age at which a log rolls to a new segment, even if the segment is not full. If not set, "
        "`log.roll.hours` is used."
    ),
    integer("log.roll.hours", 168, at_least(1), HIGH).means("The same as `log.roll.ms`, in hours."),
    long("log.roll.jitter.ms", None, importance=HIGH, dynamic=CLUSTER_WIDE).means(
        "The maximum random time by which a segment rolls earlier, so that not all logs roll at once. If "
        "not set, `log.roll.jitter.hours` is used."
    ),
    integer("log.roll.jitter.hours", 0, at_least(0), HIGH).means(
        "The same as `log.roll.jitter.ms`, in hours."
    ),
    integer("log.index.size.max.bytes", 10 * MIB, at_least(4), dynamic=CLUSTER_WIDE).means(
        "The maximum size of an offset or time index. The segment rolls when its index is full."
    ),
    integer("log.index.interval.bytes", 4 * KIB, at_least(0), dynamic=CLUSTER_WIDE).means(
        "The number of log bytes between two index entries. Smaller makes lookups faster, larger makes "
        "indexes smaller."
    ),
    boolean("log.preallocate", False, dynamic=CLUSTER_WIDE).means(
        "Allocate the full size of a new segment on disk when it is created."
    ),
    long("log.segment.delete.delay.ms", MINUTE_MS, at_least(0), HIGH, CLUSTER_WIDE).means(
        "How long the files of a deleted segment or topic stay on disk, for readers that still use them."
    ),
)

RETENTION = (
    items("log.cleanup.policy", ("delete",), CLEANUP_POLICIES, dynamic=CLUSTER_WIDE).means(
        "How old data is removed: delete (by age and size), compact (keep the last value of each key), or "
        "both. Empty keeps everything."
    ),
    long("log.retention.ms", None, importance=HIGH, dynamic=CLUSTER_WIDE).means(
        "How long data is kept. -1 means forever. If not set, `log.retention.minutes` is used, then "
        "`log.retention.hours`."
    ),
    integer("log.retention.minutes", None, importance=HIGH).means(
        "The same as `log.retention.ms`, in minutes."
    ),
    integer("log.retention.hours", 168, importance=HIGH).means("The same as `log.retention.ms`, in hours."),
    long("log.retention.bytes", -1, importance=HIGH, dynamic=CLUSTER_WIDE).means(
        "The maximum size of each partition; older segments are deleted. -1 means no limit."
    ),
    long("log.retention.check.interval.ms", 5 * MINUTE_MS, at_least(1)).means(
        "How often the broker looks for segments to delete."
    ),
)

FLUSHING = (
    long("log.flush.interval.messages", LONG_MAX, at_least(1), HIGH, CLUSTER_WIDE).means(
        "Sync a log to disk after this many records, and acknowledge them only then. 1 syncs every append. "
        "One sync acknowledges all appends that wait for it."
    ),
    long("log.flush.interval.ms", None, importance=HIGH, dynamic=CLUSTER_WIDE).means(
        "Sync a log to disk when its oldest unsynced record has this age. If not set, "
        "`log.flush.scheduler.interval.ms` is used."
    ),
    long("log.flush.scheduler.interval.ms", LONG_MAX, importance=HIGH).means(
        "The value of `log.flush.interval.ms` if that is not set. Each log has its own timer, so there is "
        "no periodic scan."
    ),
    integer("log.flush.offset.checkpoint.interval.ms", MINUTE_MS, at_least(0), HIGH).means(
        "How often the recovery points of logs are written to disk. After a crash, logs are checked from "
        "there."
    ),
    integer("log.flush.start.offset.checkpoint.interval.ms", MINUTE_MS, at_least(0), HIGH).means(
        "How often the start offsets of logs are written to disk, so that deleted records stay deleted "
        "after a crash."
    ),
)

RECORDS = (
    integer("message.max.bytes", MIB + 12, at_least(0), HIGH, CLUSTER_WIDE).means(
        "The maximum size of a record batch, after compression."
    ),
    string("compression.type", "producer", COMPRESSION_TYPES, HIGH, CLUSTER_WIDE).means(
        "How batches are stored: as the producer compressed them (producer), or recompressed with this codec."
    ),
    integer("compression.gzip.level", -1, GZIP_LEVELS, dynamic=CLUSTER_WIDE).means(
        "The gzip compression level, if `compression.type` is gzip."
    ),
    integer("compression.lz4.level", 9, LZ4_LEVELS, dynamic=CLUSTER_WIDE).means(
        "The lz4 compression level, if `compression.type` is lz4."
    ),
    integer("compression.zstd.level", 3, ZSTD_LEVELS, dynamic=CLUSTER_WIDE).means(
        "The zstd compression level, if `compression.type` is zstd."
    ),
    string("log.message.timestamp.type", "CreateTime", TIMESTAMP_TYPES, dynamic=CLUSTER_WIDE).means(
        "The timestamp of records: the producer's (CreateTime), or the broker's time of the append "
        "(LogAppendTime)."
    ),
    long("log.message.timestamp.before.max.ms", LONG_MAX, at_least(0), dynamic=CLUSTER_WIDE).means(
        "How far in the past a producer's timestamp may be. A batch with an older one is rejected."
    ),
    long("log.message.timestamp.after.max.ms", HOUR_MS, at_least(0), dynamic=CLUSTER_WIDE).means(
        "How far in the future a producer's timestamp may be. A batch with a later one is rejected."
    ),
)

COMPACTION = (
    boolean("log.cleaner.enable", True).means("Compact the logs whose cleanup policy includes compact."),
    integer("log.cleaner.threads", 1, at_least(0), dynamic=CLUSTER_WIDE).means(
        "The number of logs that are compacted at the same time, at most 8."
    ),
    double("log.cleaner.io.max.bytes.per.second", sys.float_info.max, dynamic=CLUSTER_WIDE).means(
        "The maximum rate at which all cleaner threads together read and write."
    ),
    long("log.cleaner.dedupe.buffer.size", 128 * MIB, dynamic=CLUSTER_WIDE).means(
        "Memory for the key tables of all cleaner threads together. Over 1 MiB for each thread."
    ),
    integer("log.cleaner.io.buffer.size", 512 * KIB, at_least(0), dynamic=CLUSTER_WIDE).ignored(
        "The I/O buffers of Kafka's log cleaner. Here compaction works on batches in place."
    ),
    double("log.cleaner.io.buffer.load.factor", 0.9, dynamic=CLUSTER_WIDE).ignored(
        "How full the key table of Kafka's log cleaner may become."
    ),
    long("log.cleaner.backoff.ms", 15 * SECOND_MS, at_least(0), dynamic=CLUSTER_WIDE).means(
        "How long the log cleaner sleeps when no log needs compaction."
    ),
    double("log.cleaner.min.cleanable.ratio", 0.5, between(0, 1), dynamic=CLUSTER_WIDE).means(
        "The share of a log that must be dirty (new since the last compaction) before it is compacted again."
    ),
    long("log.cleaner.delete.retention.ms", DAY_MS, at_least(0), dynamic=CLUSTER_WIDE).means(
        "How long a compacted log keeps tombstones, so that slow consumers see them."
    ),
    long("log.cleaner.min.compaction.lag.ms", 0, at_least(0), dynamic=CLUSTER_WIDE).means(
        "The minimum age of a record before it can be compacted."
    ),
    long("log.cleaner.max.compaction.lag.ms", LONG_MAX, at_least(1), dynamic=CLUSTER_WIDE).means(
        "The maximum age of a record before its log must be compacted."
    ),
)

SETTINGS = TOPICS + DIRECTORIES + SEGMENTS + RETENTION + FLUSHING + RECORDS + COMPACTION
