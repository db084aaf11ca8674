"""What producers, consumers and admins have in common: finding the cluster, connections, retries, measurements."""

from __future__ import annotations

from penstock.config.declare import (
    DISTINCT,
    KIB,
    LOW,
    MINUTE_MS,
    SECOND_MS,
    at_least,
    integer,
    items,
    long,
    one_of,
    one_of_any_case,
    string,
)
from penstock.config.tables.clients import sasl, tls

# Where nothing is said Kafka's clients refuse to start; a first program should find the broker beside it.
HERE = ("localhost:9092",)

CLUSTER = (
    string(
        "client.dns.lookup",
        "use_all_dns_ips",
        one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ).means(
        "`use_all_dns_ips` tries every address of a name in turn; `resolve_canonical_bootstrap_servers_only` first "
        "turns each bootstrap address into the canonical names behind it."
    ),
    string(
        "security.protocol",
        "PLAINTEXT",
        one_of_any_case("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ).means("Whether connections are encrypted (SSL) and whether the client logs in (SASL)."),
    long("metadata.max.age.ms", 5 * MINUTE_MS, at_least(0), LOW).means(
        "How old the picture of the cluster may become before it is asked for again, though nothing failed."
    ),
    string("metadata.recovery.strategy", "rebootstrap", one_of_any_case("REBOOTSTRAP", "NONE"), LOW).means(
        "What to do when no known broker can be reached: begin again at `bootstrap.servers`, or go on trying."
    ),
    long("metadata.recovery.rebootstrap.trigger.ms", 5 * MINUTE_MS, at_least(0), LOW).means(
        "After how long without an answer to begin again at `bootstrap.servers`."
    ),
)

CONNECTIONS = (
    integer("send.buffer.bytes", 128 * KIB, at_least(-1)).means(
        "The size of a socket's send buffer; -1 for the operating system's."
    ),
    long("socket.connection.setup.timeout.ms", 10 * SECOND_MS).means(
        "How long a connection may take to be made; doubles with every failure to the same broker."
    ),
    long("socket.connection.setup.timeout.max.ms", 30 * SECOND_MS).means(
        "The longest that a connection may take to be made, however often it failed."
    ),
    long("reconnect.backoff.ms", 50, at_least(0), LOW).means(
        "The first pause before a broker is connected to again; it doubles from there."
    ),
    long("reconnect.backoff.max.ms", SECOND_MS, at_least(0), LOW).means(
        "The longest pause before a broker is connected to again."
    ),
    integer("request.timeout.ms", 30 * SECOND_MS, at_least(0)).means(
        "How long to wait for the answer to one request before it counts as failed."
    ),
    long("retry.backoff.ms", 100, at_least(0), LOW).means(
        "The first pause before a failed request is repeated; it doubles from there."
    ),
    long("retry.backoff.max.ms", SECOND_MS, at_least(0), LOW).means(
        "The longest pause before a failed request is repeated."
    ),
)

MEASUREMENTS = (
    items("metric.reporters", ("org.apache.kafka.common.metrics.JmxReporter",), DISTINCT, LOW).no_meaning(
        "Java classes that report measurements."
    ),
    integer("metrics.num.samples", 2, at_least(1), LOW).no_meaning(
        "Of how many windows a measurement is made up."
    ),
    long("metrics.sample.window.ms", 30 * SECOND_MS, at_least(0), LOW).no_meaning(
        "How long one window of a measurement is."
    ),
    string("metrics.recording.level", "INFO", one_of("INFO", "DEBUG", "TRACE"), LOW).no_meaning(
        "How much is measured."
    ),
    items("config.providers", (), DISTINCT, LOW).no_meaning(
        "Names of Java classes that fetch settings from elsewhere."
    ),
)

SETTINGS = CLUSTER + CONNECTIONS + MEASUREMENTS + tls.SETTINGS + sasl.SETTINGS
