"""What can be said of clients: subscriptions to their metrics (KIP-714), quotas of users and of addresses."""

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
    # Kafka checks the bounds apart from the declaration; the effect is the same.
    integer("interval.ms", 5 * MINUTE_MS, between(100, HOUR_MS)).not_yet(
        "How often the clients send their metrics."
    ),
    items("metrics", (), DISTINCT).not_yet(
        "What the names of the wanted metrics begin with; * for all of them."
    ),
    items("match", (), DISTINCT).not_yet(
        "Which clients are meant: key=pattern, with client_id, client_instance_id, client_software_name, "
        "client_software_version, client_source_address or client_source_port as key; empty for all."
    ),
)

QUOTAS = (
    long("producer_byte_rate", LONG_MAX).not_yet("Bytes a second that may be produced."),
    long("consumer_byte_rate", LONG_MAX).not_yet("Bytes a second that may be consumed."),
    double("request_percentage", float(INT_MAX)).not_yet(
        "Share of the broker's time, in percent, that requests may take."
    ),
    double("controller_mutation_rate", float(INT_MAX)).not_yet(
        "Partitions a second that may be created or deleted."
    ),
)

CREDENTIALS = (
    string("SCRAM-SHA-256").not_yet("The user's credential for SCRAM-SHA-256."),
    string("SCRAM-SHA-512").not_yet("The user's credential for SCRAM-SHA-512."),
)

ADDRESSES = (
    integer("connection_creation_rate", INT_MAX, at_least(0)).not_yet(
        "Connections a second that the address may make."
    ),
)
