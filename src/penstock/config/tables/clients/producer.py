"""What can be said of a producer."""

from __future__ import annotations

from penstock.config.declare import (
    DISTINCT,
    DISTINCT_SOME,
    HIGH,
    KIB,
    LOW,
    MIB,
    MINUTE_MS,
    NOT_EMPTY,
    SECOND_MS,
    Rule,
    at_least,
    between,
    boolean,
    class_name,
    integer,
    items,
    long,
    one_of,
    string,
)
from penstock.config.tables.clients import common, registry
from penstock.config.values import INT_MAX

CONNECTION = (
    items("bootstrap.servers", common.HERE, DISTINCT_SOME, HIGH).means(
        "Some brokers of the cluster, as host:port, through which the others are found."
    ),
    string("client.id", "").means("A name for this client, by which brokers log, measure and limit it."),
    integer("receive.buffer.bytes", 32 * KIB, at_least(-1)).means(
        "The size of a socket's receive buffer; -1 for the operating system's."
    ),
    long("connections.max.idle.ms", 9 * MINUTE_MS).means(
        "After how long without traffic a connection is closed; negative for never."
    ),
    long("metadata.max.idle.ms", 5 * MINUTE_MS, at_least(5 * SECOND_MS), LOW).means(
        "For how long a topic that nothing is sent to stays in the picture of the cluster."
    ),
    boolean("enable.metrics.push", True, importance=LOW).not_yet(
        "Send measurements to brokers that ask for them."
    ),
)

RECORDS = (
    class_name("key.serializer", importance=HIGH).means(
        "What makes bytes of a key: a name (`string`, `json`, `long` ...), a Java class of Kafka, a function or an "
        "object. Where nothing is said, bytes and text are taken."
    ),
    class_name("value.serializer", importance=HIGH).means(
        "What makes bytes of a value: a name (`string`, `json`, `long` ...), a Java class of Kafka, a function or an "
        "object. Where nothing is said, bytes and text are taken."
    ),
    items("interceptor.classes", (), DISTINCT, LOW).means(
        "Objects, or classes by their import names, that see each record before it is serialized and each receipt."
    ),
    class_name("partitioner.class").means(
        "How records find their partition: nothing said, by key or else stuck to one until a batch is full; "
        "`round-robin`; or a function or object of your own."
    ),
    boolean("partitioner.ignore.keys", False).means("Choose partitions as though no record had a key."),
    boolean("partitioner.adaptive.partitioning.enable", True, importance=LOW).means(
        "Give more records without key to partitions whose brokers are faster."
    ),
    long("partitioner.availability.timeout.ms", 0, at_least(0), LOW).means(
        "Avoid a partition whose broker has taken nothing for so long; 0 for never."
    ),
)

BATCHES = (
    # Java takes this much memory for every open batch, and so has 16 KiB. Ours grow as they fill, and full batches are
    # what makes a client fast; a batch of this size still passes the brokers' default `message.max.bytes`.
    integer("batch.size", 1_000_000, at_least(0)).means(
        "How large a batch of records to one partition may become."
    ),
    long("linger.ms", 5, at_least(0)).means("How long a batch waits for more records before it is sent."),
    long("buffer.memory", 32 * MIB, at_least(0), HIGH).means(
        "How many bytes of records may wait to be sent or acknowledged before `send` waits in turn."
    ),
    integer("max.request.size", MIB, at_least(0)).means(
        "How large a request, and so a record before compression, may be."
    ),
    long("max.block.ms", MINUTE_MS, at_least(0)).means(
        "How long `send` may wait for room or for the topic's metadata, and the calls of a transaction for an answer."
    ),
    string("compression.type", "none", one_of("none", "gzip", "snappy", "lz4", "zstd"), HIGH).means(
        "How batches are compressed."
    ),
    integer(
        "compression.gzip.level",
        -1,
        Rule(lambda level: level == -1 or 1 <= level <= 9, "from 1 to 9, or -1 for the library's choice"),
    ).means("How hard gzip tries."),
    integer("compression.lz4.level", 9, between(1, 17)).means("How hard lz4 tries."),
    integer("compression.zstd.level", 3, between(-131072, 22)).means("How hard zstd tries."),
)

DELIVERY = (
    string("acks", "all", one_of("all", "-1", "0", "1"), LOW).means(
        "Who must have a record before it counts as written: `all` replicas in sync, the leader (1), or nobody (0)."
    ),
    integer("retries", INT_MAX, between(0, INT_MAX), HIGH).means(
        "How often a batch is sent again after a failure that may pass; `delivery.timeout.ms` ends it in any case."
    ),
    integer("delivery.timeout.ms", 2 * MINUTE_MS, at_least(0)).means(
        "How long a record may take from `send` to its acknowledgement, with all waiting and all retries."
    ),
    integer("max.in.flight.requests.per.connection", 5, at_least(1), LOW).means(
        "How many requests to one broker may be without answer; above 5 idempotence is impossible."
    ),
    boolean("enable.idempotence", True, importance=LOW).means(
        "Number the batches, so that a repeated one is written once and order is kept."
    ),
    string("transactional.id", None, NOT_EMPTY, LOW).means(
        "The name under which this producer's transactions go on after a restart; without one there are none."
    ),
    integer("transaction.timeout.ms", MINUTE_MS, importance=LOW).means(
        "After how long the coordinator aborts a transaction that was left open."
    ),
    boolean("transaction.two.phase.commit.enable", False, importance=LOW).means(
        "Let an outside coordinator decide on transactions, which then never time out. The broker must allow it."
    ),
)

SETTINGS = CONNECTION + RECORDS + BATCHES + DELIVERY + registry.SETTINGS + common.SETTINGS
