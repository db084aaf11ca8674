"""Replication, transactions, and producer state."""

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
        "How many replicas, including the leader, must have a record before a producer with acks=all gets "
        "its response. If fewer are in sync, such writes fail."
    ),
    long("replica.lag.time.max.ms", 30 * SECOND_MS, importance=HIGH).means(
        "A follower that is behind for longer than this is removed from the in-sync replicas."
    ),
    integer("replica.fetch.min.bytes", 1, importance=HIGH).means(
        "The number of bytes that a follower's fetch waits for, up to `replica.fetch.wait.max.ms`."
    ),
    integer("replica.fetch.wait.max.ms", 500, importance=HIGH).means(
        "How long a follower's fetch waits for data. Keep it below `replica.lag.time.max.ms`, or idle "
        "partitions lose their in-sync replicas."
    ),
    integer("replica.fetch.max.bytes", MIB, at_least(0)).means(
        "The maximum bytes per partition in a follower's fetch. The first batch is returned even if it is "
        "larger."
    ),
    integer("replica.fetch.response.max.bytes", 10 * MIB, at_least(0)).means(
        "The maximum size of a whole fetch response to a follower. The first batch is returned even if it "
        "is larger."
    ),
    integer("replica.fetch.backoff.ms", SECOND_MS, at_least(0)).means(
        "How long a follower waits before it fetches a partition again after an error."
    ),
    integer("num.replica.fetchers", 1, at_least(1), HIGH, CLUSTER_WIDE).means(
        "The number of connections over which a follower fetches from each leader."
    ),
    integer("replica.socket.timeout.ms", 30 * SECOND_MS, importance=HIGH).means(
        "How long a follower waits for a response of the leader. At least `replica.fetch.wait.max.ms`."
    ),
    integer("replica.socket.receive.buffer.bytes", 64 * KIB, importance=HIGH).ignored(
        "The receive buffer of a follower's socket (SO_RCVBUF). The operating system chooses it."
    ),
    long("replica.high.watermark.checkpoint.interval.ms", 5 * SECOND_MS, importance=HIGH).means(
        "How often the high watermarks of partitions are written to disk."
    ),
    string("replica.selector.class").means(
        "How the broker selects the replica that a consumer reads from. Kafka's RackAwareReplicaSelector "
        "selects by rack; other Java classes are not supported."
    ),
)

PRODUCERS = (
    integer("producer.id.expiration.ms", DAY_MS, at_least(1), LOW, CLUSTER_WIDE).means(
        "How long a partition keeps the state of an inactive producer, which it needs to detect duplicates."
    ),
    integer(
        "producer.id.expiration.check.interval.ms", 10 * MINUTE_MS, at_least(1), LOW, is_internal=True
    ).means("How often partitions look for expired producers."),
)

TRANSACTIONS = (
    integer("transactional.id.expiration.ms", 7 * DAY_MS, at_least(1), HIGH).means(
        "How long a transactional id is kept after its last use."
    ),
    integer("transaction.max.timeout.ms", 15 * MINUTE_MS, at_least(1), HIGH).means(
        "The maximum transaction timeout that a producer may ask for. Open transactions block consumers "
        "that read committed records."
    ),
    integer(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", 10 * SECOND_MS, at_least(1), LOW
    ).ignored(
        "How often Kafka looks for transactions that timed out. Here each transaction has its own timer."
    ),
    integer("transaction.remove.expired.transaction.cleanup.interval.ms", HOUR_MS, at_least(1), LOW).means(
        "How often the coordinator looks for expired transactional ids."
    ),
    boolean("transaction.partition.verification.enable", True, importance=LOW, dynamic=CLUSTER_WIDE).means(
        "Before the first write to a partition, verify with the transaction coordinator that the partition "
        "was added to the transaction."
    ),
    boolean("transaction.two.phase.commit.enable", False, importance=LOW).means(
        "Allow transactions that an external coordinator ends (two-phase commit, KIP-939). They do not "
        "time out."
    ),
    integer("add.partitions.to.txn.retry.backoff.ms", 20, at_least(1), HIGH).means(
        "The wait before the broker retries to add a partition to a transaction (KIP-890)."
    ),
    integer("add.partitions.to.txn.retry.backoff.max.ms", 100, at_least(0), HIGH).means(
        "How long the broker retries to add a partition to a transaction before it leaves the retry to the "
        "producer."
    ),
    integer("transaction.state.log.num.partitions", 50, at_least(1), HIGH).means(
        "The number of partitions of `__transaction_state`. Do not change it after the topic was created."
    ),
    short("transaction.state.log.replication.factor", 3, at_least(1), HIGH).means(
        "The replication factor of `__transaction_state`. The topic is created only when that many brokers "
        "are available. If not set, the number of available brokers is used, up to the default."
    ),
    integer("transaction.state.log.min.isr", 2, at_least(1), HIGH).means(
        "The `min.insync.replicas` of `__transaction_state`."
    ),
    integer("transaction.state.log.segment.bytes", 100 * MIB, at_least(1), HIGH).means(
        "The segment size of `__transaction_state`. Small segments are compacted and loaded faster."
    ),
    integer("transaction.state.log.load.buffer.size", 5 * MIB, at_least(1), HIGH).means(
        "The read size when a new coordinator loads its transactions."
    ),
)

THROTTLES = (
    # These three are only dynamic in Kafka; server.properties cannot contain them.
    long("leader.replication.throttled.rate", LONG_MAX, at_least(0), dynamic=CLUSTER_WIDE).means(
        "Bytes per second that a leader sends to the replicas in `leader.replication.throttled.replicas` "
        "of its topics."
    ),
    long("follower.replication.throttled.rate", LONG_MAX, at_least(0), dynamic=CLUSTER_WIDE).means(
        "Bytes per second that a follower fetches for the replicas in "
        "`follower.replication.throttled.replicas` of its topics."
    ),
    long("replica.alter.log.dirs.io.max.bytes.per.second", LONG_MAX, at_least(0), dynamic=CLUSTER_WIDE).means(
        "Bytes per second for moving replicas between log directories of this broker."
    ),
)

SETTINGS = REPLICATION + PRODUCERS + TRANSACTIONS
DYNAMIC_ONLY = THROTTLES
