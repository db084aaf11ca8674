"""Replicas, transactions, and the producers that the broker remembers."""

from __future__ import annotations

from penstock.config.declare import (
    CLUSTER_WIDE,
    DAY_MS,
    HIGH,
    HOUR_MS,
    KIB,
    LOW,
    MIB,
    MINUTE_MS,
    SECOND_MS,
    at_least,
    boolean,
    integer,
    long,
    short,
    string,
)
from penstock.config.values import LONG_MAX

REPLICATION = (
    integer("min.insync.replicas", 1, at_least(1), HIGH, CLUSTER_WIDE).means(
        "How many replicas, the leader among them, must have a record before a producer with acks=all is "
        "answered; with fewer in sync its writes are refused."
    ),
    long("replica.lag.time.max.ms", 30 * SECOND_MS, importance=HIGH).not_yet(
        "How long a follower may be behind before it no longer counts as in sync."
    ),
    integer("replica.fetch.min.bytes", 1, importance=HIGH).not_yet(
        "How much a follower's fetch waits for, up to `replica.fetch.wait.max.ms`."
    ),
    integer("replica.fetch.wait.max.ms", 500, importance=HIGH).not_yet(
        "How long a follower's fetch waits for data. At most `replica.lag.time.max.ms`, or quiet partitions "
        "fall out of sync."
    ),
    integer("replica.fetch.max.bytes", MIB, at_least(0)).not_yet(
        "How much of one partition a follower's fetch brings; the first batch comes in any size."
    ),
    integer("replica.fetch.response.max.bytes", 10 * MIB, at_least(0)).not_yet(
        "How much a follower's fetch brings of all partitions; the first batch comes in any size."
    ),
    integer("replica.fetch.backoff.ms", SECOND_MS, at_least(0)).not_yet(
        "How long a follower rests a partition whose fetch failed."
    ),
    integer("num.replica.fetchers", 1, at_least(1), HIGH, CLUSTER_WIDE).not_yet(
        "How many connections a follower fetches over from each leader."
    ),
    integer("replica.socket.timeout.ms", 30 * SECOND_MS, importance=HIGH).not_yet(
        "How long a follower waits for the leader's answer. At least `replica.fetch.wait.max.ms`."
    ),
    integer("replica.socket.receive.buffer.bytes", 64 * KIB, importance=HIGH).not_yet(
        "The kernel's receive buffer of a follower's connection."
    ),
    long("replica.high.watermark.checkpoint.interval.ms", 5 * SECOND_MS, importance=HIGH).means(
        "How often it is noted on disk up to where the partitions are committed."
    ),
    string("replica.selector.class").not_yet(
        "How a consumer is sent to a replica other than the leader. Kafka's RackAwareReplicaSelector names "
        "the one by rack; other Java classes have no counterpart."
    ),
)

PRODUCERS = (
    integer("producer.id.expiration.ms", DAY_MS, at_least(1), LOW, CLUSTER_WIDE).means(
        "How long a partition remembers a silent producer, to know its duplicates."
    ),
    integer(
        "producer.id.expiration.check.interval.ms", 10 * MINUTE_MS, at_least(1), LOW, is_internal=True
    ).means("How often partitions look for producers to forget."),
)

TRANSACTIONS = (
    integer("transactional.id.expiration.ms", 7 * DAY_MS, at_least(1), HIGH).means(
        "How long a transactional id is remembered after its last sign of life."
    ),
    integer("transaction.max.timeout.ms", 15 * MINUTE_MS, at_least(1), HIGH).means(
        "The longest timeout a producer may ask for; an open transaction holds up the readers of its topics."
    ),
    integer(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", 10 * SECOND_MS, at_least(1), LOW
    ).no_meaning(
        "How often transactions that took too long are looked for; each is rolled back in its own time."
    ),
    integer("transaction.remove.expired.transaction.cleanup.interval.ms", HOUR_MS, at_least(1), LOW).means(
        "How often expired transactional ids are looked for and forgotten."
    ),
    boolean("transaction.partition.verification.enable", True, importance=LOW, dynamic=CLUSTER_WIDE).means(
        "Ask the transaction's coordinator, before the first write to a partition, whether the partition "
        "belongs to it."
    ),
    boolean("transaction.two.phase.commit.enable", False, importance=LOW).means(
        "Let a coordinator outside of the cluster decide over transactions (KIP-939); such ones do not time "
        "out."
    ),
    integer("add.partitions.to.txn.retry.backoff.ms", 20, at_least(1), HIGH).means(
        "The pause before the broker tries again to add a partition to a transaction (KIP-890)."
    ),
    integer("add.partitions.to.txn.retry.backoff.max.ms", 100, at_least(0), HIGH).means(
        "How long the broker tries to add a partition to a transaction before the producer is told to."
    ),
    integer("transaction.state.log.num.partitions", 50, at_least(1), HIGH).means(
        "Partitions of the topic of transactions. Not to be changed once the topic exists."
    ),
    short("transaction.state.log.replication.factor", 3, at_least(1), HIGH).means(
        "Replicas of the topic of transactions. It is not created before there are so many brokers."
    ),
    integer("transaction.state.log.min.isr", 2, at_least(1), HIGH).means(
        "The `min.insync.replicas` of the topic of transactions."
    ),
    integer("transaction.state.log.segment.bytes", 100 * MIB, at_least(1), HIGH).means(
        "The segment size of the topic of transactions; small ones are compacted and loaded sooner."
    ),
    integer("transaction.state.log.load.buffer.size", 5 * MIB, at_least(1), HIGH).means(
        "How much is read at a time when a new coordinator loads its transactions."
    ),
)

THROTTLES = (
    # These three are no part of Kafka's server.properties: they are set at run time alone.
    long("leader.replication.throttled.rate", LONG_MAX, at_least(0), dynamic=CLUSTER_WIDE).not_yet(
        "Bytes a second that a leader sends to the replicas in the topics' "
        "`leader.replication.throttled.replicas`."
    ),
    long("follower.replication.throttled.rate", LONG_MAX, at_least(0), dynamic=CLUSTER_WIDE).not_yet(
        "Bytes a second that a follower takes for the replicas in the topics' "
        "`follower.replication.throttled.replicas`."
    ),
    long("replica.alter.log.dirs.io.max.bytes.per.second", LONG_MAX, at_least(0), dynamic=CLUSTER_WIDE).means(
        "Bytes a second that are copied when replicas move between directories of one broker."
    ),
)

SETTINGS = REPLICATION + PRODUCERS + TRANSACTIONS
DYNAMIC_ONLY = THROTTLES
