"""Settings of a streams application: all of Kafka Streams 4.3.

Settings of the clients inside an application (`security.protocol`, `consumer.fetch.max.bytes`, ...) have their own
tables; `penstock.streams.settings` combines both.
"""

from __future__ import annotations

from penstock.config.declare import (
    DAY_MS,
    DISTINCT_SOME,
    HIGH,
    LOW,
    MIB,
    MINUTE_MS,
    NOT_EMPTY,
    SECOND_MS,
    Rule,
    at_least,
    boolean,
    class_name,
    integer,
    items,
    long,
    one_of,
    string,
)
from penstock.config.tables.clients import common

EXACTLY_ONCE = ("exactly_once_v2", "exactly_once", "exactly_once_beta")
_HANDLERS = "`fail` stops the application, `continue` skips the record"

APPLICATION = (
    string("application.id", None, NOT_EMPTY, HIGH).means(
        "The name of the application: its consumer group, the prefix of its internal topics, and its "
        "directory in `state.dir`."
    ),
    items("bootstrap.servers", common.HERE, DISTINCT_SOME, HIGH).means(
        "Brokers to connect to first, as host:port. The client finds the other brokers through them."
    ),
    string("client.id", "", importance=LOW).means(
        "The client id of this application in the logs, metrics and quotas of brokers."
    ),
    string("state.dir", "", importance=HIGH).means(
        "The directory for checkpoints and state, with a subdirectory per application, on any file system "
        "that Spark supports. By default `penstock/streams` in $XDG_STATE_HOME or in ~/.local/state."
    ),
    integer("replication.factor", -1, Rule(lambda n: n == -1 or n > 0, "-1 or at least 1"), HIGH).means(
        "The replication factor of internal topics. -1 means the default of the broker."
    ),
    string("application.server", "", importance=LOW).ignored(
        "The address at which other instances query this one. Here state is queried through its changelog."
    ),
)

WORK = (
    string("processing.guarantee", "exactly_once_v2", one_of("at_least_once", *EXACTLY_ONCE)).means(
        "`exactly_once_v2` (or its older names): outputs, changelogs and progress are one transaction. "
        "`at_least_once`: a failed batch may be written again."
    ),
    long("commit.interval.ms", 100, at_least(0), LOW).means(
        "The minimum time between two batches. 0 starts a batch as soon as there are records."
    ),
    integer("num.stream.threads", 0, at_least(0)).means(
        "The number of shuffle partitions of state and work. 0 means the number of Spark's cores. It "
        "cannot change once there is state."
    ),
    string("auto.offset.reset", "earliest", one_of("earliest", "latest")).means(
        "Where to start in a topic without progress."
    ),
    integer("buffered.records.per.partition", 0, at_least(0), LOW).means(
        "The maximum number of records of a partition in one batch. 0 means no limit."
    ),
    long("statestore.cache.max.bytes", 10 * MIB, at_least(0)).means(
        "With 0, every update of a table is forwarded. Otherwise, only the last update of each key in a "
        "batch."
    ),
    long("cache.max.bytes.buffering", 10 * MIB, at_least(0)).means(
        "The older name of `statestore.cache.max.bytes`."
    ),
    string("topology.optimization", "none").ignored(
        "Topologies are always compiled and optimized as a whole."
    ),
    boolean("ensure.explicit.internal.resource.naming", False).not_yet(
        "Reject a topology with generated names of state stores or internal topics."
    ),
    long("task.timeout.ms", 5 * MINUTE_MS, at_least(0)).ignored("Spark retries tasks."),
    long("max.task.idle.ms", 0, at_least(-1)).ignored("A batch reads all partitions up to their ends."),
    long("poll.ms", 100, at_least(0), LOW).ignored("Spark reads partitions without polling."),
    long("repartition.purge.interval.ms", 30 * SECOND_MS, at_least(0), LOW).means(
        "The minimum time between two deletions of processed records in repartition topics."
    ),
)

TYPES = (
    class_name("default.key.serde").ignored("A stream declares its types; the default is bytes."),
    class_name("default.value.serde").ignored("A stream declares its types; the default is bytes."),
    class_name("default.list.key.serde.inner").ignored("A list is a type like any other: list[int]."),
    class_name("default.list.key.serde.type").ignored("A list is a type like any other: list[int]."),
    class_name("default.list.value.serde.inner").ignored("A list is a type like any other: list[int]."),
    class_name("default.list.value.serde.type").ignored("A list is a type like any other: list[int]."),
    class_name("default.timestamp.extractor", importance=LOW).ignored(
        "A stream declares its own timestamp function."
    ),
    class_name("windowed.inner.class.serde", importance=LOW).ignored(
        "The serdes of windows know their keys."
    ),
    long("window.size.ms", importance=LOW).ignored("The serdes of windows know their size."),
)

FAILURES = (
    class_name("deserialization.exception.handler", "fail").means(
        f"What to do with a record that cannot be deserialized: {_HANDLERS}."
    ),
    class_name("default.deserialization.exception.handler").means(
        "The older name of `deserialization.exception.handler`."
    ),
    class_name("processing.exception.handler", "fail").means(
        f"What to do with a record if processing it raises an exception: {_HANDLERS}."
    ),
    string("errors.dead.letter.queue.topic.name").means(
        "The dead letter queue: the topic for skipped records, with the reason in headers. Without it, "
        "skipped records are lost."
    ),
    boolean("processing.exception.handler.global.enabled", False).ignored(
        "Global tables call no user functions."
    ),
    class_name("production.exception.handler", "fail").ignored("A batch that cannot be written fails."),
    class_name("default.production.exception.handler").ignored("A batch that cannot be written fails."),
)

STATE = (
    long("state.cleanup.delay.ms", 10 * MINUTE_MS, at_least(0), LOW).ignored("Spark cleans up its state."),
    long("windowstore.changelog.additional.retention.ms", DAY_MS, at_least(0), LOW).means(
        "How long a window stays in its changelog after it is closed."
    ),
    class_name("rocksdb.config.setter", importance=LOW).ignored(
        "Configure RocksDB with `spark.sql.streaming.stateStore.rocksdb.*`."
    ),
    long("state.cleanup.dir.max.age.ms", -1, importance=LOW).ignored("Spark cleans up its state."),
    string("dsl.store.format", "DEFAULT", importance=LOW).ignored("State has one format."),
    string("default.dsl.store", "rocksDB", importance=LOW).ignored("State is in RocksDB."),
    class_name("dsl.store.suppliers.class", importance=LOW).ignored("State is in RocksDB."),
    integer("num.standby.replicas", 0, at_least(0), HIGH).ignored(
        "Spark restores state from its checkpoint."
    ),
    integer("max.warmup.replicas", 2, at_least(1)).ignored("Spark restores state from its checkpoint."),
    long("acceptable.recovery.lag", 10_000, at_least(0)).ignored("Spark restores state from its checkpoint."),
    long("probing.rebalance.interval.ms", 10 * MINUTE_MS, at_least(MINUTE_MS), LOW).ignored(
        "Spark schedules the tasks."
    ),
    boolean("allow.os.group.write.access", False, importance=LOW).ignored("Spark writes the state."),
)

PLACEMENT = (
    string("group.protocol", "classic").ignored("Spark schedules the tasks, without a group."),
    class_name("task.assignor.class", importance=LOW).ignored("Spark schedules the tasks."),
    items("rack.aware.assignment.tags", (), importance=LOW).ignored("Spark schedules the tasks."),
    string("rack.aware.assignment.strategy", "none", importance=LOW).ignored("Spark schedules the tasks."),
    integer("rack.aware.assignment.traffic_cost", importance=LOW).ignored("Spark schedules the tasks."),
    integer("rack.aware.assignment.non_overlap_cost", importance=LOW).ignored("Spark schedules the tasks."),
    string("upgrade.from", importance=LOW).ignored("There is no older protocol version to upgrade from."),
    string("built.in.metrics.version", "latest", importance=LOW).ignored("Spark provides the metrics."),
    long("log.summary.interval.ms", 2 * MINUTE_MS, importance=LOW).ignored("Spark reports every batch."),
    class_name("default.client.supplier", importance=LOW).ignored("There is only one client."),
    class_name("processor.wrapper.class", importance=LOW).not_yet("A wrapper for every processor."),
)

SETTINGS = APPLICATION + WORK + TYPES + FAILURES + STATE + PLACEMENT
STREAMS = {setting.name: setting for setting in SETTINGS}
