"""What a failed request tells about the other node."""

from __future__ import annotations

import asyncio
import random

import pytest

from harness.scripted_cluster import HANG_UP, NOTHING, ScriptedCluster
from penstock.net.node_connections import NodeConnections
from penstock.net.request_errors import RequestFailed
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.quorum.messages import Peer
from penstock.quorum.peers import NetworkPeers, is_process_gone

NODE = Peer(1, "node1", 9092)


def failures(world: ScriptedCluster, *timeouts_ms: int, is_down: bool = False) -> list[RequestFailed]:
    """The errors of requests that are sent together, on one connection."""
    failed: list[RequestFailed] = []

    async def main() -> None:
        connections = NodeConnections(world.network, client_id="controller-9", rng=random.Random(1))
        peers = NetworkPeers(connections)
        if is_down:
            world.kill(NODE.node_id)

        def on_done(response: object, error: RequestFailed | None) -> None:
            assert error is not None
            failed.append(error)

        for timeout_ms in timeouts_ms:
            peers.send(NODE, ListGroupsRequest(), timeout_ms=timeout_ms, on_done=on_done)
        async with asyncio.timeout(60):
            while len(failed) < len(timeouts_ms):
                await asyncio.sleep(0.01)
        await peers.close()
        await connections.close()

    world.run(main)
    return failed


def test_a_node_that_hangs_is_not_gone_for_any_request_on_its_connection() -> None:
    world = ScriptedCluster(node_ids=(1,))
    world.answer_in_turn(ListGroupsRequest, NOTHING, NOTHING)

    failed = failures(world, 200, 5_000)

    assert [is_process_gone(error) for error in failed] == [False, False]


@pytest.mark.parametrize("is_down", [False, True])
def test_a_node_that_closes_or_refuses_the_connection_is_gone(is_down: bool) -> None:
    world = ScriptedCluster(node_ids=(1,))
    world.answer_in_turn(ListGroupsRequest, HANG_UP)

    (error,) = failures(world, 5_000, is_down=is_down)

    assert is_process_gone(error)
