"""Changes at run time: each operation and its errors."""

from __future__ import annotations

import pytest

from penstock.config.alter import (
    Change,
    Operation,
    alter_broker,
    alter_client_metrics,
    alter_cluster,
    alter_group,
    alter_topic,
)
from penstock.config.broker import BrokerSettings
from penstock.config.errors import BadSetting

SET, DELETE, APPEND, SUBTRACT = Operation
BROKER = BrokerSettings.load({})


@pytest.mark.parametrize(
    ("current", "change", "altered"),
    [
        ({}, Change("retention.ms", SET, "5"), {"retention.ms": "5"}),
        ({"retention.ms": "4"}, Change("retention.ms", SET, "5"), {"retention.ms": "5"}),
        ({"retention.ms": "4"}, Change("retention.ms", DELETE), {}),
        ({}, Change("retention.ms", DELETE), {}),
        ({}, Change("no.such.setting", DELETE), {}),
        ({}, Change("cleanup.policy", APPEND, "compact"), {"cleanup.policy": "delete,compact"}),
        (
            {"cleanup.policy": "compact"},
            Change("cleanup.policy", APPEND, "compact"),
            {"cleanup.policy": "compact"},
        ),
        (
            {"cleanup.policy": "compact,delete"},
            Change("cleanup.policy", SUBTRACT, "delete"),
            {"cleanup.policy": "compact"},
        ),
        ({}, Change("cleanup.policy", SUBTRACT, "delete"), {"cleanup.policy": ""}),
        (
            {"leader.replication.throttled.replicas": "0:1"},
            Change("leader.replication.throttled.replicas", APPEND, "1:1,2:1"),
            {"leader.replication.throttled.replicas": "0:1,1:1,2:1"},
        ),
    ],
)
def test_a_topic_is_altered(current: dict[str, str], change: Change, altered: dict[str, str]) -> None:
    assert alter_topic(BROKER, current, [change]) == altered


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Change("retention.ms", SET, "soon"), "retention.ms=soon: must be"),
        (Change("retention.ms", SET, None), "retention.ms: SET needs a value"),
        (Change("retention.ms", APPEND, "5"), "retention.ms: is not a list, so APPEND is not possible"),
        (Change("no.such.setting", SUBTRACT, "5"), "is not a list, so SUBTRACT is not possible"),
        (Change("no.such.setting", SET, "5"), "not a setting of a topic"),
        (Change("cleanup.policy", APPEND, "remove"), "cleanup.policy=delete,remove"),
    ],
)
def test_a_bad_change_of_a_topic_is_refused(change: Change, message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        alter_topic(BROKER, {}, [change])


def test_unchanged_settings_stay_and_are_checked_with_the_rest() -> None:
    current = {"min.compaction.lag.ms": "6"}

    with pytest.raises(BadSetting, match=r"max.compaction.lag.ms=5"):
        alter_topic(BROKER, current, [Change("max.compaction.lag.ms", SET, "5")])
    assert current == {"min.compaction.lag.ms": "6"}


def test_one_broker_is_altered() -> None:
    running = BROKER.with_dynamic(broker={"log.segment.bytes": "2000000"})

    altered = alter_broker(running, [Change("log.cleanup.policy", APPEND, "compact")])

    assert altered == {"log.segment.bytes": "2000000", "log.cleanup.policy": "delete,compact"}


def test_all_brokers_are_altered() -> None:
    running = BROKER.with_dynamic(
        cluster={"log.segment.bytes": "2000000"}, broker={"log.segment.bytes": "3000000"}
    )

    assert alter_cluster(running, [Change("log.segment.bytes", SET, "4000000")]) == {
        "log.segment.bytes": "4000000"
    }


def test_a_read_only_setting_is_not_altered() -> None:
    with pytest.raises(BadSetting, match="cannot be changed dynamically"):
        alter_broker(BROKER, [Change("num.partitions", SET, "5")])


def test_a_group_is_altered() -> None:
    assert alter_group(BROKER, {}, [Change("share.delivery.count.limit", SET, "3")]) == {
        "share.delivery.count.limit": "3"
    }


def test_a_metrics_subscription_is_altered() -> None:
    assert alter_client_metrics({}, [Change("metrics", APPEND, "a,b")]) == {"metrics": "a,b"}
    with pytest.raises(BadSetting, match="from 100 to 3600000"):
        alter_client_metrics({}, [Change("interval.ms", SET, "5")])
    with pytest.raises(BadSetting, match="not a setting of a metrics subscription"):
        alter_client_metrics({}, [Change("interval", SET, "5")])
