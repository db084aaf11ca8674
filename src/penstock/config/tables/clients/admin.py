"""What can be said of an admin."""

from __future__ import annotations

from penstock.config.declare import (
    DISTINCT,
    HIGH,
    KIB,
    LOW,
    MINUTE_MS,
    at_least,
    between,
    boolean,
    integer,
    items,
    long,
    string,
)
from penstock.config.tables.clients import common
from penstock.config.values import INT_MAX

CONNECTION = (
    items("bootstrap.servers", common.HERE, DISTINCT, HIGH).means(
        "Some brokers of the cluster, as host:port, through which the others are found."
    ),
    items("bootstrap.controllers", (), DISTINCT, HIGH).means(
        "Some controllers, as host:port, to be asked instead of brokers; not together with `bootstrap.servers`."
    ),
    string("client.id", "").means("A name for this client, by which brokers log, measure and limit it."),
    integer("receive.buffer.bytes", 64 * KIB, at_least(-1)).means(
        "The size of a socket's receive buffer; -1 for the operating system's."
    ),
    long("connections.max.idle.ms", 5 * MINUTE_MS).means(
        "After how long without traffic a connection is closed; negative for never."
    ),
    integer("default.api.timeout.ms", MINUTE_MS, at_least(0)).means(
        "How long a call may take, with all retries, where it is not told otherwise."
    ),
    integer("retries", INT_MAX, between(0, INT_MAX), LOW).means(
        "How often a request is repeated after a failure that may pass; `default.api.timeout.ms` ends it in any case."
    ),
    boolean("enable.metrics.push", False, importance=LOW).not_yet(
        "Send measurements to brokers that ask for them."
    ),
)

SETTINGS = CONNECTION + common.SETTINGS
