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
    # Kafka's default is all interfaces. A first start should be reachable only from this machine.
    items("listeners", ("PLAINTEXT://127.0.0.1:9092",), DISTINCT_SOME, HIGH, PER_BROKER).means(
        "The addresses to listen on, as NAME://host:port. NAME is a security protocol or a key of "
        "`listener.security.protocol.map`. An empty host means all interfaces, port 0 any free port."
    ),
    items("advertised.listeners", None, DISTINCT_SOME, HIGH).means(
        "The addresses that clients connect to, if they differ from `listeners`, for example behind a load "
        "balancer or in a container. Each name must be one of `listeners`."
    ),
    string(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        importance=LOW,
        dynamic=PER_BROKER,
    ).means("The security protocol of each listener name, as NAME:PROTOCOL."),
    string("inter.broker.listener.name").means(
        "The listener for traffic between brokers. Cannot be combined with `security.inter.broker.protocol`."
    ),
    string("security.inter.broker.protocol", "PLAINTEXT", one_of(*SECURITY_PROTOCOLS)).means(
        "The security protocol between brokers. It selects the listener of the same name."
    ),
    items("early.start.listeners", None, DISTINCT, HIGH).not_yet(
        "Listeners that accept requests before the ACLs are loaded. By default, those of the controllers."
    ),
)

SOCKETS = (
    integer("socket.send.buffer.bytes", 100 * KIB, importance=HIGH).means(
        "The send buffer of a socket (SO_SNDBUF). -1 leaves it to the operating system."
    ),
    integer("socket.receive.buffer.bytes", 100 * KIB, importance=HIGH).means(
        "The receive buffer of a socket (SO_RCVBUF). -1 leaves it to the operating system."
    ),
    integer("socket.request.max.bytes", 100 * MIB, at_least(1), HIGH).means(
        "The maximum size of a request. The broker closes the connection of a client that sends a larger one."
    ),
    integer("socket.listen.backlog.size", 50, at_least(1)).means(
        "The maximum number of connections that wait to be accepted. The kernel's `somaxconn` is a second "
        "limit."
    ),
    long("socket.connection.setup.timeout.ms", 10 * SECOND_MS).means(
        "The timeout of the first attempt to connect to another node. It grows with every failure."
    ),
    long("socket.connection.setup.timeout.max.ms", 30 * SECOND_MS).means(
        "The maximum timeout of an attempt to connect to another node."
    ),
)

CONNECTIONS = (
    integer("max.connections", INT_MAX, at_least(0), dynamic=CLUSTER_WIDE).means(
        "The maximum number of connections of this broker. Further connections are closed. A listener can "
        "have its own limit."
    ),
    integer("max.connections.per.ip", INT_MAX, at_least(0), dynamic=CLUSTER_WIDE).means(
        "The maximum number of connections from one IP address. It may be 0 only if "
        "`max.connections.per.ip.overrides` is set."
    ),
    string("max.connections.per.ip.overrides", "", dynamic=CLUSTER_WIDE).means(
        "Connection limits of single IP addresses, such as 10.0.0.7:100,10.0.0.8:200."
    ),
    integer("max.connection.creation.rate", INT_MAX, at_least(0), dynamic=CLUSTER_WIDE).not_yet(
        "The maximum number of new connections per second. A listener can have its own limit."
    ),
    long("connections.max.idle.ms", 10 * MINUTE_MS).means(
        "The broker closes a connection after this time without traffic. A negative value disables it."
    ),
    long("connections.max.reauth.ms", 0).not_yet(
        "How long an authenticated session lasts before the client must authenticate again. 0 means no limit."
    ),
    integer("connection.failed.authentication.delay.ms", 100, at_least(0), LOW).not_yet(
        "The wait before the connection of a client that failed to authenticate is closed. Less than "
        "`connections.max.idle.ms`."
    ),
)

REQUESTS = (
    integer("queued.max.requests", 500, at_least(1), HIGH).ignored(
        "The length of the queue between Kafka's network threads and its request threads. Here a "
        "connection is not read while too many of its requests are in progress."
    ),
    long("queued.max.request.bytes", -1).ignored(
        "The size of the queue between Kafka's network threads and its request threads."
    ),
    integer("request.timeout.ms", 30 * SECOND_MS, importance=HIGH).means(
        "How long a request to another node waits for the response."
    ),
    integer("fetch.max.bytes", 55 * MIB, at_least(1024)).means(
        "The maximum size of a fetch response, whatever the client asks for. The first batch is returned "
        "even if it is larger."
    ),
    integer("max.incremental.fetch.session.cache.slots", 1000, at_least(0)).means(
        "The maximum number of incremental fetch sessions (KIP-227). 0 disables them."
    ),
    integer("max.request.partition.size.limit", 2000, at_least(1)).means(
        "The maximum number of partitions in one DescribeTopicPartitions response."
    ),
    integer("fetch.purgatory.purge.interval.requests", 1000).ignored(
        "How often Kafka purges completed fetches from its purgatory. Here they are removed at once."
    ),
    integer("producer.purgatory.purge.interval.requests", 1000).ignored(
        "How often Kafka purges completed produce requests from its purgatory. Here they are removed at once."
    ),
    integer("delete.records.purgatory.purge.interval.requests", 1).ignored(
        "How often Kafka purges completed DeleteRecords requests from its purgatory. Here they are removed "
        "at once."
    ),
    integer("share.fetch.purgatory.purge.interval.requests", 1000).ignored(
        "How often Kafka purges completed share fetches from its purgatory. Here they are removed at once."
    ),
)

THREADS = (
    integer("background.threads", 10, at_least(1), HIGH, CLUSTER_WIDE).means(
        "Threads for background work: recovery, checkpoints, deletion, moves between log directories. The "
        "same number of threads syncs files."
    ),
    integer("num.io.threads", 8, at_least(1), HIGH, CLUSTER_WIDE).means(
        "Threads that read data from disk if it is not in the page cache."
    ),
    integer("num.network.threads", 3, at_least(1), HIGH, CLUSTER_WIDE).ignored(
        "Kafka's network threads per listener. A Penstock node uses one event loop."
    ),
)

EXTENSIONS = (
    items("config.providers", (), DISTINCT, LOW, CLUSTER_WIDE).ignored(
        "Java classes that load settings from other places. Write the file with your service manager, or "
        "pass --set."
    ),
    class_name("alter.config.policy.class.name", importance=LOW).ignored(
        "A Java class that accepts or rejects changes of settings."
    ),
    class_name("create.topic.policy.class.name", importance=LOW).ignored(
        "A Java class that accepts or rejects new topics."
    ),
)

SETTINGS = LISTENERS + SOCKETS + CONNECTIONS + REQUESTS + THREADS + EXTENSIONS
