"""Settings about clients: metrics subscriptions (KIP-714), and quotas of users and IP addresses."""

from __future__ import annotations

from penstock.config.declare import (
    DISTINCT,
    HOUR_MS,
    MINUTE_MS,
    at_least,
    between,
    double,
    integer,
    items,
    long,
    string,
)
from penstock.config.values import INT_MAX, LONG_MAX

METRICS = (
    # Kafka checks the bounds outside of the declaration, with the same effect.
    integer("interval.ms", 5 * MINUTE_MS, between(100, HOUR_MS)).not_yet(
        "How often the clients push their metrics."
    ),
    items("metrics", (), DISTINCT).not_yet("Prefixes of the names of the metrics to push. * means all."),
    items("match", (), DISTINCT).not_yet(
        "The clients that push metrics, as key=pattern. Keys: client_id, client_instance_id, "
        "client_software_name, client_software_version, client_source_address, client_source_port. Empty "
        "matches all."
    ),
)

QUOTAS = (
    long("producer_byte_rate", LONG_MAX).not_yet("The maximum rate of produced bytes per second."),
    long("consumer_byte_rate", LONG_MAX).not_yet("The maximum rate of consumed bytes per second."),
    double("request_percentage", float(INT_MAX)).not_yet(
        "The maximum share of the broker's time for requests, in percent."
    ),
    double("controller_mutation_rate", float(INT_MAX)).not_yet(
        "The maximum rate of created and deleted partitions per second."
    ),
)

CREDENTIALS = (
    string("SCRAM-SHA-256").not_yet("The SCRAM-SHA-256 credential of the user."),
    string("SCRAM-SHA-512").not_yet("The SCRAM-SHA-512 credential of the user."),
)

ADDRESSES = (
    integer("connection_creation_rate", INT_MAX, at_least(0)).not_yet(
        "The maximum rate of new connections per second from the IP address."
    ),
)
