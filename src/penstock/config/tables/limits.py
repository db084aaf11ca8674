"""Quotas and metrics."""

from __future__ import annotations

from penstock.config.declare import (
    CLUSTER_WIDE,
    DISTINCT,
    LOW,
    MIB,
    SECOND_MS,
    at_least,
    class_name,
    integer,
    items,
    long,
    string,
)

QUOTAS = (
    integer("quota.window.num", 11, at_least(1), LOW).not_yet(
        "The number of windows over which the usage of a client is compared with its quota."
    ),
    integer("quota.window.size.seconds", 1, at_least(1), LOW).not_yet(
        "The length of one window of a client's usage."
    ),
    integer("replication.quota.window.num", 11, at_least(1), LOW).not_yet(
        "The number of windows over which the rate of replication is measured."
    ),
    integer("replication.quota.window.size.seconds", 1, at_least(1), LOW).not_yet(
        "The length of one window of the rate of replication."
    ),
    integer("alter.log.dirs.replication.quota.window.num", 11, at_least(1), LOW).not_yet(
        "The number of windows over which the rate of moves between log directories is measured."
    ),
    integer("alter.log.dirs.replication.quota.window.size.seconds", 1, at_least(1), LOW).not_yet(
        "The length of one window of the rate of moves between log directories."
    ),
    integer("controller.quota.window.num", 11, at_least(1), LOW).not_yet(
        "The number of windows over which a client's changes of topics are compared with its quota."
    ),
    integer("controller.quota.window.size.seconds", 1, at_least(1), LOW).not_yet(
        "The length of one window of a client's changes of topics."
    ),
    class_name("client.quota.callback.class", importance=LOW).ignored("A Java class that computes quotas."),
)

METRICS = (
    integer("telemetry.max.bytes", MIB, at_least(1), LOW).not_yet(
        "The maximum size of the metrics that a client pushes (KIP-714)."
    ),
    items(
        "metric.reporters", ("org.apache.kafka.common.metrics.JmxReporter",), DISTINCT, LOW, CLUSTER_WIDE
    ).ignored("Java classes that report metrics."),
    integer("metrics.num.samples", 2, at_least(1), LOW).ignored(
        "The number of samples from which Kafka computes a metric."
    ),
    long("metrics.sample.window.ms", 30 * SECOND_MS, at_least(1), LOW).ignored(
        "The length of one sample of a Kafka metric."
    ),
    string("metrics.recording.level", "INFO", importance=LOW).ignored(
        "The level of detail of Kafka's metrics."
    ),
    items("kafka.metrics.reporters", (), DISTINCT, LOW).ignored(
        "Java classes that report Kafka's older metrics."
    ),
    integer("kafka.metrics.polling.interval.secs", 10, at_least(1), LOW).ignored(
        "How often these classes report."
    ),
)

SETTINGS = QUOTAS + METRICS
