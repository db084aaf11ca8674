"""Settings of a producer."""

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
        "Brokers to connect to first, as host:port. The client finds the other brokers through them."
    ),
    string("client.id", "").means("The name of this client in the logs, metrics and quotas of brokers."),
    integer("receive.buffer.bytes", 32 * KIB, at_least(-1)).means(
        "The receive buffer of a socket (SO_RCVBUF). -1 leaves it to the operating system."
    ),
    long("connections.max.idle.ms", 9 * MINUTE_MS).means(
        "The client closes a connection after this time without traffic. A negative value disables it."
    ),
    long("metadata.max.idle.ms", 5 * MINUTE_MS, at_least(5 * SECOND_MS), LOW).means(
        "How long the producer keeps the metadata of a topic that it does not send to."
    ),
    boolean("enable.metrics.push", True, importance=LOW).not_yet(
        "Push client metrics to brokers that subscribe to them."
    ),
)

RECORDS = (
    class_name("key.serializer", importance=HIGH).means(
        "The serializer of keys: a name (`string`, `json`, `long` ...), a Java class of Kafka, a function "
        "or an object. By default, keys are bytes or text."
    ),
    class_name("value.serializer", importance=HIGH).means(
        "The serializer of values: a name (`string`, `json`, `long` ...), a Java class of Kafka, a "
        "function or an object. By default, values are bytes or text."
    ),
    items("interceptor.classes", (), DISTINCT, LOW).means(
        "Interceptors, as objects or import names of classes. They see each record before it is "
        "serialized, and each acknowledgement."
    ),
    class_name("partitioner.class").means(
        "How the partition of a record is chosen. By default: by key, and without a key sticky until a "
        "batch is full. Or `round-robin`, or a function or object of your own."
    ),
    boolean("partitioner.ignore.keys", False).means("Ignore keys when the partition is chosen."),
    boolean("partitioner.adaptive.partitioning.enable", True, importance=LOW).means(
        "Send more records without a key to partitions whose brokers are faster."
    ),
    long("partitioner.availability.timeout.ms", 0, at_least(0), LOW).means(
        "Avoid a partition whose broker has accepted no batch for this time. 0 disables it."
    ),
)

BATCHES = (
    # Java allocates this much memory per open batch, so its default is 16 KiB. Here batches grow as they fill, and
    # large batches make a client fast. This size is still below the brokers' default `message.max.bytes`.
    integer("batch.size", 1_000_000, at_least(0)).means(
        "The maximum size of a batch of records for one partition."
    ),
    long("linger.ms", 5, at_least(0)).means("How long a batch waits for more records before it is sent."),
    long("buffer.memory", 32 * MIB, at_least(0), HIGH).means(
        "The maximum bytes of records that wait to be sent or acknowledged. If it is full, `send` blocks."
    ),
    integer("max.request.size", MIB, at_least(0)).means(
        "The maximum size of a request, and of a record before compression."
    ),
    long("max.block.ms", MINUTE_MS, at_least(0)).means(
        "How long `send` blocks for buffer memory or topic metadata, and how long the transaction methods "
        "block."
    ),
    string("compression.type", "none", one_of("none", "gzip", "snappy", "lz4", "zstd"), HIGH).means(
        "The compression of batches."
    ),
    integer(
        "compression.gzip.level",
        -1,
        Rule(lambda level: level == -1 or 1 <= level <= 9, "from 1 to 9, or -1 for the library's choice"),
    ).means("The gzip compression level."),
    integer("compression.lz4.level", 9, between(1, 17)).means("The lz4 compression level."),
    integer("compression.zstd.level", 3, between(-131072, 22)).means("The zstd compression level."),
)

DELIVERY = (
    string("acks", "all", one_of("all", "-1", "0", "1"), LOW).means(
        "Which acknowledgements a write needs: of `all` in-sync replicas, of the leader (1), or none (0)."
    ),
    integer("retries", INT_MAX, between(0, INT_MAX), HIGH).means(
        "The maximum number of retries of a batch after a retriable error. `delivery.timeout.ms` is a "
        "second limit."
    ),
    integer("delivery.timeout.ms", 2 * MINUTE_MS, at_least(0)).means(
        "The maximum time from `send` to the acknowledgement of a record, including retries."
    ),
    integer("max.in.flight.requests.per.connection", 5, at_least(1), LOW).means(
        "The maximum number of unanswered requests per broker. Idempotence needs 5 or fewer."
    ),
    boolean("enable.idempotence", True, importance=LOW).means(
        "Write each batch exactly once and in order, even after retries."
    ),
    string("transactional.id", None, NOT_EMPTY, LOW).means(
        "The id of a transactional producer, the same after a restart. Without it, the producer has no "
        "transactions."
    ),
    integer("transaction.timeout.ms", MINUTE_MS, importance=LOW).means(
        "The coordinator aborts a transaction that is open for longer than this."
    ),
    boolean("transaction.two.phase.commit.enable", False, importance=LOW).means(
        "Let an external coordinator end transactions (two-phase commit). They never time out. The broker "
        "must allow it."
    ),
)

SETTINGS = CONNECTION + RECORDS + BATCHES + DELIVERY + registry.SETTINGS + common.SETTINGS
