"""In-memory streams: what arrives, in which order, and what happens when an end is lost."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.runtime.network import FileSlice, Stream
from simulator.disk import SimulatedDisk
from simulator.loop import VirtualLoop, run_virtual
from simulator.network import SimulatedNetwork
from simulator.process import PROCESS, Process

HOST, PORT = "node", 9092


class End:
    """Keeps the data that it receives."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.data = bytearray()
        self.owners: set[Process | None] = set()
        self.ended: list[BaseException | None] = []
        self._room = memoryview(bytearray(10))

    def lend_buffer(self) -> memoryview:
        return self._room

    def received(self, size: int) -> None:
        self.owners.add(PROCESS.get())
        self.data += self._room[:size]

    def drained(self) -> None:
        pass

    def closed(self, reason: BaseException | None) -> None:
        self.ended.append(reason)


class World:
    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.loop = loop
        self.network = SimulatedNetwork(random.Random(seed))
        self.process = Process("node")
        self.accepted: list[End] = []

    async def listen(self) -> None:
        def accept(stream: Stream) -> End:
            self.accepted.append(End(stream))
            return self.accepted[-1]

        async def bind() -> None:
            (await self.network.listen(HOST, PORT, accept)).start()

        await self.loop.create_task(bind(), context=self.process.context)

    async def connect(self) -> tuple[End, End]:
        made: list[End] = []

        def handler(stream: Stream) -> End:
            made.append(End(stream))
            return made[0]

        await self.network.connect(HOST, PORT, handler)
        return made[0], self.accepted[-1]

    def kill(self) -> None:
        self.process.die()
        self.loop.drop_process(self.process)
        self.network.died(self.process)


def run(main: Callable[[World], Coroutine[Any, Any, None]], *, seed: int = 1) -> None:
    loop = VirtualLoop()

    async def start() -> None:
        world = World(loop, seed)
        await world.listen()
        await main(world)

    run_virtual(loop, start())


def test_bytes_arrive_in_order_and_in_the_listeners_context() -> None:
    async def main(world: World) -> None:
        near, far = await world.connect()
        for number in range(20):
            near.stream.send([b"%d," % number])
        far.stream.send([b"answer"])
        await asyncio.sleep(1)

        assert far.data == b"".join(b"%d," % number for number in range(20))
        assert near.data == b"answer"
        assert far.owners == {world.process}
        assert near.owners == {None}

    run(main)


def test_a_cut_loses_data_in_flight_and_both_ends_notice() -> None:
    async def main(world: World) -> None:
        near, far = await world.connect()
        near.stream.send([b"lost"])
        next(iter(world.network.streams)).cut()
        await asyncio.sleep(1)

        assert not far.data
        assert [type(reason) for reason in near.ended + far.ended] == [ConnectionResetError] * 2

    run(main)


def test_a_dead_process_gets_no_callback_and_its_peers_are_notified() -> None:
    async def main(world: World) -> None:
        near, far = await world.connect()
        near.stream.send([b"too late"])
        world.kill()
        await asyncio.sleep(1)

        assert (bytes(far.data), far.ended) == (b"", [])
        assert near.ended == [None]
        with pytest.raises(ConnectionRefusedError):
            await world.connect()

    run(main)


def test_data_sent_before_a_process_died_may_arrive() -> None:
    arrived = set()

    async def main(world: World) -> None:
        near, far = await world.connect()
        far.stream.send([b"1"])
        far.stream.send([b"2"])
        world.kill()
        await asyncio.sleep(1)
        arrived.add(bytes(near.data))
        assert near.ended == [None]

    for seed in range(30):
        run(main, seed=seed)

    assert arrived == {b"", b"1", b"12"}


def test_an_unreadable_file_slice_closes_the_stream() -> None:
    async def main(world: World) -> None:
        disk = SimulatedDisk()
        file = disk.open("/segment", create=True)
        file.append((b"records",))
        near, far = await world.connect()
        disk.fail("/segment", errno.EIO, operations={"read"})
        far.stream.send([b"head", FileSlice(file, 0, 7)])
        await asyncio.sleep(1)

        assert not near.data
        assert near.ended == [None]
        assert [type(reason) for reason in far.ended] == [OSError]

    run(main)
