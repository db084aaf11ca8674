"""Connections to nodes: which address is tried, for how long, and the errors."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from harness.scripted_cluster import ScriptedCluster
from penstock.client import errors
from penstock.client.cluster import Node
from penstock.client.security import Security
from penstock.client.settings import AdminSettings
from penstock.client.transport import Transport
from penstock.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from penstock.runtime.backoff import Backoff
from penstock.runtime.network import Listening, Stream, StreamHandler

Test = Callable[["Reached"], Coroutine[Any, Any, None]]


class Reached:
    """A network in which some hosts drop every attempt, with its own DNS."""

    def __init__(self, world: ScriptedCluster) -> None:
        self.world = world
        self.names: dict[str, list[str]] = {}
        self.swallowed: set[str] = set()
        self.tried: list[str] = []
        self.lost: list[Node] = []
        self.transport = Transport(
            self,
            client_id="test",
            security=Security(AdminSettings.of("x:1")),
            reconnect=Backoff(50, 1000, draw=lambda: 0.5),
            setup=Backoff(10_000, 30_000, draw=lambda: 0.5),
            request_timeout_s=30,
            idle_s=540,
            resolve=self.resolve,
            on_disconnect=self.lost.append,
        )

    async def resolve(self, host: str, port: int) -> list[str]:
        if host not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.names[host]

    async def listen(self, host: str, port: int, accept: Any) -> Listening:
        raise AssertionError("a client does not listen")

    async def connect(self, host: str, port: int, handler: Callable[[Stream], StreamHandler]) -> Stream:
        self.tried.append(host)
        if host in self.swallowed:
            await asyncio.get_running_loop().create_future()
        return await self.world.network.connect(host, port, handler)


def run(test: Test) -> None:
    world = ScriptedCluster()
    world.answer(ListGroupsRequest, lambda request, node: ListGroupsResponse(groups=[]))

    async def main() -> None:
        reached = Reached(world)
        try:
            await test(reached)
        finally:
            await reached.transport.close()

    world.run(main)


NODE = Node(1, "broker", 9092)


def test_every_address_of_a_name_is_tried() -> None:
    async def test(reached: Reached) -> None:
        reached.names["broker"] = ["nobody", "nowhere", "node1"]
        connection = await reached.transport.connect(1, NODE)
        await connection.ask(ListGroupsRequest())
        assert reached.tried == ["nobody", "nowhere", "node1"]

    run(test)


def test_an_address_that_drops_packets_is_given_up_after_the_setup_timeout() -> None:
    async def test(reached: Reached) -> None:
        loop = asyncio.get_running_loop()
        reached.names["broker"] = ["silent", "node1"]
        reached.swallowed.add("silent")
        began = loop.time()
        await reached.transport.connect(1, NODE)
        assert loop.time() - began == pytest.approx(10, abs=0.1)

    run(test)


def test_an_address_that_drops_packets_is_warned_of_before_its_setup_timeout(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(reached: Reached) -> None:
        reached.names["broker"] = ["silent"]
        reached.swallowed.add("silent")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5.1):
                await reached.transport.connect(1, NODE)
        (warning,) = [record.getMessage() for record in caplog.records]
        assert warning.endswith("no broker has answered for 5 s, still trying: broker:9092: no response yet")

    run(test)


def test_one_unreachable_broker_of_several_causes_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def test(reached: Reached) -> None:
        reached.names |= {"broker": ["node1"], "other": ["silent"]}
        reached.swallowed.add("silent")
        await reached.transport.connect(1, NODE)
        with pytest.raises(errors.Disconnected):
            await reached.transport.connect(2, Node(2, "other", 9092))
        assert caplog.records == []

    run(test)


def test_the_setup_timeout_grows_up_to_its_limit() -> None:
    async def test(reached: Reached) -> None:
        loop = asyncio.get_running_loop()
        reached.names["broker"] = ["silent"]
        reached.swallowed.add("silent")
        waits = []
        for _ in range(4):
            began = loop.time()
            with pytest.raises(errors.Disconnected, match="no connection within"):
                await reached.transport.connect(1, NODE)
            waits.append(round(loop.time() - began))
        assert waits == [10, 20, 30, 30]

    run(test)


def test_an_unresolvable_name_is_reported() -> None:
    async def test(reached: Reached) -> None:
        with pytest.raises(errors.Disconnected, match=r"broker:9092.*the host name cannot be resolved"):
            await reached.transport.connect(1, NODE)
        assert reached.lost == [NODE]

    run(test)


def test_an_invalid_host_name_is_reported() -> None:
    async def test(reached: Reached) -> None:
        reached.names["broker"] = []

        async def refuse(host: str, port: int) -> list[str]:
            raise UnicodeError("label empty or too long")

        reached.transport._resolve = refuse
        with pytest.raises(errors.Disconnected, match="not a valid host name"):
            await reached.transport.connect(1, NODE)

    run(test)


def test_a_node_that_moved_is_reached_at_its_new_address() -> None:
    async def test(reached: Reached) -> None:
        reached.names |= {"broker": ["node1"], "elsewhere": ["node1"]}
        first = await reached.transport.connect(1, NODE)
        second = await reached.transport.connect(1, Node(1, "elsewhere", 9092))
        assert second is not first
        await first.ended(timeout_s=1)
        assert first.is_closed

    run(test)


def test_many_callers_share_one_attempt() -> None:
    async def test(reached: Reached) -> None:
        reached.names["broker"] = ["node1"]
        connections = await asyncio.gather(*(reached.transport.connect(1, NODE) for _ in range(10)))
        assert len(set(connections)) == 1
        assert reached.tried == ["node1"]

    run(test)


def test_a_node_may_have_several_connections() -> None:
    async def test(reached: Reached) -> None:
        reached.names["broker"] = ["node1"]
        assert await reached.transport.connect(1, NODE) is not await reached.transport.connect(2**30, NODE)

    run(test)


def test_a_drop_during_a_connection_attempt_fails_its_waiters() -> None:
    async def test(reached: Reached) -> None:
        reached.names["broker"] = ["silent"]
        reached.swallowed.add("silent")
        waiting = asyncio.create_task(reached.transport.connect(1, NODE))
        await asyncio.sleep(1)
        reached.transport.drop(1)
        with pytest.raises(errors.Disconnected, match="cancelled"):
            await waiting

    run(test)


def test_a_program_that_ends_while_it_connects_ends() -> None:
    """As asyncio.run() does it: all tasks are cancelled, the waiter and what it waits for."""

    async def test(reached: Reached) -> None:
        reached.names["broker"] = ["silent"]
        reached.swallowed.add("silent")
        waiting = asyncio.create_task(reached.transport.connect(1, NODE))
        await asyncio.sleep(1)
        (opening,) = [task for task in asyncio.all_tasks() if task.get_name().startswith("penstock-connect")]
        opening.cancel()
        waiting.cancel()

        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(test)


def test_a_closed_transport_opens_nothing() -> None:
    async def test(reached: Reached) -> None:
        await reached.transport.close()
        with pytest.raises(errors.ClientClosed):
            await reached.transport.connect(1, NODE)

    run(test)


def test_a_caller_that_stops_waiting_does_not_disturb_closing() -> None:
    async def test(reached: Reached) -> None:
        reached.names["broker"] = ["node1"]
        connection = await reached.transport.connect(1, NODE)
        connection.close()
        waiting = asyncio.create_task(connection.ended(timeout_s=0))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(1)
        assert connection.is_closed

    run(test)
