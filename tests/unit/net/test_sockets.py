"""Streams over real sockets on the loopback: order, slices of files, slow readers, ends."""

import asyncio
import errno
import os
import random
import socket
import struct
from pathlib import Path

import pytest
import uvloop

from penstock.net.sockets import JOINED_BYTES_MAX, SocketNetwork
from penstock.runtime.disk import RealDisk
from penstock.runtime.network import FileSlice, Stream


class Collector:
    """A handler that collects everything."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.data = bytearray()
        self.buffer = memoryview(bytearray(1 << 16))
        self.ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        self.drains = 0

    def lend_buffer(self) -> memoryview:
        return self.buffer

    def received(self, size: int) -> None:
        self.data += self.buffer[:size]

    def drained(self) -> None:
        self.drains += 1

    def closed(self, reason: BaseException | None) -> None:
        self.ended.set_result(reason)


async def pair() -> tuple[Collector, Collector]:
    """Both ends of one connection; the first is the accepting end."""
    network = SocketNetwork()
    accepted: asyncio.Future[Collector] = asyncio.get_running_loop().create_future()

    def accept(stream: Stream) -> Collector:
        collector = Collector(stream)
        accepted.set_result(collector)
        return collector

    listening = await network.listen("127.0.0.1", 0, accept)
    listening.start()
    made: list[Collector] = []

    def connected(stream: Stream) -> Collector:
        made.append(Collector(stream))
        return made[0]

    await network.connect("127.0.0.1", listening.port, connected)
    server = await accepted
    listening.close()
    return server, made[0]


async def test_bytes_and_slices_of_files_arrive_in_order(tmp_path: Path) -> None:
    content = random.Random(1).randbytes(3 << 20)
    file = RealDisk().open(str(tmp_path / "segment"), create=True)
    file.append([content])
    server, client = await pair()

    server.stream.send([b"head", FileSlice(file, 100, 2 << 20), b"middle", FileSlice(file, 0, 10), b"tail"])
    server.stream.send([b"!"])
    server.stream.close()
    await server.ended
    await client.ended

    assert client.data == b"head" + content[100 : 100 + (2 << 20)] + b"middle" + content[:10] + b"tail!"


async def test_a_peer_that_stops_reading_builds_a_backlog_that_drains_when_it_reads_again() -> None:
    server, client = await pair()
    client.stream.pause_reading()
    sent = random.Random(2).randbytes(16 << 20)

    server.stream.send([sent])
    assert server.stream.backlog_bytes() > 0
    client.stream.resume_reading()
    while server.stream.backlog_bytes():
        await asyncio.sleep(0)
    server.stream.close()
    await client.ended

    assert client.data == sent
    assert server.drains >= 1


async def test_responses_that_are_sent_together_arrive_in_order_even_if_the_socket_is_full() -> None:
    server, client = await pair()
    client.stream.pause_reading()
    random_bytes = random.Random(3).randbytes
    sent = b""

    while not server.stream.backlog_bytes():
        answers = [random_bytes(1000), bytearray(random_bytes(2000)), memoryview(random_bytes(3000))]
        server.stream.send(answers)
        sent += b"".join(answers)
    last = [random_bytes(10), random_bytes(JOINED_BYTES_MAX)]
    server.stream.send(last)
    client.stream.resume_reading()
    while server.stream.backlog_bytes():
        await asyncio.sleep(0)
    server.stream.close()
    await client.ended

    assert client.data == sent + b"".join(last)


async def test_a_slice_whose_file_was_cut_ends_the_stream_instead_of_sending_something_else(
    tmp_path: Path,
) -> None:
    file = RealDisk().open(str(tmp_path / "segment"), create=True)
    file.append([bytes(10)])
    server, client = await pair()

    server.stream.send([FileSlice(file, 0, 20)])

    assert isinstance(await server.ended, OSError)
    await client.ended
    assert client.data == bytes(10)


class Owner:
    """Of slices; notes which file could not be read."""

    def __init__(self) -> None:
        self.failures: list[tuple[int | None, str]] = []

    def read_failed(self, error: OSError, path: str) -> None:
        self.failures.append((error.errno, path))


@pytest.mark.parametrize(
    ("number", "is_disk_error"), [(errno.EIO, True), (errno.ECONNRESET, False), (errno.EPIPE, False)]
)
async def test_a_read_error_of_a_slice_is_reported_to_its_owner_and_a_socket_error_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_disk_error: bool
) -> None:
    file = RealDisk().open(str(tmp_path / "segment"), create=True)
    file.append([bytes(10)])
    owner = Owner()
    server, client = await pair()

    def sendfile(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "sendfile", sendfile)
    server.stream.send([b"head", FileSlice(file, 0, 10, owner)])

    assert isinstance(await server.ended, OSError)
    await client.ended
    assert owner.failures == ([(number, file.path)] if is_disk_error else [])


async def test_an_abort_drops_the_queue() -> None:
    server, client = await pair()
    client.stream.pause_reading()
    server.stream.send([bytes(32 << 20)])

    server.stream.abort()
    await server.ended
    client.stream.resume_reading()
    await client.ended

    assert len(client.data) < 32 << 20


def test_a_peer_that_sent_bytes_and_reset_is_detected() -> None:
    """uvloop does not report it: the callback for the reset still finds bytes to read, and there is no second one."""

    async def main() -> None:
        network = SocketNetwork()
        accepted: asyncio.Future[Collector] = asyncio.get_running_loop().create_future()

        def accept(stream: Stream) -> Collector:
            accepted.set_result(Collector(stream))
            return accepted.result()

        listening = await network.listen("127.0.0.1", 0, accept)
        with socket.create_connection(("127.0.0.1", listening.port)) as peer:
            peer.sendall(b"half a frame")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        listening.start()

        server = await accepted
        while not server.data and not server.ended.done():
            await asyncio.sleep(0)

        assert server.ended.done() or server.stream.is_reset()
        server.stream.abort()
        await server.ended
        assert not server.stream.is_reset()
        listening.close()

    uvloop.run(main())


async def test_an_address_in_use_is_refused() -> None:
    network = SocketNetwork()
    listening = await network.listen("127.0.0.1", 0, lambda stream: None)

    with pytest.raises(OSError, match="in use"):
        await network.listen("127.0.0.1", listening.port, lambda stream: None)
    listening.close()


async def test_a_connection_that_cannot_be_set_up_is_closed_and_logged_and_others_are_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    accepted: asyncio.Future[Collector] = asyncio.get_running_loop().create_future()
    attempts: list[Stream] = []

    def accept(stream: Stream) -> Collector:
        attempts.append(stream)
        if len(attempts) == 1:
            raise ValueError("no room for it")
        accepted.set_result(Collector(stream))
        return accepted.result()

    listening = await SocketNetwork().listen("127.0.0.1", 0, accept)
    listening.start()
    with (
        socket.create_connection(("127.0.0.1", listening.port)) as refused,
        socket.create_connection(("127.0.0.1", listening.port)),
    ):
        server = await accepted
        assert refused.recv(1) == b""
    await server.ended
    listening.close()
    assert "no room for it" in caplog.text
