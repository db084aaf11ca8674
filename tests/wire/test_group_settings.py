"""A group's own settings are in force for it, and for it alone. Also run against Apache Kafka (`--broker=kafka`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.admin import new_name
from harness.brokers import Broker
from harness.group_requests import await_coordinator
from harness.requests import ask
from harness.waiting import wait_until
from harness.wire import WireConnection
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

GROUP = 32
SET, DELETE = 0, 1
INTERVAL = "consumer.heartbeat.interval.ms"
DEFAULT_MS, OTHER_MS = 5_000, 7_000


@pytest.fixture
def connection(cluster: Broker) -> Iterator[WireConnection]:
    with WireConnection(cluster.port) as connection:
        yield connection


def alter(connection: WireConnection, group: str, operation: int, value: str | None) -> ErrorCode:
    resource = AlterConfigsResource(
        resource_type=GROUP,
        resource_name=group,
        configs=[AlterableConfig(name=INTERVAL, config_operation=operation, value=value)],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    (response,) = ask(connection, request, 1).responses
    return ErrorCode(response.error_code)


def interval_of(connection: WireConnection, group: str) -> int:
    """The heartbeat interval in the response to a member that joins and leaves."""
    await_coordinator(connection, group)
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=["nothing"],
        topic_partitions=[],
    )
    joined = ask(connection, request, 1)
    assert joined.error_code is ErrorCode.NONE, joined.error_message
    ask(connection, ConsumerGroupHeartbeatRequest(group_id=group, member_id="member", member_epoch=-1), 1)
    interval_ms: int = joined.heartbeat_interval_ms
    return interval_ms


def test_a_setting_of_one_group_is_in_force_for_it_alone(connection: WireConnection) -> None:
    group, other = new_name("set"), new_name("unset")
    assert interval_of(connection, group) == DEFAULT_MS

    assert alter(connection, group, SET, str(OTHER_MS)) is ErrorCode.NONE
    wait_until(lambda: interval_of(connection, group) == OTHER_MS, "the setting is in force")
    assert interval_of(connection, other) == DEFAULT_MS

    assert alter(connection, group, DELETE, None) is ErrorCode.NONE
    wait_until(lambda: interval_of(connection, group) == DEFAULT_MS, "it is in force no more")


def test_a_setting_out_of_bounds_is_refused(connection: WireConnection) -> None:
    group = new_name("bounded")

    assert alter(connection, group, SET, "1") is ErrorCode.INVALID_CONFIG
    assert interval_of(connection, group) == DEFAULT_MS
