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
        "Over how many samples a client's use is measured against its quota."
    ),
    integer("quota.window.size.seconds", 1, at_least(1), LOW).not_yet(
        "How long one sample of a client's use is."
    ),
    integer("replication.quota.window.num", 11, at_least(1), LOW).not_yet(
        "Over how many samples replication is measured against its throttle."
    ),
    integer("replication.quota.window.size.seconds", 1, at_least(1), LOW).not_yet(
        "How long one sample of replication is."
    ),
    integer("alter.log.dirs.replication.quota.window.num", 11, at_least(1), LOW).not_yet(
        "Over how many samples moves between directories are measured against their throttle."
    ),
    integer("alter.log.dirs.replication.quota.window.size.seconds", 1, at_least(1), LOW).not_yet(
        "How long one sample of moves between directories is."
    ),
    integer("controller.quota.window.num", 11, at_least(1), LOW).not_yet(
        "Over how many samples a client's changes of topics are measured against its quota."
    ),
    integer("controller.quota.window.size.seconds", 1, at_least(1), LOW).not_yet(
        "How long one sample of a client's changes of topics is."
    ),
    class_name("client.quota.callback.class", importance=LOW).no_meaning(
        "A Java class that decides over quotas."
    ),
)

METRICS = (
    integer("telemetry.max.bytes", MIB, at_least(1), LOW).not_yet(
        "The largest report of its metrics that a client may send (KIP-714)."
    ),
    items(
        "metric.reporters", ("org.apache.kafka.common.metrics.JmxReporter",), DISTINCT, LOW, CLUSTER_WIDE
    ).no_meaning("Java classes that report metrics."),
    integer("metrics.num.samples", 2, at_least(1), LOW).no_meaning(
        "Over how many samples Kafka computes its metrics."
    ),
    long("metrics.sample.window.ms", 30 * SECOND_MS, at_least(1), LOW).no_meaning(
        "How long one sample of Kafka's metrics is."
    ),
    string("metrics.recording.level", "INFO", importance=LOW).no_meaning(
        "How many of its metrics Kafka records."
    ),
    items("kafka.metrics.reporters", (), DISTINCT, LOW).no_meaning(
        "Java classes that report Kafka's older metrics."
    ),
    integer("kafka.metrics.polling.interval.secs", 10, at_least(1), LOW).no_meaning(
        "How often these classes report."
    ),
)

SETTINGS = QUOTAS + METRICS
