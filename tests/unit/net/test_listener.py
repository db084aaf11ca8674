"""Limits on connections, over the simulated network."""

import asyncio
import random

import pytest

from penstock.net.connection import Connection, Response
from penstock.net.listener import ConnectionLimits, ConnectionTable, Listener
from penstock.runtime.network import Stream
from simulator.loop import VirtualLoop, run_virtual
from simulator.network import SimulatedNetwork


class EchoServer:
    def serve(self, frame: memoryview, connection: Connection) -> Response:
        return [bytes(frame)]

    def connection_closed(self, connection: Connection) -> None:
        pass


class Client:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.data = bytearray()
        self.buffer = memoryview(bytearray(100))
        self.is_closed = False

    def lend_buffer(self) -> memoryview:
        return self.buffer

    def received(self, size: int) -> None:
        self.data += self.buffer[:size]

    def drained(self) -> None:
        pass

    def closed(self, reason: BaseException | None) -> None:
        self.is_closed = True


def limits(
    *,
    connections_max: int = 10,
    per_host_max: int = 10,
    overrides: dict[str, int] | None = None,
    idle_ms_max: int = 60_000,
) -> ConnectionLimits:
    return ConnectionLimits(connections_max, per_host_max, overrides or {}, idle_ms_max, frame_bytes_max=1000)


async def start(table: ConnectionTable) -> tuple[SimulatedNetwork, Listener]:
    network = SimulatedNetwork(random.Random(1))
    listener = Listener("PLAINTEXT", EchoServer(), table)
    await listener.bind(network, "127.0.0.1", 0)
    listener.start()
    return network, listener


async def connect(network: SimulatedNetwork, listener: Listener) -> Client:
    clients: list[Client] = []

    def made(stream: Stream) -> Client:
        clients.append(Client(stream))
        return clients[0]

    await network.connect("127.0.0.1", listener.port, made)
    return clients[0]


def test_one_connection_too_many_is_refused_and_the_others_go_on() -> None:
    async def main() -> None:
        table = ConnectionTable(limits(connections_max=2))
        network, listener = await start(table)
        first = await connect(network, listener)
        await connect(network, listener)
        try:
            await connect(network, listener)
        except ConnectionResetError:
            pass
        else:
            raise AssertionError("the third connection was accepted")
        first.stream.send([b"\x00\x00\x00\x02hi"])
        await asyncio.sleep(1)

        assert first.data == b"hi"
        assert table.refused_count == 1
        listener.stop_accepting()

    run_virtual(VirtualLoop(), main())


def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    async def main() -> None:
        table = ConnectionTable(limits(idle_ms_max=60_000))
        network, listener = await start(table)
        idle = await connect(network, listener)
        busy = await connect(network, listener)
        for _ in range(10):
            await asyncio.sleep(10)
            busy.stream.send([b"\x00\x00\x00\x02hi"])

        assert idle.is_closed
        assert not busy.is_closed
        assert len(table) == 1
        listener.stop_accepting()

    run_virtual(VirtualLoop(), main())


def test_a_host_with_a_limit_of_its_own_is_held_to_that_one() -> None:
    table = ConnectionTable(limits(per_host_max=0, overrides={"10.0.0.7": 1}))

    assert table.refusal("10.0.0.7") is None
    refusal = table.refusal("10.0.0.8")
    assert refusal is not None
    assert "10.0.0.8 has reached the limit of connections per IP address, max.connections.per.ip=0" in refusal


def test_a_peer_that_stopped_reading_is_disconnected_and_a_slow_one_is_not() -> None:
    async def main() -> None:
        table = ConnectionTable(limits(idle_ms_max=60_000))
        network, listener = await start(table)
        stuck = await connect(network, listener)
        slow = await connect(network, listener)
        for client in (stuck, slow):
            client.stream.pause_reading()
            for _ in range(100):
                client.stream.send([b"\x00\x00\x03\xe8" + bytes(1000)])
        for _ in range(20):
            await asyncio.sleep(10)
            slow.stream.resume_reading()
            await asyncio.sleep(0.01)
            slow.stream.pause_reading()

        assert not slow.is_closed
        assert len(table) == 1
        stuck.stream.resume_reading()  # a peer that does not read does not notice the end either
        await asyncio.sleep(10)
        assert stuck.is_closed
        listener.stop_accepting()

    run_virtual(VirtualLoop(), main())


def test_a_sweep_that_fails_on_one_connection_is_logged_and_closes_the_idle_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An exception used to end sweeping for good, and idle connections stayed open."""

    async def main() -> None:
        table = ConnectionTable(limits(idle_ms_max=60_000))
        network, listener = await start(table)
        broken = await connect(network, listener)
        idle = await connect(network, listener)
        first = next(iter(table._connections))

        def fail() -> bool:
            raise ValueError("no such socket")

        first.stream.is_reset = fail  # type: ignore[method-assign]
        await asyncio.sleep(70)

        assert broken.is_closed
        assert idle.is_closed
        assert len(table) == 0
        late = await connect(network, listener)
        await asyncio.sleep(70)
        assert late.is_closed
        listener.stop_accepting()

    run_virtual(VirtualLoop(), main())
    assert "no such socket" in caplog.text


def test_an_http_health_check_is_logged_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """It used to be "a frame of 1195725856 bytes", once for each attempt."""

    async def main() -> None:
        table = ConnectionTable(limits())
        network, listener = await start(table)
        for _ in range(5):
            client = await connect(network, listener)
            client.stream.send([b"GET /health HTTP/1.1\r\nHost: broker\r\n\r\n"])
            await asyncio.sleep(1)
            assert client.is_closed
        listener.stop_accepting()

    run_virtual(VirtualLoop(), main())
    (line,) = [
        record.getMessage() for record in caplog.records if "closing the connection" in record.getMessage()
    ]
    assert line.endswith("the peer speaks HTTP, not the Kafka protocol")
