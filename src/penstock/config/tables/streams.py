"""What can be said of a streams application: every setting of Apache Kafka 4.3's Streams.

Settings of the clients inside an application (`security.protocol`, `consumer.fetch.max.bytes`, ...) stand in their own
tables; `penstock.streams.settings` puts both together.
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
_HANDLERS = "`fail` stops the application, `continue` leaves the record out"

APPLICATION = (
    string("application.id", None, NOT_EMPTY, HIGH).means(
        "The application's name: its consumer group, what its internal topics begin with, and the folder of its state."
    ),
    items("bootstrap.servers", common.HERE, DISTINCT_SOME, HIGH).means(
        "Some brokers of the cluster, as host:port, through which the others are found."
    ),
    string("client.id", "", importance=LOW).means(
        "A name for the clients of this application, by which brokers log, measure and limit them."
    ),
    string("state.dir", "", importance=HIGH).means(
        "Where checkpoints and state are kept, a folder for each application: any file system that Spark reads. By "
        "default `penstock/streams` in $XDG_STATE_HOME or in ~/.local/state."
    ),
    integer("replication.factor", -1, Rule(lambda n: n == -1 or n > 0, "-1 or at least 1"), HIGH).means(
        "How many replicas internal topics have; -1 leaves it to the broker."
    ),
    string("application.server", "", importance=LOW).no_meaning(
        "Where other instances reach this one; state is asked for through the log here."
    ),
)

WORK = (
    string("processing.guarantee", "exactly_once_v2", one_of("at_least_once", *EXACTLY_ONCE)).means(
        "Whether outputs, changelogs and progress are one transaction (`exactly_once_v2`, also under its older names), "
        "or a batch that failed may be written again (`at_least_once`)."
    ),
    long("commit.interval.ms", 100, at_least(0), LOW).means(
        "How often a batch of records is taken on at most; 0 for as soon as there are some."
    ),
    integer("num.stream.threads", 0, at_least(0)).means(
        "Into how many parts state and work behind a shuffle are divided; 0 for as many as Spark has cores, and "
        "it stays as it was once there is state."
    ),
    string("auto.offset.reset", "earliest", one_of("earliest", "latest")).means(
        "Where to begin with a topic of which nothing was read before."
    ),
    integer("buffered.records.per.partition", 0, at_least(0), LOW).means(
        "How many records of a partition one batch takes at most; 0 for all that are there."
    ),
    long("statestore.cache.max.bytes", 10 * MIB, at_least(0)).means(
        "With 0 every update of a table is passed on; otherwise the last one of each key in a batch."
    ),
    long("cache.max.bytes.buffering", 10 * MIB, at_least(0)).means(
        "The older name of `statestore.cache.max.bytes`."
    ),
    string("topology.optimization", "none").no_meaning(
        "Topologies are compiled as a whole, which includes it."
    ),
    boolean("ensure.explicit.internal.resource.naming", False).not_yet(
        "Refuse a topology whose state or internal topics have names that were made up."
    ),
    long("task.timeout.ms", 5 * MINUTE_MS, at_least(0)).no_meaning("Spark tries a task again, or gives up."),
    long("max.task.idle.ms", 0, at_least(-1)).no_meaning("A batch takes what all partitions have."),
    long("poll.ms", 100, at_least(0), LOW).no_meaning("Nothing is polled."),
    long("repartition.purge.interval.ms", 30 * SECOND_MS, at_least(0), LOW).means(
        "How often what was processed of internal topics is deleted, at most."
    ),
)

TYPES = (
    class_name("default.key.serde").no_meaning("A stream names its types itself; without, they are bytes."),
    class_name("default.value.serde").no_meaning("A stream names its types itself; without, they are bytes."),
    class_name("default.list.key.serde.inner").no_meaning("A list is a type like any other: list[int]."),
    class_name("default.list.key.serde.type").no_meaning("A list is a type like any other: list[int]."),
    class_name("default.list.value.serde.inner").no_meaning("A list is a type like any other: list[int]."),
    class_name("default.list.value.serde.type").no_meaning("A list is a type like any other: list[int]."),
    class_name("default.timestamp.extractor", importance=LOW).no_meaning(
        "A stream names a function for its time itself."
    ),
    class_name("windowed.inner.class.serde", importance=LOW).no_meaning("Serdes of windows know their keys."),
    long("window.size.ms", importance=LOW).no_meaning("Serdes of windows know their size."),
)

FAILURES = (
    class_name("deserialization.exception.handler", "fail").means(
        f"What to do with a record whose bytes cannot be read: {_HANDLERS}."
    ),
    class_name("default.deserialization.exception.handler").means(
        "The older name of `deserialization.exception.handler`."
    ),
    class_name("processing.exception.handler", "fail").means(
        f"What to do with a record for which a function raised: {_HANDLERS}."
    ),
    string("errors.dead.letter.queue.topic.name").means(
        "Where records go that are left out, with the reason in headers; without it they are gone."
    ),
    boolean("processing.exception.handler.global.enabled", False).no_meaning(
        "Global tables run no functions of users."
    ),
    class_name("production.exception.handler", "fail").no_meaning("A batch that cannot be written fails."),
    class_name("default.production.exception.handler").no_meaning("A batch that cannot be written fails."),
)

STATE = (
    long("state.cleanup.delay.ms", 10 * MINUTE_MS, at_least(0), LOW).no_meaning("Spark cleans its state up."),
    long("windowstore.changelog.additional.retention.ms", DAY_MS, at_least(0), LOW).means(
        "For how long after it is closed a window stays in its changelog."
    ),
    class_name("rocksdb.config.setter", importance=LOW).no_meaning(
        "`spark.sql.streaming.stateStore.rocksdb.*` sets RocksDB up."
    ),
    long("state.cleanup.dir.max.age.ms", -1, importance=LOW).no_meaning("Spark cleans its state up."),
    string("dsl.store.format", "DEFAULT", importance=LOW).no_meaning("State has a format of its own."),
    string("default.dsl.store", "rocksDB", importance=LOW).no_meaning("State is in RocksDB."),
    class_name("dsl.store.suppliers.class", importance=LOW).no_meaning("State is in RocksDB."),
    integer("num.standby.replicas", 0, at_least(0), HIGH).no_meaning(
        "Spark restores state from its checkpoint."
    ),
    integer("max.warmup.replicas", 2, at_least(1)).no_meaning("Spark restores state from its checkpoint."),
    long("acceptable.recovery.lag", 10_000, at_least(0)).no_meaning(
        "Spark restores state from its checkpoint."
    ),
    long("probing.rebalance.interval.ms", 10 * MINUTE_MS, at_least(MINUTE_MS), LOW).no_meaning(
        "Spark places work."
    ),
    boolean("allow.os.group.write.access", False, importance=LOW).no_meaning("Spark writes the state."),
)

PLACEMENT = (
    string("group.protocol", "classic").no_meaning("Spark places work, and no group does."),
    class_name("task.assignor.class", importance=LOW).no_meaning("Spark places work."),
    items("rack.aware.assignment.tags", (), importance=LOW).no_meaning("Spark places work."),
    string("rack.aware.assignment.strategy", "none", importance=LOW).no_meaning("Spark places work."),
    integer("rack.aware.assignment.traffic_cost", importance=LOW).no_meaning("Spark places work."),
    integer("rack.aware.assignment.non_overlap_cost", importance=LOW).no_meaning("Spark places work."),
    string("upgrade.from", importance=LOW).no_meaning("There is no older protocol to speak."),
    string("built.in.metrics.version", "latest", importance=LOW).no_meaning("Spark measures."),
    long("log.summary.interval.ms", 2 * MINUTE_MS, importance=LOW).no_meaning("Spark reports every batch."),
    class_name("default.client.supplier", importance=LOW).no_meaning("There is one client."),
    class_name("processor.wrapper.class", importance=LOW).not_yet("Something to put round every processor."),
)

SETTINGS = APPLICATION + WORK + TYPES + FAILURES + STATE + PLACEMENT
STREAMS = {setting.name: setting for setting in SETTINGS}
