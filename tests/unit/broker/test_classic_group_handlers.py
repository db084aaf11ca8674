"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup if the coordinator refuses, now or later.

`wire/test_classic_groups.py` compares the decisions of the coordinator with Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

import pytest

from harness.datapath import make_context
from penstock.broker.broker import Broker
from penstock.broker.handlers import heartbeat, join_group, leave_group, sync_group
from penstock.metadata.errors import Refused
from penstock.protocol.codec import codec
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.sync_group import SyncGroupRequest

JOIN = JoinGroupRequest(
    group_id="readers",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=10_000,
    member_id="me",
    protocol_type="consumer",
    protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
)
SYNC = SyncGroupRequest(
    group_id="readers",
    generation_id=1,
    member_id="me",
    protocol_type="consumer",
    protocol_name="range",
    assignments=[],
)
HEARTBEAT = HeartbeatRequest(group_id="readers", generation_id=1, member_id="me")
LEAVE = LeaveGroupRequest(group_id="readers", members=[MemberIdentity(member_id="me")])

ALL = [
    pytest.param(join_group.handle, JOIN, 9, id="join"),
    pytest.param(sync_group.handle, SYNC, 5, id="sync"),
    pytest.param(heartbeat.handle, HEARTBEAT, 4, id="heartbeat"),
    pytest.param(leave_group.handle, LEAVE, 5, id="leave"),
]

Handle = Callable[[Broker, Any, Any], Any]


class RefusingCoordinator:
    """Refuses everything: at once, or after the records were written."""

    def __init__(self, error: ErrorCode, *, is_late: bool) -> None:
        self._error = error
        self._is_late = is_late

    def write(self, group_id: str, decide: object) -> asyncio.Future[Any]:
        refusal = Refused(self._error)
        if not self._is_late:
            raise refusal
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_exception(refusal)
        return future


async def ask(broker: Broker, handle: Handle, request: Any, version: int) -> Any:
    answer = handle(broker, request, make_context(version))
    response = await answer if isawaitable(answer) else answer
    codec(type(response), version).encode(response)
    return response


@pytest.mark.parametrize(("handle", "request_", "version"), ALL)
@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("error", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
async def test_a_refusal_is_the_error_of_the_response(
    broker: Broker, handle: Handle, request_: Any, version: int, is_late: bool, error: ErrorCode
) -> None:
    broker.groups = RefusingCoordinator(error, is_late=is_late)  # type: ignore[assignment]

    assert (await ask(broker, handle, request_, version)).error_code is error


@pytest.mark.parametrize(("handle", "request_", "version"), ALL)
async def test_while_groups_are_loaded_only_heartbeats_are_good(
    broker: Broker, handle: Handle, request_: Any, version: int
) -> None:
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    broker.groups = RefusingCoordinator(error, is_late=False)  # type: ignore[assignment]

    answered = (await ask(broker, handle, request_, version)).error_code

    assert answered is (ErrorCode.NONE if request_ is HEARTBEAT else error)


async def test_a_refused_heartbeat_needs_no_task(broker: Broker) -> None:
    broker.groups = RefusingCoordinator(ErrorCode.NOT_COORDINATOR, is_late=False)  # type: ignore[assignment]

    assert isinstance(heartbeat.handle(broker, HEARTBEAT, make_context(4)), HeartbeatResponse)


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("is_late", [False, True])
async def test_before_version_7_a_refused_join_names_an_empty_protocol(
    broker: Broker, version: int, is_late: bool
) -> None:
    broker.groups = RefusingCoordinator(ErrorCode.NOT_COORDINATOR, is_late=is_late)  # type: ignore[assignment]

    assert (await ask(broker, join_group.handle, JOIN, version)).protocol_name == ""


async def test_an_invalid_request_is_refused_without_the_coordinator(broker: Broker) -> None:
    broker.groups = None  # type: ignore[assignment]
    nameless = JoinGroupRequest(
        group_id="", session_timeout_ms=1, member_id="me", protocol_type="consumer", protocols=[]
    )
    hasty = JoinGroupRequest(
        group_id="readers", session_timeout_ms=1, member_id="me", protocol_type="consumer", protocols=[]
    )

    assert (await ask(broker, join_group.handle, nameless, 9)).error_code is ErrorCode.INVALID_GROUP_ID
    refused = await ask(broker, join_group.handle, hasty, 9)
    assert (refused.error_code, refused.member_id) == (ErrorCode.INVALID_SESSION_TIMEOUT, "me")
