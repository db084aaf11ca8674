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
    integer("num.partitions", 1, at_least(1)).means(
        "Partitions of a topic that is created without saying how many."
    ),
    integer("default.replication.factor", 1).means(
        "Replicas of a topic that is created without saying how many."
    ),
    boolean("auto.create.topics.enable", True, importance=HIGH).means(
        "Create a topic when a client that allows it first names it."
    ),
    boolean("delete.topic.enable", True, importance=HIGH).means(
        "Obey requests to delete topics; otherwise they are refused."
    ),
)

DIRECTORIES = (
    items("log.dirs", None, DISTINCT_SOME, HIGH).means(
        "The directories that hold the data, best one for each disk. A directory that fails goes offline "
        "alone. Without it, `log.dir`."
    ),
    # Kafka's default is /tmp/kafka-logs, which many systems empty at a restart; `BrokerSettings` fills in the directory
    # that belongs to the user's state.
    items("log.dir", None, DISTINCT_SOME, HIGH).means(
        "Used where `log.dirs` is not given; by default `penstock` in $XDG_STATE_HOME or in ~/.local/state."
    ),
    items("cordoned.log.dirs", (), DISTINCT, dynamic=PER_BROKER).not_yet(
        "Directories that get no new partitions, to be emptied; * for all."
    ),
    long("log.dir.failure.timeout.ms", 30 * SECOND_MS, at_least(1), LOW).means(
        "How long a broker tries to tell the controller of a failed directory before it stops itself."
    ),
    integer("num.recovery.threads.per.data.dir", 2, at_least(1), HIGH, CLUSTER_WIDE).means(
        "Threads for each directory that check the logs after an unclean stop."
    ),
    integer("num.replica.alter.log.dirs.threads", importance=HIGH).no_meaning(
        "Threads that move replicas between directories in Kafka; here the background threads do."
    ),
    long("log.initial.task.delay.ms", 30 * SECOND_MS, at_least(0), LOW, is_internal=True).means(
        "How long after the start the first round of retention, flushing and checkpoints runs."
    ),
)

SEGMENTS = (
    integer("log.segment.bytes", GIB, at_least(MIB), HIGH, CLUSTER_WIDE).means(
        "The size at which a segment is closed and the next one begun. Data is deleted by whole segments."
    ),
    long("log.roll.ms", None, importance=HIGH, dynamic=CLUSTER_WIDE).means(
        "The age at which a segment is closed, however small it is. Without it, `log.roll.hours`."
    ),
    integer("log.roll.hours", 168, at_least(1), HIGH).means("`log.roll.ms` in hours."),
    long("log.roll.jitter.ms", None, importance=HIGH, dynamic=CLUSTER_WIDE).means(
        "A segment is closed earlier by a random time up to this, so that not all logs roll at once. Without "
        "it, `log.roll.jitter.hours`."
    ),
    integer("log.roll.jitter.hours", 0, at_least(0), HIGH).means("`log.roll.jitter.ms` in hours."),
    integer("log.index.size.max.bytes", 10 * MIB, at_least(4), dynamic=CLUSTER_WIDE).means(
        "The size at which an index is full, which closes the segment."
    ),
    integer("log.index.interval.bytes", 4 * KIB, at_least(0), dynamic=CLUSTER_WIDE).means(
        "How many bytes of a log lie between two entries of its index: fewer for faster lookups, more for "
        "smaller indexes."
    ),
    boolean("log.preallocate", False, dynamic=CLUSTER_WIDE).means(
        "Give a new segment its full size on disk at once."
    ),
    long("log.segment.delete.delay.ms", MINUTE_MS, at_least(0), HIGH, CLUSTER_WIDE).means(
        "How long the files of a deleted segment or topic stay on disk, for those that still read them."
    ),
)

RETENTION = (
    items("log.cleanup.policy", ("delete",), CLEANUP_POLICIES, dynamic=CLUSTER_WIDE).means(
        "What becomes of old data: delete it by age and size, compact it to the last value of each key, or "
        "both. Empty keeps it for ever."
    ),
    long("log.retention.ms", None, importance=HIGH, dynamic=CLUSTER_WIDE).means(
        "How long data is kept; -1 for ever. Without it, `log.retention.minutes`, and then "
        "`log.retention.hours`."
    ),
    integer("log.retention.minutes", None, importance=HIGH).means("`log.retention.ms` in minutes."),
    integer("log.retention.hours", 168, importance=HIGH).means("`log.retention.ms` in hours."),
    long("log.retention.bytes", -1, importance=HIGH, dynamic=CLUSTER_WIDE).means(
        "How much of each partition is kept; -1 for all of it."
    ),
    long("log.retention.check.interval.ms", 5 * MINUTE_MS, at_least(1)).means(
        "How often the logs are looked through for data to delete."
    ),
)

FLUSHING = (
    long("log.flush.interval.messages", LONG_MAX, at_least(1), HIGH, CLUSTER_WIDE).means(
        "Sync a log to disk after so many records, and acknowledge them only then; 1 for each append. One "
        "sync serves all that wait for it."
    ),
    long("log.flush.interval.ms", None, importance=HIGH, dynamic=CLUSTER_WIDE).means(
        "Sync a log to disk when its oldest unsynced record is so old. Without it, "
        "`log.flush.scheduler.interval.ms`."
    ),
    long("log.flush.scheduler.interval.ms", LONG_MAX, importance=HIGH).means(
        "What `log.flush.interval.ms` is where that is not set. Each log has a timer of its own, so nothing is "
        "looked through."
    ),
    integer("log.flush.offset.checkpoint.interval.ms", MINUTE_MS, at_least(0), HIGH).means(
        "How often it is noted up to where logs are synced; after a crash they are checked from there."
    ),
    integer("log.flush.start.offset.checkpoint.interval.ms", MINUTE_MS, at_least(0), HIGH).means(
        "How often it is noted where logs begin, so that records deleted by request stay deleted after a "
        "crash."
    ),
)

RECORDS = (
    integer("message.max.bytes", MIB + 12, at_least(0), HIGH, CLUSTER_WIDE).means(
        "The largest batch of records that is taken, in the size it has when compressed."
    ),
    string("compression.type", "producer", COMPRESSION_TYPES, HIGH, CLUSTER_WIDE).means(
        "How batches are stored: as the producer sent them (producer), or compressed anew with the codec "
        "named here."
    ),
    integer("compression.gzip.level", -1, GZIP_LEVELS, dynamic=CLUSTER_WIDE).means(
        "How hard gzip tries, where `compression.type` is gzip."
    ),
    integer("compression.lz4.level", 9, LZ4_LEVELS, dynamic=CLUSTER_WIDE).means(
        "How hard lz4 tries, where `compression.type` is lz4."
    ),
    integer("compression.zstd.level", 3, ZSTD_LEVELS, dynamic=CLUSTER_WIDE).means(
        "How hard zstd tries, where `compression.type` is zstd."
    ),
    string("log.message.timestamp.type", "CreateTime", TIMESTAMP_TYPES, dynamic=CLUSTER_WIDE).means(
        "Whose time a record bears: the producer's (CreateTime) or the broker's at the append "
        "(LogAppendTime)."
    ),
    long("log.message.timestamp.before.max.ms", LONG_MAX, at_least(0), dynamic=CLUSTER_WIDE).means(
        "How far a producer's timestamp may lie in the past; a batch beyond it is refused."
    ),
    long("log.message.timestamp.after.max.ms", HOUR_MS, at_least(0), dynamic=CLUSTER_WIDE).means(
        "How far a producer's timestamp may lie in the future; a batch beyond it is refused."
    ),
)

COMPACTION = (
    boolean("log.cleaner.enable", True).not_yet("Compact the logs whose cleanup policy asks for it."),
    integer("log.cleaner.threads", 1, at_least(0), dynamic=CLUSTER_WIDE).not_yet(
        "How many logs are compacted at the same time."
    ),
    double("log.cleaner.io.max.bytes.per.second", sys.float_info.max, dynamic=CLUSTER_WIDE).not_yet(
        "How fast compaction may read and write, all threads together."
    ),
    long("log.cleaner.dedupe.buffer.size", 128 * MIB, dynamic=CLUSTER_WIDE).not_yet(
        "Memory for the keys that compaction has seen, all threads together; over 1 MiB for each thread."
    ),
    integer("log.cleaner.io.buffer.size", 512 * KIB, at_least(0), dynamic=CLUSTER_WIDE).no_meaning(
        "Memory for what Kafka's compaction reads and writes. Here it works on batches in place."
    ),
    double("log.cleaner.io.buffer.load.factor", 0.9, dynamic=CLUSTER_WIDE).no_meaning(
        "How full the table of keys of Kafka's compaction may become."
    ),
    long("log.cleaner.backoff.ms", 15 * SECOND_MS, at_least(0), dynamic=CLUSTER_WIDE).not_yet(
        "How long compaction rests when there is nothing to do."
    ),
    double("log.cleaner.min.cleanable.ratio", 0.5, between(0, 1), dynamic=CLUSTER_WIDE).not_yet(
        "Which share of a log must be new since it was last compacted before it is compacted again."
    ),
    long("log.cleaner.delete.retention.ms", DAY_MS, at_least(0), dynamic=CLUSTER_WIDE).not_yet(
        "How long a compacted log keeps the mark that a key was deleted, so that a slow reader sees it."
    ),
    long("log.cleaner.min.compaction.lag.ms", 0, at_least(0), dynamic=CLUSTER_WIDE).not_yet(
        "How long a record is safe from compaction."
    ),
    long("log.cleaner.max.compaction.lag.ms", LONG_MAX, at_least(1), dynamic=CLUSTER_WIDE).not_yet(
        "How long a record may wait for compaction at most."
    ),
)

SETTINGS = TOPICS + DIRECTORIES + SEGMENTS + RETENTION + FLUSHING + RECORDS + COMPACTION
