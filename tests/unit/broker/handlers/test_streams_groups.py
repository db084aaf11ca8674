"""StreamsGroupHeartbeat and StreamsGroupDescribe as a broker serves them; a group's own rules are tested elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from harness.streams_groups import GROUP, simple_topology
from penstock.broker.broker import Broker
from penstock.coordinator.group.streams.configuring import StatusCode
from penstock.coordinator.group.streams.member import StreamsMember
from penstock.coordinator.group.streams.responses import StreamsHeartbeat, heartbeat_response, status
from penstock.coordinator.group.streams.topology import InternalTopic
from penstock.metadata.errors import Refused
from penstock.metadata.records import FeatureLevelRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from penstock.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from unit.broker.handlers.conftest import Ask
from unit.controller.nodes import ControllerNode

DESCRIBE = StreamsGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=False)
MISSING = StatusCode.MISSING_INTERNAL_TOPICS


def heartbeat(**fields: Any) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(
        **{
            "group_id": GROUP,
            "member_id": "one",
            "member_epoch": 0,
            "endpoint_information_epoch": 0,
            "rebalance_timeout_ms": 1000,
            "topology": simple_topology(),
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            **fields,
        }
    )


def decided(*missing: InternalTopic, timeout_ms: int = 5000) -> StreamsHeartbeat:
    """A heartbeat result with missing internal topics."""
    response = heartbeat_response(
        StreamsMember("one", epoch=2),
        heartbeat_interval_ms=timeout_ms,
        statuses=[status(MISSING, "missing")] if missing else [],
        endpoint_epoch=0,
        endpoints=None,
        with_tasks=True,
    )
    return StreamsHeartbeat(response, missing)


class Groups:
    """A coordinator with a configurable result."""

    def __init__(self, answers: Callable[[], Any]) -> None:
        self._answers = answers

    def write(self, group_id: str, decide: object) -> Any:
        assert group_id == GROUP
        return self._answers()

    read = write


@pytest.fixture
def let_groups(admin_broker: Broker) -> Callable[[Callable[[], Any]], None]:
    def let(answers: Callable[[], Any]) -> None:
        admin_broker.groups = Groups(answers)  # type: ignore[assignment]

    return let


Let = Callable[[Callable[[], Any]], None]


def refuse(error: ErrorCode) -> Any:
    raise Refused(error, "because")


async def test_both_are_unsupported_where_the_protocol_is_not_enabled(ask: Ask, admin_broker: Broker) -> None:
    admin_broker.settings = type(admin_broker.settings).load(
        {"group.coordinator.rebalance.protocols": "classic,consumer"}
    )

    assert (await ask(heartbeat())).error_code is ErrorCode.UNSUPPORTED_VERSION
    assert (await ask(DESCRIBE)).groups[0].error_code is ErrorCode.UNSUPPORTED_VERSION


async def test_both_are_unsupported_where_the_feature_is_not_enabled(
    ask: Ask, controller_node: ControllerNode
) -> None:
    off = FeatureLevelRecord(name="streams.version", feature_level=0)
    image = controller_node.image
    controller_node.cache.publish(image.apply([off], offset=image.offset + 1, epoch=image.epoch))

    assert (await ask(heartbeat())).error_code is ErrorCode.UNSUPPORTED_VERSION
    assert (await ask(DESCRIBE)).groups[0].error_code is ErrorCode.UNSUPPORTED_VERSION


async def test_a_wrong_request_does_not_reach_the_coordinator(ask: Ask) -> None:
    response = await ask(heartbeat(instance_id="static"))

    assert response.error_code is ErrorCode.INVALID_REQUEST
    assert "Static members" in response.error_message


async def test_a_refusal_becomes_an_error_response(ask: Ask, let_groups: Let) -> None:
    let_groups(lambda: refuse(ErrorCode.NOT_COORDINATOR))

    response = await ask(heartbeat())
    assert (response.error_code, response.error_message) == (ErrorCode.NOT_COORDINATOR, "because")
    (group,) = (await ask(DESCRIBE)).groups
    assert (group.error_code, group.error_message) == (ErrorCode.NOT_COORDINATOR, "because")


async def test_a_response_may_be_late_or_never_come(ask: Ask, let_groups: Let) -> None:
    later: asyncio.Future[StreamsHeartbeat] = asyncio.get_running_loop().create_future()
    let_groups(lambda: later)
    waiting = asyncio.ensure_future(ask(heartbeat()))
    await asyncio.sleep(0)
    assert not waiting.done()
    later.set_result(decided())
    assert (await waiting).member_epoch == 2

    never: asyncio.Future[StreamsHeartbeat] = asyncio.get_running_loop().create_future()
    never.set_exception(Refused(ErrorCode.NOT_COORDINATOR))
    let_groups(lambda: never)
    assert (await ask(heartbeat())).error_code is ErrorCode.NOT_COORDINATOR


async def test_missing_topics_are_created_with_the_settings_of_the_topology(
    ask: Ask, let_groups: Let, controller_node: ControllerNode
) -> None:
    topic = InternalTopic("counts", 3, 0, (("cleanup.policy", "compact"),))
    let_groups(lambda: decided(topic, InternalTopic("words", 2, 1, ())))

    first = await ask(heartbeat())
    again = await ask(heartbeat())

    image = controller_node.image
    assert len(image.topics.by_name["counts"].partitions) == 3
    assert len(image.topics.by_name["words"].partitions) == 2
    assert [dict(settings) for resource, settings in image.configs.items() if resource.name == "counts"] == [
        {"cleanup.policy": "compact"}
    ]
    # Another member may ask for the same: that they are there is no failure.
    assert [each.status_detail for each in (*first.status, *again.status)] == ["missing", "missing"]


async def test_the_status_says_why_topics_could_not_be_created(ask: Ask, let_groups: Let) -> None:
    let_groups(lambda: decided(InternalTopic("counts", 1, 9, ()), InternalTopic("words", 1, 1, ())))

    (reported,) = (await ask(heartbeat())).status

    assert reported.status_code == MISSING
    assert "counts (" in reported.status_detail
    assert "words" not in reported.status_detail


async def test_the_status_reports_a_controller_that_refuses(ask: Ask, let_groups: Let) -> None:
    let_groups(lambda: decided(InternalTopic("counts", 1, 1, ()), timeout_ms=0))

    (reported,) = (await ask(heartbeat())).status

    assert reported.status_detail.startswith("missing; they could not be created: counts (")
