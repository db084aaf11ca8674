"""A network whose connections can be cut: silence while it is cut, and everything arrives when it heals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from penstock.net.sockets import SocketNetwork
from penstock.runtime.network import Listening, Stream, StreamHandler
from penstock.testing.partitions import PartitionedNetwork


class Peer:
    """One end of a connection, which keeps what arrives."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.received_bytes = b""
        self.is_closed = False
        self._buffer = bytearray(1024)

    def lend_buffer(self) -> memoryview:
        return memoryview(self._buffer)

    def received(self, size: int) -> None:
        self.received_bytes += bytes(self._buffer[:size])

    def drained(self) -> None:
        pass

    def closed(self, reason: BaseException | None) -> None:
        self.is_closed = True


class World:
    def __init__(self, listening: Listening, accepted: list[Peer]) -> None:
        self.port = listening.port
        self.accepted = accepted
        self.network = PartitionedNetwork(SocketNetwork())

    async def connect(self) -> Peer:
        made: list[Peer] = []

        def make(stream: Stream) -> StreamHandler:
            made.append(Peer(stream))
            return made[0]

        await self.network.connect("127.0.0.1", self.port, make)
        await until(lambda: len(self.accepted) > 0)
        return made[0]


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0.001)


async def quiet() -> None:
    """Long enough for bytes on the loopback to arrive, if they were sent."""
    for _ in range(50):
        await asyncio.sleep(0.001)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    accepted: list[Peer] = []

    def accept(stream: Stream) -> StreamHandler:
        accepted.append(Peer(stream))
        return accepted[-1]

    listening = await SocketNetwork().listen("127.0.0.1", 0, accept)
    listening.start()
    world = World(listening, accepted)
    yield world
    listening.close()
    for peer in accepted:
        peer.stream.abort()


async def test_bytes_flow_both_ways_unless_the_port_is_cut(world: World) -> None:
    world.network.cut([1])
    here = await world.connect()
    (there,) = world.accepted
    here.stream.send([b"ping"])
    await until(lambda: there.received_bytes == b"ping")
    there.stream.send([b"pong"])
    await until(lambda: here.received_bytes == b"pong")
    here.stream.abort()


async def test_while_it_is_cut_nothing_arrives_and_after_it_heals_everything_does(world: World) -> None:
    here = await world.connect()
    (there,) = world.accepted
    world.network.cut([world.port])
    here.stream.send([b"one ", b"two"])
    there.stream.send([b"three"])
    await quiet()
    assert (here.received_bytes, there.received_bytes) == (b"", b"")
    assert here.stream.backlog_bytes() == 7

    world.network.cut([])

    await until(lambda: there.received_bytes == b"one two")
    await until(lambda: here.received_bytes == b"three")
    assert not here.is_closed
    here.stream.abort()


async def test_a_peer_that_goes_away_is_noticed_only_after_it_heals(world: World) -> None:
    here = await world.connect()
    world.network.cut([world.port])
    world.accepted[0].stream.abort()
    await quiet()
    assert not here.is_closed

    world.network.cut([])

    await until(lambda: here.is_closed)


async def test_a_new_connection_does_not_come_about_until_it_heals(world: World) -> None:
    world.network.cut([world.port])
    connecting = asyncio.ensure_future(world.connect())
    await quiet()
    assert not connecting.done()

    world.network.cut([])

    (await connecting).stream.abort()


async def test_a_reader_that_pauses_stays_paused_when_it_heals(world: World) -> None:
    here = await world.connect()
    (there,) = world.accepted
    here.stream.pause_reading()
    world.network.cut([world.port])
    world.network.cut([])
    there.stream.send([b"later"])
    await quiet()
    assert here.received_bytes == b""

    here.stream.resume_reading()

    await until(lambda: here.received_bytes == b"later")
    here.stream.abort()
