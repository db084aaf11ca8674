"""Connections between nodes: one for each purpose, shared attempts, backoff, and what happens to open requests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from harness.scripted_cluster import HANG_UP, NOTHING, ScriptedCluster
from penstock.net.node_connections import NodeAddress, NodeConnections
from penstock.net.request_errors import ConnectionRefused, Disconnected, RequestTimedOut, UnsupportedVersion
from penstock.protocol.apis import ApiKey
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

Test = Callable[[ScriptedCluster, NodeConnections], Coroutine[Any, Any, None]]

NODE = NodeAddress(1, "node1", 9092)


def run(test: Test) -> None:
    world = ScriptedCluster(node_ids=(1, 2))
    world.answer(ListGroupsRequest, lambda request, node: ListGroupsResponse(groups=[]))

    async def main() -> None:
        connections = NodeConnections(world.network, client_id="broker-9", rng=random.Random(1))
        try:
            await test(world, connections)
        finally:
            await connections.close()

    world.run(main)


def test_requests_of_one_purpose_share_a_connection() -> None:
    async def test(world: ScriptedCluster, connections: NodeConnections) -> None:
        assert connections.connection(NODE, "fetch") is None
        answers = [connections.ask(NODE, "fetch", ListGroupsRequest()) for _ in range(3)]
        assert await asyncio.gather(*answers) == [ListGroupsResponse(groups=[])] * 3
        assert world.nodes[1].connections == 1
        assert connections.connection(NODE, "fetch") is not None

    run(test)


def test_each_purpose_has_its_own_connection() -> None:
    async def test(world: ScriptedCluster, connections: NodeConnections) -> None:
        await connections.ask(NODE, "fetch", ListGroupsRequest())
        await connections.ask(NODE, "controller", ListGroupsRequest())
        assert world.nodes[1].connections == 2

    run(test)


def test_a_node_with_a_new_address_gets_a_new_connection_and_the_old_one_is_closed() -> None:
    async def test(world: ScriptedCluster, connections: NodeConnections) -> None:
        old = await connections.connect(NODE, "fetch")
        waiting = old.send(ListGroupsRequest())
        new = await connections.connect(NodeAddress(1, "node2", 9092), "fetch")
        with pytest.raises(Disconnected):
            await waiting
        assert old.is_closed
        assert not new.is_closed
        assert world.nodes[2].connections == 1

    run(test)


def test_a_node_that_is_down_is_tried_once_for_all_callers_and_then_after_a_backoff() -> None:
    async def test(world: ScriptedCluster, connections: NodeConnections) -> None:
        world.kill(1)
        loop = asyncio.get_running_loop()
        waits = []
        for _ in range(6):
            began = loop.time()
            failed = await asyncio.gather(
                *(connections.connect(NODE, "fetch") for _ in range(3)), return_exceptions=True
            )
            assert [type(each) for each in failed] == [ConnectionRefused] * 3
            assert "node 1 at node1:9092" in str(failed[0])
            waits.append(loop.time() - began)
        assert waits[0] < 0.04
        assert 0.04 <= waits[1] < waits[2] < waits[3] < waits[4] <= 0.51
        await world.start(1)
        await connections.ask(NODE, "fetch", ListGroupsRequest())

    run(test)


def test_a_lost_connection_fails_its_requests_and_the_next_one_reconnects() -> None:
    async def test(world: ScriptedCluster, connections: NodeConnections) -> None:
        world.answer_in_turn(ListGroupsRequest, HANG_UP)
        with pytest.raises(Disconnected):
            await connections.ask(NODE, "fetch", ListGroupsRequest())
        await connections.ask(NODE, "fetch", ListGroupsRequest())
        assert world.nodes[1].connections == 2

    run(test)


def test_a_request_without_response_times_out_and_closes_the_connection() -> None:
    async def test(world: ScriptedCluster, connections: NodeConnections) -> None:
        world.answer_in_turn(ListGroupsRequest, NOTHING)
        with pytest.raises(RequestTimedOut, match="did not respond to ListGroups within"):
            await connections.ask(NODE, "fetch", ListGroupsRequest(), timeout_s=0.2)
        assert connections.connection(NODE, "fetch") is None

    run(test)


def test_a_request_that_times_out_tells_the_others_on_its_connection_that_the_node_hangs() -> None:
    async def test(world: ScriptedCluster, connections: NodeConnections) -> None:
        world.answer_in_turn(ListGroupsRequest, NOTHING, NOTHING)
        connection = await connections.connect(NODE, "fetch")
        overdue = connection.send(ListGroupsRequest(), timeout_s=0.2)
        other = connection.send(ListGroupsRequest(), timeout_s=5)
        with pytest.raises(RequestTimedOut):
            await overdue
        with pytest.raises(Disconnected, match=r"closed because .* did not respond to ListGroups") as failed:
            await other
        assert isinstance(failed.value.__cause__, TimeoutError)

    run(test)


def test_waiting_for_a_connection_counts_towards_the_timeout() -> None:
    async def test(world: ScriptedCluster, connections: NodeConnections) -> None:
        world.kill(1)
        for _ in range(5):
            with pytest.raises(Disconnected):
                await connections.connect(NODE, "fetch")
        began = asyncio.get_running_loop().time()
        with pytest.raises(RequestTimedOut):
            await connections.ask(NODE, "fetch", ListGroupsRequest(), timeout_s=0.01)
        assert asyncio.get_running_loop().time() - began == pytest.approx(0.01)

    run(test)


def test_an_api_that_the_node_does_not_serve_is_an_error_without_a_request() -> None:
    async def test(world: ScriptedCluster, connections: NodeConnections) -> None:
        del world.versions[ApiKey.LIST_GROUPS]
        with pytest.raises(UnsupportedVersion, match="does not serve ListGroups"):
            await connections.ask(NODE, "fetch", ListGroupsRequest())
        assert connections.connection(NODE, "fetch") is not None

    run(test)


def test_a_caller_that_gives_up_does_not_cancel_the_attempt_of_others() -> None:
    async def test(world: ScriptedCluster, connections: NodeConnections) -> None:
        first = asyncio.ensure_future(connections.connect(NODE, "fetch"))
        second = asyncio.ensure_future(connections.connect(NODE, "fetch"))
        await asyncio.sleep(0)
        first.cancel()
        assert not (await second).is_closed

    run(test)


def test_closing_ends_attempts_and_requests() -> None:
    async def test(world: ScriptedCluster, connections: NodeConnections) -> None:
        world.answer_in_turn(ListGroupsRequest, NOTHING)
        open_one = await connections.connect(NODE, "fetch")
        waiting = open_one.send(ListGroupsRequest())
        opening = asyncio.ensure_future(connections.connect(NODE, "quorum"))
        await asyncio.sleep(0)
        await connections.close()
        for each in (waiting, opening):
            with pytest.raises(Disconnected):
                await each
        with pytest.raises(Disconnected, match="stopping"):
            await connections.connect(NODE, "fetch")

    run(test)


def test_a_node_that_does_not_answer_gets_more_time_with_every_attempt() -> None:
    async def test(world: ScriptedCluster, connections: NodeConnections) -> None:
        world.answer(ApiVersionsRequest, lambda request, node: NOTHING)
        loop = asyncio.get_running_loop()
        waits = []
        for _ in range(4):
            began = loop.time()
            with pytest.raises(Disconnected, match="no connection within"):
                await connections.connect(NODE, "fetch")
            waits.append(round(loop.time() - began))
        assert 8 <= waits[0] <= 12
        assert waits[0] < waits[1] < 30
        assert 24 <= waits[3] <= 31

    run(test)
