"""What can be said of one topic, and which of the broker's settings speaks where the topic is silent."""

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
        "What becomes of old data: delete it by age and size, compact it to the last value of each key, or "
        "both. Empty keeps it for ever."
    ),
    long("retention.ms", 7 * DAY_MS, at_least(-1)).means(
        "How long data is kept, where it is deleted; -1 for ever."
    ),
    long("retention.bytes", -1).means(
        "How much of each partition is kept, where data is deleted; -1 for all of it. A topic takes this "
        "times its partitions."
    ),
    long("file.delete.delay.ms", MINUTE_MS, at_least(0)).means(
        "How long the files of a deleted segment stay on disk, for those that still read them."
    ),
)

SEGMENTS = (
    integer("segment.bytes", GIB, at_least(MIB)).means(
        "The size at which a segment is closed and the next one begun. Data is deleted and compacted by "
        "whole segments."
    ),
    long("segment.ms", 7 * DAY_MS, at_least(1)).means(
        "The age at which a segment is closed, however small it is, so that its data can be deleted or "
        "compacted."
    ),
    long("segment.jitter.ms", 0, at_least(0)).means(
        "A segment is closed earlier by a random time up to this, so that not all logs roll at once."
    ),
    integer("segment.index.bytes", 10 * MIB, at_least(4)).means(
        "The size at which an index is full, which closes the segment."
    ),
    integer("index.interval.bytes", 4 * KIB, at_least(0)).means(
        "How many bytes of a log lie between two entries of its index: fewer for faster lookups, more for "
        "smaller indexes."
    ),
    boolean("preallocate", False).means("Give a new segment its full size on disk at once."),
    integer("internal.segment.bytes", is_internal=True).no_meaning(
        "A segment of any size, for Kafka's own tests."
    ),
)

DURABILITY = (
    long("flush.messages", LONG_MAX, at_least(1)).means(
        "Sync the log to disk after so many records, and acknowledge them only then; 1 for each append. One "
        "sync serves all that wait for it. Replicas protect against the loss of a machine at less cost."
    ),
    long("flush.ms", LONG_MAX, at_least(0)).means(
        "Sync the log to disk when its oldest unsynced record is so old; looked at every "
        "`log.flush.scheduler.interval.ms`."
    ),
    integer("min.insync.replicas", 1, at_least(1)).means(
        "How many replicas, the leader among them, must have a record before a producer with acks=all is "
        "answered; with fewer in sync its writes are refused."
    ),
    boolean("unclean.leader.election.enable", False).not_yet(
        "Let a replica that is behind lead when no other is left. The partition serves again; what the "
        "replica had not yet copied is lost."
    ),
)

RECORDS = (
    integer("max.message.bytes", MIB + 12, at_least(0)).means(
        "The largest batch of records that is taken, in the size it has when compressed."
    ),
    string("compression.type", "producer", COMPRESSION_TYPES).means(
        "How batches are stored: as the producer sent them (producer), or compressed anew with the codec "
        "named here."
    ),
    integer("compression.gzip.level", -1, GZIP_LEVELS).means(
        "How hard gzip tries, where `compression.type` is gzip."
    ),
    integer("compression.lz4.level", 9, LZ4_LEVELS).means(
        "How hard lz4 tries, where `compression.type` is lz4."
    ),
    integer("compression.zstd.level", 3, ZSTD_LEVELS).means(
        "How hard zstd tries, where `compression.type` is zstd."
    ),
    string("message.timestamp.type", "CreateTime", TIMESTAMP_TYPES).means(
        "Whose time a record bears: the producer's (CreateTime) or the broker's at the append "
        "(LogAppendTime)."
    ),
    long("message.timestamp.before.max.ms", LONG_MAX, at_least(0)).means(
        "How far a producer's timestamp may lie in the past; a batch beyond it is refused. Not for "
        "LogAppendTime."
    ),
    long("message.timestamp.after.max.ms", HOUR_MS, at_least(0)).means(
        "How far a producer's timestamp may lie in the future; a batch beyond it is refused. Not for "
        "LogAppendTime."
    ),
)

COMPACTION = (
    double("min.cleanable.dirty.ratio", 0.5, between(0, 1)).not_yet(
        "Which share of the log must be new since it was last compacted before it is compacted again."
    ),
    long("min.compaction.lag.ms", 0, at_least(0)).not_yet("How long a record is safe from compaction."),
    long("max.compaction.lag.ms", LONG_MAX, at_least(1)).not_yet(
        "How long a record may wait for compaction at most. Not less than `min.compaction.lag.ms`."
    ),
    long("delete.retention.ms", DAY_MS, at_least(0)).not_yet(
        "How long a compacted log keeps the mark that a key was deleted; a reader that takes longer from the "
        "start may miss it."
    ),
)

REPLICATION = (
    items("leader.replication.throttled.replicas", (), THROTTLED_REPLICAS).not_yet(
        "The replicas whose copying is throttled at the leader, as partition:broker; * for all."
    ),
    items("follower.replication.throttled.replicas", (), THROTTLED_REPLICAS).not_yet(
        "The replicas whose copying is throttled at the follower, as partition:broker; * for all."
    ),
)

TIERING = (
    boolean("remote.storage.enable", False).not_yet(
        "Keep older segments in a remote store. To turn it off again, `remote.log.delete.on.disable` must be "
        "true."
    ),
    boolean("remote.log.copy.disable", False).not_yet(
        "Copy no more segments to the remote store; what is there stays readable until it expires."
    ),
    boolean("remote.log.delete.on.disable", False).not_yet(
        "Delete what is in the remote store when `remote.storage.enable` is turned off."
    ),
    long("local.retention.ms", -2, at_least(-2)).not_yet(
        "How long segments that are in the remote store also stay here; -2 for as long as `retention.ms` "
        "says."
    ),
    long("local.retention.bytes", -2, at_least(-2)).not_yet(
        "How much that is in the remote store also stays here; -2 for as much as `retention.bytes` says."
    ),
)

SETTINGS = RETENTION + SEGMENTS + DURABILITY + RECORDS + COMPACTION + REPLICATION + TIERING


class BrokerSynonym(NamedTuple):
    """A setting of the broker that stands in for one of a topic."""

    name: str
    factor: int = 1
    """What its value is multiplied with: minutes and hours become milliseconds."""


def _same(name: str) -> tuple[BrokerSynonym, ...]:
    return (BrokerSynonym(name),)


# In order of precedence: the first that is set speaks. A topic's setting that is not listed has no counterpart at
# the broker.
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
