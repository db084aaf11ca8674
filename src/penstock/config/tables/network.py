"""Listeners, sockets, connections and requests."""

from __future__ import annotations

from penstock.config.declare import (
    CLUSTER_WIDE,
    DISTINCT,
    DISTINCT_SOME,
    HIGH,
    KIB,
    LOW,
    MIB,
    MINUTE_MS,
    PER_BROKER,
    SECOND_MS,
    at_least,
    class_name,
    integer,
    items,
    long,
    one_of,
    string,
)
from penstock.config.listeners import SECURITY_PROTOCOLS
from penstock.config.values import INT_MAX

LISTENERS = (
    # Kafka's default serves every interface of the machine; a first start should be seen by this machine alone.
    items("listeners", ("PLAINTEXT://127.0.0.1:9092",), DISTINCT_SOME, HIGH, PER_BROKER).means(
        "Where the node listens, as NAME://host:port. A name is a security protocol or stands in "
        "`listener.security.protocol.map`; an empty host means every interface, port 0 any free port."
    ),
    items("advertised.listeners", None, DISTINCT_SOME, HIGH).means(
        "The addresses that clients are told to connect to, where they differ from `listeners`: behind a "
        "load balancer, in a container. Each name must be one of `listeners`."
    ),
    string(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        importance=LOW,
        dynamic=PER_BROKER,
    ).means(
        "Which security protocol a listener speaks, as NAME:PROTOCOL, for listeners with names of their own."
    ),
    string("inter.broker.listener.name").means(
        "The listener over which brokers talk to each other. Not together with "
        "`security.inter.broker.protocol`."
    ),
    string("security.inter.broker.protocol", "PLAINTEXT", one_of(*SECURITY_PROTOCOLS)).means(
        "The security protocol between brokers, and thereby the listener of that name."
    ),
    items("early.start.listeners", None, DISTINCT, HIGH).not_yet(
        "Listeners that serve before the access rules are known, because the rules come over them; the "
        "controllers' by default."
    ),
)

SOCKETS = (
    integer("socket.send.buffer.bytes", 100 * KIB, importance=HIGH).means(
        "The kernel's send buffer of a connection; -1 leaves it to the operating system."
    ),
    integer("socket.receive.buffer.bytes", 100 * KIB, importance=HIGH).means(
        "The kernel's receive buffer of a connection; -1 leaves it to the operating system."
    ),
    integer("socket.request.max.bytes", 100 * MIB, at_least(1), HIGH).means(
        "The largest request that is read; a client that announces a larger one is disconnected."
    ),
    integer("socket.listen.backlog.size", 50, at_least(1)).means(
        "How many new connections may wait to be accepted; the kernel's `somaxconn` limits it too."
    ),
    long("socket.connection.setup.timeout.ms", 10 * SECOND_MS).not_yet(
        "How long a connection to another node may take to be made at the first try; it grows with each "
        "failure."
    ),
    long("socket.connection.setup.timeout.max.ms", 30 * SECOND_MS).not_yet(
        "The longest that a connection to another node may take to be made."
    ),
)

CONNECTIONS = (
    integer("max.connections", INT_MAX, at_least(0), dynamic=CLUSTER_WIDE).means(
        "How many connections the broker serves at once; further ones are closed. A listener can have a "
        "limit of its own."
    ),
    integer("max.connections.per.ip", INT_MAX, at_least(0), dynamic=CLUSTER_WIDE).means(
        "How many connections one address may have. 0 only where `max.connections.per.ip.overrides` allows "
        "some."
    ),
    string("max.connections.per.ip.overrides", "", dynamic=CLUSTER_WIDE).means(
        "Limits for single addresses, such as 10.0.0.7:100,10.0.0.8:200."
    ),
    integer("max.connection.creation.rate", INT_MAX, at_least(0), dynamic=CLUSTER_WIDE).not_yet(
        "How many connections a second the broker accepts. A listener can have a rate of its own."
    ),
    long("connections.max.idle.ms", 10 * MINUTE_MS).means(
        "How long a connection may be silent before it is closed; a negative value for as long as it likes."
    ),
    long("connections.max.reauth.ms", 0).not_yet(
        "How long an authenticated session lasts before the client has to authenticate again; 0 for no end."
    ),
    integer("connection.failed.authentication.delay.ms", 100, at_least(0), LOW).not_yet(
        "How long a client that failed to authenticate is kept waiting before it is disconnected. Less than "
        "`connections.max.idle.ms`."
    ),
)

REQUESTS = (
    integer("queued.max.requests", 500, at_least(1), HIGH).no_meaning(
        "The length of the queue between Kafka's network threads and its request threads. Here a connection "
        "is not read further while too much of its own work is under way."
    ),
    long("queued.max.request.bytes", -1).no_meaning(
        "The size of the queue between Kafka's network threads and its request threads."
    ),
    integer("request.timeout.ms", 30 * SECOND_MS, importance=HIGH).not_yet(
        "How long a request to another node waits for its answer."
    ),
    integer("fetch.max.bytes", 55 * MIB, at_least(1024)).means(
        "The most that one fetch answers, whatever the client asks for; the first batch comes in any size."
    ),
    integer("max.incremental.fetch.session.cache.slots", 1000, at_least(0)).means(
        "How many incremental fetch sessions (KIP-227) the broker remembers; 0 for none."
    ),
    integer("max.request.partition.size.limit", 2000, at_least(1)).means(
        "How many partitions one answer of DescribeTopicPartitions holds."
    ),
    integer("fetch.purgatory.purge.interval.requests", 1000).no_meaning(
        "How often Kafka sweeps fetches that no longer wait; here they leave at once."
    ),
    integer("producer.purgatory.purge.interval.requests", 1000).no_meaning(
        "How often Kafka sweeps produce requests that no longer wait; here they leave at once."
    ),
    integer("delete.records.purgatory.purge.interval.requests", 1).no_meaning(
        "How often Kafka sweeps DeleteRecords requests that no longer wait; here they leave at once."
    ),
    integer("share.fetch.purgatory.purge.interval.requests", 1000).no_meaning(
        "How often Kafka sweeps share fetches that no longer wait; here they leave at once."
    ),
)

THREADS = (
    integer("background.threads", 10, at_least(1), HIGH, CLUSTER_WIDE).means(
        "Threads for background work: recovery, checkpoints, deletion, moves between directories. "
        "As many more threads sync files."
    ),
    integer("num.io.threads", 8, at_least(1), HIGH, CLUSTER_WIDE).means(
        "Threads that read from disk for requests whose data is not in the page cache."
    ),
    integer("num.network.threads", 3, at_least(1), HIGH, CLUSTER_WIDE).no_meaning(
        "Kafka's network threads for each listener. A Penstock node reads and writes on one event loop."
    ),
)

EXTENSIONS = (
    items("config.providers", (), DISTINCT, LOW, CLUSTER_WIDE).no_meaning(
        "Java classes that look values up elsewhere. Let the service manager write the file or pass --set."
    ),
    class_name("alter.config.policy.class.name", importance=LOW).no_meaning(
        "A Java class that judges changes of settings."
    ),
    class_name("create.topic.policy.class.name", importance=LOW).no_meaning(
        "A Java class that judges the creation of topics."
    ),
)

SETTINGS = LISTENERS + SOCKETS + CONNECTIONS + REQUESTS + THREADS + EXTENSIONS
