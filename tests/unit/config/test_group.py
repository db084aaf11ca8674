"""A group's settings over the broker's, and within its bounds."""

from __future__ import annotations

import pytest

from penstock.config.broker import BrokerSettings
from penstock.config.errors import BadSetting
from penstock.config.group import GroupSettings, validate_group_overrides

BROKER = BrokerSettings.load({"group.share.delivery.count.limit": "7"})


def test_a_silent_group_has_the_brokers_values() -> None:
    group = GroupSettings.resolve(BROKER, {})

    assert group.get("share.delivery.count.limit") == 7
    assert group.get("share.isolation.level") == "read_uncommitted"


def test_overrides_of_a_group_take_precedence() -> None:
    assert (
        validate_group_overrides(BROKER, {"share.delivery.count.limit": "3"}).get(
            "share.delivery.count.limit"
        )
        == 3
    )


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"share.delivery.count": "3"}, "not a setting of a group; did you mean share.delivery.count.limit"),
        ({"share.delivery.count.limit": "11"}, "between group.share.min.delivery.count.limit=2 and .*=10"),
        ({"share.auto.offset.reset": "yesterday"}, "by_duration"),
        ({"streams.num.standby.replicas": "3"}, "at most group.streams.max.standby.replicas=2"),
    ],
)
def test_values_outside_of_the_brokers_bounds_are_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(BadSetting, match=message):
        validate_group_overrides(BROKER, overrides)


def test_a_heartbeat_comes_before_the_session_ends() -> None:
    broker = BrokerSettings.load({"group.consumer.max.heartbeat.interval.ms": "60000"})

    with pytest.raises(BadSetting, match=r"must be less than consumer.session.timeout.ms=45000"):
        validate_group_overrides(broker, {"consumer.heartbeat.interval.ms": "45000"})
