"""The identity and roles of a node, the quorum, and the metadata log."""

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
    # Kafka has no default and does not start without it. The first node of a cluster does not need to be asked.
    integer("node.id", 1, at_least(0), HIGH).means(
        "The id of this node, unique in its cluster. `broker.id` is another name for it."
    ),
    # -1 in Kafka, which then uses node.id.
    integer("broker.id", 1, importance=HIGH).means(
        "The older name of `node.id`. If both are set, they must be equal."
    ),
    items("process.roles", ("broker", "controller"), some_of("broker", "controller"), HIGH).means(
        "The roles of the node: broker (serve clients), controller (manage the metadata), or both."
    ),
    string("broker.rack").means(
        "The rack or availability zone of the broker. Clients see it, and the replicas of a partition are "
        "spread over racks."
    ),
    boolean("controlled.shutdown.enable", True).means(
        "Move the leadership of partitions to other brokers before stopping."
    ),
    integer("broker.heartbeat.interval.ms", 2 * SECOND_MS).means(
        "How often a broker sends a heartbeat to the controller. At most half of `broker.session.timeout.ms`."
    ),
    integer("broker.session.timeout.ms", 9 * SECOND_MS).means(
        "The controller fences a broker after this time without a heartbeat."
    ),
    integer("initial.broker.registration.timeout.ms", MINUTE_MS).means(
        "How long a starting broker tries to register with the controller before it exits."
    ),
    integer("controller.socket.timeout.ms", 30 * SECOND_MS).means(
        "How long a broker waits for a response of the controller."
    ),
    long("server.max.startup.time.ms", LONG_MAX, at_least(0), is_internal=True).ignored(
        "A limit on the startup time, for Kafka's own tests."
    ),
    boolean("unstable.api.versions.enable", False, importance=HIGH, is_internal=True).ignored(
        "Serve unreleased protocol versions. Penstock serves released versions only."
    ),
    boolean("unstable.feature.versions.enable", False, importance=HIGH, is_internal=True).ignored(
        "Allow unreleased feature levels."
    ),
)

QUORUM = (
    # Required by Kafka. Here a node with both roles calls its controller in process, without a listener.
    items("controller.listener.names", (), DISTINCT_SOME, HIGH).means(
        "The listeners that controllers use. Clients of brokers cannot use them. A node with both roles "
        "does not need one."
    ),
    items("controller.quorum.voters", (), VOTERS, HIGH).means(
        "The controllers of a static quorum, as id@host:port. Newer clusters use "
        "`controller.quorum.bootstrap.servers`."
    ),
    items("controller.quorum.bootstrap.servers", (), ENDPOINTS, HIGH).means(
        "Controllers, as host:port, through which a node finds the leader of the metadata quorum."
    ),
    boolean("controller.quorum.auto.join.enable", False, importance=LOW).means(
        "Let a new controller add itself to the voters."
    ),
    integer("controller.quorum.election.timeout.ms", SECOND_MS, at_least(0), HIGH).means(
        "How long an election may run without a winner before the next one starts."
    ),
    integer("controller.quorum.election.backoff.max.ms", SECOND_MS, at_least(0), HIGH).means(
        "The maximum wait between elections without a winner."
    ),
    integer("controller.quorum.fetch.timeout.ms", 2 * SECOND_MS, at_least(0), HIGH).means(
        "A voter starts an election after this time without a response of the leader. A leader resigns "
        "after 1.5 times this time without fetches of a majority."
    ),
    integer("controller.quorum.append.linger.ms", 25, at_least(0)).ignored(
        "How long Kafka's leader of the quorum collects records before it writes them as one batch. Penstock writes "
        "at once; one sync serves all batches that are written meanwhile."
    ),
    integer("controller.quorum.request.timeout.ms", 2 * SECOND_MS, at_least(0)).means(
        "How long a controller waits for the response of another controller."
    ),
    integer("controller.quorum.retry.backoff.ms", 20, at_least(0), LOW).means(
        "The wait before the first retry of a failed request between controllers. It doubles with every "
        "failure."
    ),
    integer("controller.quorum.fetch.max.bytes", MIB, at_least(1), LOW).means(
        "The maximum size of one fetch of the metadata log. The first batch is returned even if it is larger."
    ),
    integer("controller.quorum.fetch.snapshot.max.bytes", MIB, at_least(1), LOW).means(
        "The maximum size of one fetch of a metadata snapshot."
    ),
    long("controller.performance.sample.period.ms", MINUTE_MS, at_least(100), is_internal=True).ignored(
        "How often Kafka's controller logs the duration of its events."
    ),
    long(
        "controller.performance.always.log.threshold.ms", 2 * SECOND_MS, at_least(0), is_internal=True
    ).ignored("Kafka's controller logs each event that takes longer than this."),
)

METADATA_LOG = (
    string("metadata.log.dir", importance=HIGH).means(
        "The directory of the metadata log. By default, the first of `log.dirs`."
    ),
    integer("metadata.log.segment.bytes", GIB, at_least(8 * MIB), HIGH).means(
        "The size at which the metadata log rolls to a new segment."
    ),
    long("metadata.log.segment.ms", 7 * DAY_MS, importance=HIGH).means(
        "The age at which the metadata log rolls to a new segment."
    ),
    long("metadata.log.max.record.bytes.between.snapshots", 20 * MIB, at_least(1), HIGH).means(
        "A new metadata snapshot is written after this many bytes of records."
    ),
    long("metadata.log.max.snapshot.interval.ms", HOUR_MS, at_least(0), HIGH).means(
        "The maximum time between metadata snapshots. 0 disables snapshots by time."
    ),
    long("metadata.max.retention.bytes", 100 * MIB, importance=HIGH).means(
        "The maximum size of the metadata log and its snapshots. The oldest are deleted; the newest "
        "snapshot stays."
    ),
    long("metadata.max.retention.ms", 7 * DAY_MS, importance=HIGH).means(
        "The maximum age of metadata segments and snapshots. Older ones are deleted; the newest snapshot "
        "stays."
    ),
    integer("metadata.max.idle.interval.ms", 500, at_least(0), LOW).ignored(
        "How often an idle active controller of Apache Kafka writes an empty record. Penstock's quorum needs "
        "none: a leader resigns if its followers stop fetching."
    ),
    integer("internal.metadata.log.segment.bytes", importance=LOW, is_internal=True).ignored(
        "A smaller segment size of the metadata log, for Kafka's own tests."
    ),
    integer("internal.metadata.max.batch.size.in.bytes", 8 * MIB, importance=LOW, is_internal=True).ignored(
        "The maximum batch size of the metadata log, for Kafka's own tests."
    ),
    long("internal.metadata.delete.delay.millis", MINUTE_MS, importance=LOW, is_internal=True).ignored(
        "How long a deleted file of the metadata log stays on disk, for Kafka's own tests."
    ),
)

LEADERSHIP = (
    boolean("auto.leader.rebalance.enable", True, importance=HIGH).means(
        "Let the controller move the leadership of partitions back to their preferred replicas."
    ),
    long("leader.imbalance.check.interval.seconds", 300, at_least(1), HIGH).means(
        "How often the controller looks for partitions that their preferred replica does not lead."
    ),
    boolean("unclean.leader.election.enable", False, importance=HIGH, dynamic=CLUSTER_WIDE).means(
        "If no in-sync replica is left, elect one that is behind. The partition becomes available again, "
        "but records that this replica had not copied are lost."
    ),
    long("unclean.leader.election.interval.ms", 5 * MINUTE_MS, at_least(1), is_internal=True).means(
        "How often the controller looks for partitions that need an unclean leader election."
    ),
)

SETTINGS = IDENTITY + QUORUM + METADATA_LOG + LEADERSHIP
