"""Who a node is, its place in the quorum, and the metadata log."""

from __future__ import annotations

from penstock.config.declare import (
    CLUSTER_WIDE,
    DAY_MS,
    DISTINCT_SOME,
    GIB,
    HIGH,
    HOUR_MS,
    LOW,
    MIB,
    MINUTE_MS,
    SECOND_MS,
    Rule,
    at_least,
    boolean,
    integer,
    items,
    long,
    some_of,
    string,
)
from penstock.config.listeners import is_host_and_port, is_voter
from penstock.config.values import LONG_MAX

VOTERS = Rule(lambda voters: all(map(is_voter, voters)), "each of the form id@host:port")
ENDPOINTS = Rule(lambda endpoints: all(map(is_host_and_port, endpoints)), "each of the form host:port")

IDENTITY = (
    # Kafka has no default and refuses to start; a first node of its own cluster needs no question.
    integer("node.id", 1, at_least(0), HIGH).means(
        "The number of this node, unique in its cluster. `broker.id` is another name for it."
    ),
    # -1 in Kafka, which then takes node.id; the two are one from the start here.
    integer("broker.id", 1, importance=HIGH).means(
        "The older name of `node.id`; where both are given they must agree."
    ),
    items("process.roles", ("broker", "controller"), some_of("broker", "controller"), HIGH).means(
        "What the node does: serve clients (broker), keep the metadata (controller), or both."
    ),
    string("broker.rack").means(
        "Where the broker stands, such as a rack or a zone. Clients are told, and the replicas of a partition are "
        "spread over racks."
    ),
    boolean("controlled.shutdown.enable", True).not_yet(
        "Hand the leadership of partitions to other brokers before stopping."
    ),
    integer("broker.heartbeat.interval.ms", 2 * SECOND_MS).not_yet(
        "How often a broker tells the controller that it is alive; at most half of the session timeout."
    ),
    integer("broker.session.timeout.ms", 9 * SECOND_MS).not_yet(
        "How long the controller waits for a heartbeat before it counts a broker as dead."
    ),
    integer("initial.broker.registration.timeout.ms", MINUTE_MS).not_yet(
        "How long a starting broker tries to register with the controller before it gives up."
    ),
    integer("controller.socket.timeout.ms", 30 * SECOND_MS).not_yet(
        "How long a broker waits for the controller's answer."
    ),
    long("server.max.startup.time.ms", LONG_MAX, at_least(0), is_internal=True).no_meaning(
        "A limit on the time to start, for Kafka's own tests."
    ),
    boolean("unstable.api.versions.enable", False, importance=HIGH, is_internal=True).no_meaning(
        "Serve protocol versions that are still being designed. Penstock serves the released ones."
    ),
    boolean("unstable.feature.versions.enable", False, importance=HIGH, is_internal=True).no_meaning(
        "Allow feature levels that are still being designed."
    ),
)

QUORUM = (
    # Required by Kafka; here a node with both roles serves its own controller in process and needs no listener for it.
    items("controller.listener.names", (), DISTINCT_SOME, HIGH).means(
        "The listeners of which the controllers serve; a broker's clients are not served there. A node that "
        "is broker and controller at once works without one."
    ),
    items("controller.quorum.voters", (), VOTERS, HIGH).not_yet(
        "The controllers of a fixed quorum, as id@host:port. Newer clusters name "
        "`controller.quorum.bootstrap.servers`."
    ),
    items("controller.quorum.bootstrap.servers", (), ENDPOINTS, HIGH).not_yet(
        "Controllers, as host:port, of which a node asks who leads the metadata quorum."
    ),
    boolean("controller.quorum.auto.join.enable", False, importance=LOW).not_yet(
        "Let a new controller add itself to the voters."
    ),
    integer("controller.quorum.election.timeout.ms", SECOND_MS, at_least(0), HIGH).not_yet(
        "How long an election may take without a winner before the next one starts."
    ),
    integer("controller.quorum.election.backoff.max.ms", SECOND_MS, at_least(0), HIGH).not_yet(
        "The longest pause between elections that nobody wins."
    ),
    integer("controller.quorum.fetch.timeout.ms", 2 * SECOND_MS, at_least(0), HIGH).not_yet(
        "How long a voter hears nothing from the leader before it stands for election, and a leader nothing "
        "from the majority before it resigns."
    ),
    integer("controller.quorum.append.linger.ms", 25, at_least(0)).not_yet(
        "How long the quorum's leader gathers records before it writes them together."
    ),
    integer("controller.quorum.request.timeout.ms", 2 * SECOND_MS, at_least(0)).not_yet(
        "How long a request between controllers waits for its answer."
    ),
    integer("controller.quorum.retry.backoff.ms", 20, at_least(0), LOW).not_yet(
        "The first pause before a failed request between controllers is tried again; it doubles from there."
    ),
    integer("controller.quorum.fetch.max.bytes", MIB, at_least(1), LOW).not_yet(
        "How much of the metadata log one fetch brings; one batch always comes, whatever its size."
    ),
    integer("controller.quorum.fetch.snapshot.max.bytes", MIB, at_least(1), LOW).not_yet(
        "How much of a metadata snapshot one request brings."
    ),
    long("controller.performance.sample.period.ms", MINUTE_MS, at_least(100), is_internal=True).no_meaning(
        "How often Kafka's controller writes the timing of its events to its log."
    ),
    long(
        "controller.performance.always.log.threshold.ms", 2 * SECOND_MS, at_least(0), is_internal=True
    ).no_meaning("How slow an event of Kafka's controller has to be to be logged on its own."),
)

METADATA_LOG = (
    string("metadata.log.dir", importance=HIGH).means(
        "The directory of the metadata log; without it, the first of `log.dirs`."
    ),
    integer("metadata.log.segment.bytes", GIB, at_least(8 * MIB), HIGH).means(
        "The size at which a segment of the metadata log is closed."
    ),
    long("metadata.log.segment.ms", 7 * DAY_MS, importance=HIGH).means(
        "The age at which a segment of the metadata log is closed."
    ),
    long("metadata.log.max.record.bytes.between.snapshots", 20 * MIB, at_least(1), HIGH).not_yet(
        "How much is written to the metadata log before the next snapshot of it."
    ),
    long("metadata.log.max.snapshot.interval.ms", HOUR_MS, at_least(0), HIGH).not_yet(
        "How long committed metadata may go without a snapshot; 0 for snapshots by size alone."
    ),
    long("metadata.max.retention.bytes", 100 * MIB, importance=HIGH).not_yet(
        "How large metadata log and snapshots may grow together before the oldest are deleted; the newest "
        "snapshot stays."
    ),
    long("metadata.max.retention.ms", 7 * DAY_MS, importance=HIGH).not_yet(
        "How old metadata segments and snapshots may grow before they are deleted; the newest snapshot stays."
    ),
    integer("metadata.max.idle.interval.ms", 500, at_least(0), LOW).not_yet(
        "How often the active controller writes a record that says nothing, to show that the quorum commits; "
        "0 for never."
    ),
    integer("internal.metadata.log.segment.bytes", importance=LOW, is_internal=True).no_meaning(
        "A smaller segment of the metadata log, for Kafka's own tests."
    ),
    integer(
        "internal.metadata.max.batch.size.in.bytes", 8 * MIB, importance=LOW, is_internal=True
    ).no_meaning("The largest batch of the metadata log, for Kafka's own tests."),
    long("internal.metadata.delete.delay.millis", MINUTE_MS, importance=LOW, is_internal=True).no_meaning(
        "How long a deleted file of the metadata log stays, for Kafka's own tests."
    ),
)

LEADERSHIP = (
    boolean("auto.leader.rebalance.enable", True, importance=HIGH).not_yet(
        "Let the controller give partitions back to the replica that is named first, where the leaders have "
        "drifted."
    ),
    long("leader.imbalance.check.interval.seconds", 300, at_least(1), HIGH).not_yet(
        "How often the controller looks whether leaders have drifted."
    ),
    boolean("unclean.leader.election.enable", False, importance=HIGH, dynamic=CLUSTER_WIDE).not_yet(
        "Let a replica that is behind lead when no other is left. The partition serves again; what the "
        "replica had not yet copied is lost."
    ),
    long("unclean.leader.election.interval.ms", 5 * MINUTE_MS, at_least(1), is_internal=True).not_yet(
        "How often the controller looks for partitions that only an unclean election can bring back."
    ),
)

SETTINGS = IDENTITY + QUORUM + METADATA_LOG + LEADERSHIP
