"""Settings of all clients: bootstrap, connections, retries, metrics."""

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

# Kafka's clients have no default. A first program should find the broker on the same machine.
HERE = ("localhost:9092",)

CLUSTER = (
    string(
        "client.dns.lookup",
        "use_all_dns_ips",
        one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ).means(
        "`use_all_dns_ips` tries all IP addresses of a host name in turn. "
        "`resolve_canonical_bootstrap_servers_only` first replaces each bootstrap address by its canonical "
        "names."
    ),
    string(
        "security.protocol",
        "PLAINTEXT",
        one_of_any_case("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ).means("Whether connections are encrypted (SSL) and whether the client authenticates (SASL)."),
    long("metadata.max.age.ms", 5 * MINUTE_MS, at_least(0), LOW).means(
        "How often the metadata of the cluster is refreshed, even without errors."
    ),
    string("metadata.recovery.strategy", "rebootstrap", one_of_any_case("REBOOTSTRAP", "NONE"), LOW).means(
        "What to do if no known broker is available: start again from `bootstrap.servers` (rebootstrap), "
        "or keep trying (none)."
    ),
    long("metadata.recovery.rebootstrap.trigger.ms", 5 * MINUTE_MS, at_least(0), LOW).means(
        "The client starts again from `bootstrap.servers` after this time without a metadata response."
    ),
)

CONNECTIONS = (
    integer("send.buffer.bytes", 128 * KIB, at_least(-1)).means(
        "The send buffer of a socket (SO_SNDBUF). -1 leaves it to the operating system."
    ),
    long("socket.connection.setup.timeout.ms", 10 * SECOND_MS).means(
        "The timeout for connecting to a broker. It doubles with every failure."
    ),
    long("socket.connection.setup.timeout.max.ms", 30 * SECOND_MS).means(
        "The maximum timeout for connecting to a broker."
    ),
    long("reconnect.backoff.ms", 50, at_least(0), LOW).means(
        "The wait before the first attempt to reconnect to a broker. It doubles with every failure."
    ),
    long("reconnect.backoff.max.ms", SECOND_MS, at_least(0), LOW).means(
        "The maximum wait before an attempt to reconnect to a broker."
    ),
    integer("request.timeout.ms", 30 * SECOND_MS, at_least(0)).means(
        "How long to wait for the response to a request before it fails."
    ),
    long("retry.backoff.ms", 100, at_least(0), LOW).means(
        "The wait before the first retry of a failed request. It doubles with every failure."
    ),
    long("retry.backoff.max.ms", SECOND_MS, at_least(0), LOW).means(
        "The maximum wait before a retry of a failed request."
    ),
)

MEASUREMENTS = (
    items("metric.reporters", ("org.apache.kafka.common.metrics.JmxReporter",), DISTINCT, LOW).ignored(
        "Java classes that report metrics."
    ),
    integer("metrics.num.samples", 2, at_least(1), LOW).ignored(
        "The number of samples from which a metric is computed."
    ),
    long("metrics.sample.window.ms", 30 * SECOND_MS, at_least(0), LOW).ignored(
        "The length of one sample of a metric."
    ),
    string("metrics.recording.level", "INFO", one_of("INFO", "DEBUG", "TRACE"), LOW).ignored(
        "The level of detail of metrics."
    ),
    items("config.providers", (), DISTINCT, LOW).ignored(
        "Java classes that load settings from other places."
    ),
)

SETTINGS = CLUSTER + CONNECTIONS + MEASUREMENTS + tls.SETTINGS + sasl.SETTINGS
