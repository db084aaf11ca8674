"""Settings of an admin."""

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
        "Brokers to connect to first, as host:port. The client finds the other brokers through them."
    ),
    items("bootstrap.controllers", (), DISTINCT, HIGH).means(
        "Controllers to connect to instead of brokers, as host:port. Cannot be combined with "
        "`bootstrap.servers`."
    ),
    string("client.id", "").means("The name of this client in the logs, metrics and quotas of brokers."),
    integer("receive.buffer.bytes", 64 * KIB, at_least(-1)).means(
        "The receive buffer of a socket (SO_RCVBUF). -1 leaves it to the operating system."
    ),
    long("connections.max.idle.ms", 5 * MINUTE_MS).means(
        "The client closes a connection after this time without traffic. A negative value disables it."
    ),
    integer("default.api.timeout.ms", MINUTE_MS, at_least(0)).means(
        "The default timeout of a call, including retries."
    ),
    integer("retries", INT_MAX, between(0, INT_MAX), LOW).means(
        "The maximum number of retries of a request after a retriable error. `default.api.timeout.ms` is a "
        "second limit."
    ),
    boolean("enable.metrics.push", False, importance=LOW).not_yet(
        "Push client metrics to brokers that subscribe to them."
    ),
)

SETTINGS = CONNECTION + common.SETTINGS
