"""TLS between two ends of a simulated network, which delivers late and in pieces of any size."""

from __future__ import annotations

import asyncio
import errno
import random
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from harness.certificates import Authority
from penstock.net.tls import BACKLOG_BYTES_MAX, TURN_BYTES_MAX, WRITE_BYTES, TlsStream, connect_tls
from penstock.runtime.disk import RealDisk
from penstock.runtime.network import FileSlice, Stream
from simulator.loop import VirtualLoop, run_virtual
from simulator.network import SimulatedNetwork

Test = Callable[["World"], Coroutine[Any, Any, None]]


class Peer:
    """One end, which collects the received data."""

    def __init__(self, stream: Stream, *, echoes: bool = False) -> None:
        self.stream = stream
        self.echoes = echoes
        self.data = bytearray()
        self.is_closed = asyncio.Event()
        self.reason: BaseException | None = None
        self.closings = 0
        self._room = bytearray(1000)

    def lend_buffer(self) -> memoryview:
        return memoryview(self._room)

    def received(self, size: int) -> None:
        self.data += self._room[:size]
        if self.echoes:
            self.stream.send([bytes(self._room[:size])])

    def drained(self) -> None:
        pass

    def closed(self, reason: BaseException | None) -> None:
        self.closings += 1
        self.reason = reason
        self.is_closed.set()

    async def has(self, size: int) -> bytes:
        while len(self.data) < size:
            await asyncio.sleep(0.001)
        return bytes(self.data)


class World:
    """A server that echoes, and clients of it."""

    def __init__(self, network: SimulatedNetwork, folder: Path) -> None:
        self.network = network
        self.authority = Authority()
        identity = self.authority.issue("server", hosts=("server",))
        self.server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server_context.load_cert_chain(identity.write_pem(folder / "server.pem"))
        self.served: list[Peer] = []
        self.streams: list[TlsStream] = []

    async def listen(self) -> None:
        (await self.network.listen("server", 1, self._accept)).start()
        (await self.network.listen("alias", 1, self._accept)).start()

    def _accept(self, below: Stream) -> TlsStream:
        stream = TlsStream(below, self.server_context, server_side=True)
        peer = Peer(stream, echoes=True)
        self.served.append(peer)
        self.streams.append(stream)
        asyncio.get_running_loop().call_soon(stream.start, peer)
        return stream

    async def connect(self, *, host: str = "server", trusted: Authority | None = None) -> Peer:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=(trusted or self.authority).pem)
        made: list[Peer] = []

        def handler(stream: Stream) -> Peer:
            made.append(Peer(stream))
            return made[0]

        await connect_tls(self.network, host, 1, handler, context=context, server_name=host)
        return made[0]


def run(folder: Path, test: Test, *, seed: int = 1) -> None:
    loop = VirtualLoop()

    async def main() -> None:
        world = World(SimulatedNetwork(random.Random(seed)), folder)
        await world.listen()
        await test(world)

    run_virtual(loop, main())


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_as_they_were_sent(tmp_path: Path, seed: int) -> None:
    sent = random.Random(seed).randbytes(300_000)

    async def test(world: World) -> None:
        client = await world.connect()
        for start in range(0, len(sent), 70_000):
            client.stream.send([sent[start : start + 10], memoryview(sent)[start + 10 : start + 70_000]])
        assert await client.has(len(sent)) == sent
        assert world.served[0].data == sent
        assert client.stream.backlog_bytes() == 0

    run(tmp_path, test, seed=seed)


def test_no_plaintext_is_sent(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        pieces: list[bytes] = []
        client = await world.connect()
        below = client.stream._below  # type: ignore[attr-defined]
        send = below.send
        below.send = lambda parts: (pieces.extend(map(bytes, parts)), send(parts))
        client.stream.send([b"a secret"])
        await client.has(8)
        assert pieces
        assert b"secret" not in b"".join(pieces)

    run(tmp_path, test)


def test_data_sent_before_the_handshake_waits_for_it(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=world.authority.pem)
        made: list[Peer] = []

        def wrap(below: Stream) -> TlsStream:
            stream = TlsStream(below, context, server_name="server")
            made.append(Peer(stream))
            asyncio.get_running_loop().call_soon(stream.start, made[0])
            return stream

        await world.network.connect("server", 1, wrap)
        await asyncio.sleep(0)
        made[0].stream.send([b"early"])
        assert made[0].stream.backlog_bytes() == 5
        assert await made[0].has(5) == b"early"

    run(tmp_path, test)


def test_a_slice_of_a_file_is_sent(tmp_path: Path) -> None:
    (tmp_path / "segment").write_bytes(b"0123456789" * 1000)

    async def test(world: World) -> None:
        client = await world.connect()
        file = RealDisk().open(str(tmp_path / "segment"))
        world.served[0].stream.send([b"head", FileSlice(file, 10, 5000)])
        assert await client.has(5004) == b"head" + b"0123456789" * 500
        file.close()

    run(tmp_path, test)


def test_closing_sends_close_notify_and_notifies_both_ends_once(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        client = await world.connect()
        client.stream.send([b"last words"])
        client.stream.close()
        await client.is_closed.wait()
        await world.served[0].is_closed.wait()
        assert world.served[0].data == b"last words"
        assert (client.closings, world.served[0].closings) == (1, 1)
        assert client.reason is None
        assert world.served[0].reason is None

    run(tmp_path, test)


def test_a_paused_end_gets_all_data_after_it_resumes(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        client = await world.connect()
        client.stream.pause_reading()
        world.served[0].stream.send([b"x" * 50_000])
        await asyncio.sleep(1)
        assert len(client.data) == 0
        client.stream.resume_reading()
        assert await client.has(50_000) == b"x" * 50_000

    run(tmp_path, test)


def test_a_server_with_an_untrusted_certificate_is_rejected(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        with pytest.raises(ssl.SSLCertVerificationError):
            await world.connect(trusted=Authority("Another"))
        await world.served[0].is_closed.wait()
        assert isinstance(world.served[0].reason, ssl.SSLError), "the server gets the reason"

    run(tmp_path, test)


def test_a_server_under_another_name_is_refused(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        with pytest.raises(ssl.SSLCertVerificationError, match="alias"):
            await world.connect(host="alias")

    run(tmp_path, test)


def test_a_peer_that_leaves_during_the_handshake_is_an_error(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        connecting = asyncio.create_task(world.connect())
        while not world.streams:
            await asyncio.sleep(0.0001)
        world.streams[0].abort()
        with pytest.raises(ConnectionError):
            await connecting

    run(tmp_path, test)


def test_a_peer_that_does_not_speak_tls_is_an_error(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        def answer_plainly(below: Stream) -> Peer:
            asyncio.get_running_loop().call_soon(below.send, [b"HTTP/1.1 400 Bad Request\r\n\r\n"])
            return Peer(below)

        world.network.listening["server", 1]._accept = answer_plainly
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await world.connect()

    run(tmp_path, test)


def test_garbage_after_the_handshake_ends_the_stream(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        client = await world.connect()
        client.stream._below.send([b"garbage that is no record of TLS"])  # type: ignore[attr-defined]
        await world.served[0].is_closed.wait()
        assert isinstance(world.served[0].reason, ssl.SSLError)

    run(tmp_path, test)


def large_slice(folder: Path, size: int) -> FileSlice:
    path = folder / "large"
    path.write_bytes(random.Random(size).randbytes(size))
    return FileSlice(RealDisk().open(str(path)), 0, size)


def test_a_large_slice_is_encrypted_as_the_peer_reads_and_not_at_once(tmp_path: Path) -> None:
    """A fetch of 50 MiB was read into memory and encrypted at once, although the peer read nothing."""
    piece = large_slice(tmp_path, 8 << 20)

    async def test(world: World) -> None:
        client = await world.connect()
        await world.streams[0].established
        server = world.served[0].stream
        below = server._below  # type: ignore[attr-defined]
        client.stream.pause_reading()

        server.send([b"head", piece, b"tail"])
        await asyncio.sleep(1)

        assert below.backlog_bytes() <= BACKLOG_BYTES_MAX + 2 * WRITE_BYTES
        assert server.backlog_bytes() >= piece.size
        client.stream.resume_reading()
        assert await client.has(8 + piece.size) == b"head" + piece.read() + b"tail"
        assert server.backlog_bytes() == 0

    run(tmp_path, test)
    piece.file.close()


def test_a_peer_that_reads_fast_does_not_keep_the_loop_busy_with_one_slice(tmp_path: Path) -> None:
    piece = large_slice(tmp_path, 8 << 20)

    async def test(world: World) -> None:
        client = await world.connect()
        await world.streams[0].established
        server = world.served[0]
        below = server.stream._below  # type: ignore[attr-defined]
        sent: list[int] = []
        drained: list[int] = []
        send = below.send
        below.send = lambda parts: (sent.append(sum(map(len, parts))), send(parts))
        server.drained = lambda: drained.append(server.stream.backlog_bytes())  # type: ignore[method-assign]

        server.stream.send([piece])

        assert 0 < sum(sent) <= TURN_BYTES_MAX + 2 * WRITE_BYTES
        assert await client.has(piece.size) == piece.read()
        assert drained == [0]

    run(tmp_path, test)
    piece.file.close()


def test_closing_sends_a_large_slice_to_its_end_first(tmp_path: Path) -> None:
    piece = large_slice(tmp_path, 4 << 20)

    async def test(world: World) -> None:
        client = await world.connect()
        await world.streams[0].established
        client.stream.pause_reading()
        world.served[0].stream.send([piece])
        world.served[0].stream.close()
        await asyncio.sleep(1)
        assert not world.served[0].is_closed.is_set()
        client.stream.resume_reading()

        await client.is_closed.wait()
        assert bytes(client.data) == piece.read()
        assert (client.reason, world.served[0].reason) == (None, None)

    run(tmp_path, test)
    piece.file.close()


def test_a_slice_that_cannot_be_read_ends_the_stream_with_the_reason(tmp_path: Path) -> None:
    piece = large_slice(tmp_path, 1000)

    async def test(world: World) -> None:
        client = await world.connect()
        await world.streams[0].established
        world.served[0].stream.send([FileSlice(piece.file, 500, 1000)])

        await world.served[0].is_closed.wait()
        await client.is_closed.wait()
        assert isinstance(world.served[0].reason, OSError)
        assert world.served[0].closings == 1
        assert client.data == b""

    run(tmp_path, test)
    piece.file.close()


@pytest.mark.parametrize("failing_piece", [0, 1])
def test_a_read_error_over_tls_is_reported_to_the_owner_of_the_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing_piece: int
) -> None:
    """The owner takes its log directory offline. Without the report it would continue to use a broken disk."""
    piece = large_slice(tmp_path, 2 * WRITE_BYTES)
    failures: list[tuple[int | None, str]] = []

    class Owner:
        def read_failed(self, error: OSError, path: str) -> None:
            failures.append((error.errno, path))

    read = piece.file.read

    def fail(*, position: int, size: int) -> bytes:
        if position == failing_piece * WRITE_BYTES:
            raise OSError(errno.EIO, "broken")
        return bytes(read(position=position, size=size))

    monkeypatch.setattr(type(piece.file), "read", lambda self, **where: fail(**where))

    async def test(world: World) -> None:
        await world.connect()
        await world.streams[0].established
        world.served[0].stream.send([FileSlice(piece.file, 0, piece.size, Owner())])

        await world.served[0].is_closed.wait()
        await asyncio.sleep(0)
        assert failures == [(errno.EIO, piece.file.path)]

    run(tmp_path, test)
    piece.file.close()
