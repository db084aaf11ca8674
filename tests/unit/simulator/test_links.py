"""Faults between hosts: cuts are silent and one-way, connects time out, and healing brings the data."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.runtime.network import Stream
from simulator.loop import VirtualLoop, run_virtual
from simulator.network import CLIENT_HOST, SimulatedNetwork
from simulator.process import Process

PORT = 9092
LONG_S = 10.0


class End:
    """Keeps the data that it receives."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.data = bytearray()
        self.ended: list[BaseException | None] = []
        self._room = memoryview(bytearray(100))

    def lend_buffer(self) -> memoryview:
        return self._room

    def received(self, size: int) -> None:
        self.data += self._room[:size]

    def drained(self) -> None:
        pass

    def closed(self, reason: BaseException | None) -> None:
        self.ended.append(reason)


class Hosts:
    """Two machines, "a" and "b", with one process each, and clients."""

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.loop = loop
        self.network = SimulatedNetwork(random.Random(seed))
        self.links = self.network.links
        self.accepted: dict[str, list[End]] = {"a": [], "b": []}
        self.processes = {host: Process(host, host=host) for host in ("a", "b")}

    async def listen(self, host: str) -> None:
        def accept(stream: Stream) -> End:
            self.accepted[host].append(End(stream))
            return self.accepted[host][-1]

        async def bind() -> None:
            (await self.network.listen(host, PORT, accept)).start()

        await self.loop.create_task(bind(), context=self.processes[host].context)

    async def connect(self, source: str, destination: str) -> tuple[End, End]:
        made: list[End] = []

        def handler(stream: Stream) -> End:
            made.append(End(stream))
            return made[0]

        async def open_stream() -> None:
            await self.network.connect(destination, PORT, handler)

        context = None if source == CLIENT_HOST else self.processes[source].context
        await self.loop.create_task(open_stream(), context=context)
        return made[0], self.accepted[destination][-1]

    def kill(self, host: str, *, is_silent: bool = False) -> None:
        process = self.processes[host]
        process.die()
        self.loop.drop_process(process)
        self.network.died(process, is_silent=is_silent)

    async def boot(self, host: str) -> None:
        self.processes[host] = Process(f"{host} again", host=host)
        self.network.powered_on(host)
        await self.listen(host)


def run(main: Callable[[Hosts], Coroutine[Any, Any, None]], *, seed: int = 1) -> None:
    loop = VirtualLoop()

    async def start() -> None:
        hosts = Hosts(loop, seed)
        await hosts.listen("a")
        await hosts.listen("b")
        await main(hosts)

    run_virtual(loop, start())


def test_a_cut_stops_one_direction_without_closing_anything() -> None:
    async def main(hosts: Hosts) -> None:
        near, far = await hosts.connect("a", "b")
        hosts.links.cut("a", "b")
        near.stream.send([b"lost"])
        far.stream.send([b"arrives"])
        await asyncio.sleep(LONG_S)

        assert (bytes(far.data), bytes(near.data)) == (b"", b"arrives")
        assert near.ended + far.ended == []

    run(main)


def test_data_that_was_in_flight_when_the_link_was_cut_arrives_after_it_heals() -> None:
    async def main(hosts: Hosts) -> None:
        near, far = await hosts.connect("a", "b")
        near.stream.send([b"1"])
        hosts.links.cut("a", "b")
        near.stream.send([b"2"])
        await asyncio.sleep(LONG_S)
        assert near.stream.backlog_bytes() == 2
        hosts.links.heal()
        near.stream.send([b"3"])
        await asyncio.sleep(LONG_S)

        assert far.data == b"123"
        assert near.stream.backlog_bytes() == 0

    run(main)


def test_the_end_of_a_connection_does_not_cross_a_cut_link() -> None:
    async def main(hosts: Hosts) -> None:
        near, far = await hosts.connect("a", "b")
        hosts.links.cut("a", "b")
        near.stream.close()
        await asyncio.sleep(LONG_S)
        assert (near.ended, far.ended) == ([None], [])
        hosts.links.heal()
        await asyncio.sleep(LONG_S)

        assert far.ended == [None]

    run(main)


@pytest.mark.parametrize("direction", [("a", "b"), ("b", "a")])
def test_connecting_over_a_link_that_is_cut_in_either_direction_times_out(direction: tuple[str, str]) -> None:
    async def main(hosts: Hosts) -> None:
        hosts.links.cut(*direction)
        begun = hosts.loop.time()
        with pytest.raises(TimeoutError):
            await hosts.connect("a", "b")
        assert hosts.loop.time() - begun > 100

        waiting = asyncio.ensure_future(hosts.connect("a", "b"))
        await asyncio.sleep(LONG_S)
        hosts.links.heal()
        await waiting

    run(main)


def test_a_partition_separates_the_groups_and_nobody_else() -> None:
    async def main(hosts: Hosts) -> None:
        hosts.links.partition([{"a"}, {"b"}])

        await hosts.connect(CLIENT_HOST, "a")
        await hosts.connect(CLIENT_HOST, "b")
        await hosts.connect("a", "a")
        for pair in (("a", "b"), ("b", "a")):
            with pytest.raises(TimeoutError):
                await hosts.connect(*pair)

    run(main)


def test_a_slow_link_delays_every_delivery() -> None:
    async def main(hosts: Hosts) -> None:
        near, far = await hosts.connect("a", "b")
        link = hosts.links.own("a", "b")
        link.delay_s_min, link.delay_s_max = 2.0, 3.0
        near.stream.send([b"slow"])
        far.stream.send([b"fast"])
        await asyncio.sleep(1.9)
        assert (bytes(far.data), bytes(near.data)) == (b"", b"fast")
        await asyncio.sleep(1.2)

        assert far.data == b"slow"

    run(main)


def test_connections_overtake_each_other_but_bytes_of_one_do_not() -> None:
    orders = set()

    async def main(hosts: Hosts) -> None:
        arrivals: list[int] = []
        ends = [await hosts.connect("a", "b") for _ in range(2)]
        for number, (near, far) in enumerate(ends):
            for piece in range(3):
                near.stream.send([b"%d" % piece])
            far.received = lambda size, number=number, kept=far.received: (  # type: ignore[method-assign,misc]
                kept(size),
                arrivals.append(number),
            )
        await asyncio.sleep(1)
        assert [bytes(far.data) for _, far in ends] == [b"012", b"012"]
        orders.add(tuple(arrivals))

    for seed in range(10):
        run(main, seed=seed)

    assert len(orders) > 3


def test_a_lossy_link_loses_whole_connections() -> None:
    lost = set()

    async def main(hosts: Hosts) -> None:
        near, far = await hosts.connect("a", "b")
        hosts.links.own("a", "b").reset_chance = 0.3
        near.stream.send([b"data"])
        await asyncio.sleep(1)
        is_lost = far.data != b"data"
        assert [type(reason) for reason in near.ended + far.ended] == [ConnectionResetError] * (2 * is_lost)
        lost.add(is_lost)

    for seed in range(30):
        run(main, seed=seed)

    assert lost == {False, True}


def test_peers_of_a_machine_that_lost_power_see_silence_until_it_is_back() -> None:
    async def main(hosts: Hosts) -> None:
        near, _ = await hosts.connect("a", "b")
        idle, _ = await hosts.connect("a", "b")
        hosts.kill("b", is_silent=True)
        near.stream.send([b"request"])
        with pytest.raises(TimeoutError):
            await hosts.connect("a", "b")
        assert near.ended == []

        await hosts.boot("b")
        await asyncio.sleep(LONG_S)
        assert [type(reason) for reason in near.ended] == [ConnectionResetError]
        assert idle.ended == []
        idle.stream.send([b"request"])
        await asyncio.sleep(LONG_S)

        assert [type(reason) for reason in idle.ended] == [ConnectionResetError]
        await hosts.connect("a", "b")

    run(main)


def test_a_paused_process_receives_when_it_continues() -> None:
    async def main(hosts: Hosts) -> None:
        near, far = await hosts.connect("a", "b")
        hosts.loop.pause_process(hosts.processes["b"])
        near.stream.send([b"1"])
        near.stream.send([b"2"])
        await asyncio.sleep(LONG_S)
        assert (bytes(far.data), near.ended) == (b"", [])
        hosts.loop.resume_process(hosts.processes["b"])
        await asyncio.sleep(1)

        assert far.data == b"12"

    run(main)


def test_the_kernel_of_a_paused_process_completes_connections() -> None:
    async def main(hosts: Hosts) -> None:
        hosts.loop.pause_process(hosts.processes["b"])
        ends: list[End] = []

        def handler(stream: Stream) -> End:
            ends.append(End(stream))
            return ends[-1]

        await hosts.network.connect("b", PORT, handler)
        ends[0].stream.send([b"early"])
        await asyncio.sleep(LONG_S)
        assert hosts.accepted["b"] == []
        hosts.loop.resume_process(hosts.processes["b"])
        await asyncio.sleep(1)

        assert hosts.accepted["b"][0].data == b"early"

    run(main)


def test_a_paused_process_can_be_killed() -> None:
    async def main(hosts: Hosts) -> None:
        near, far = await hosts.connect("a", "b")
        hosts.loop.pause_process(hosts.processes["b"])
        near.stream.send([b"1"])
        await asyncio.sleep(1)
        hosts.kill("b")
        await asyncio.sleep(1)

        assert (near.ended, bytes(far.data)) == ([None], b"")
        await hosts.boot("b")
        await hosts.connect("a", "b")

    run(main)
