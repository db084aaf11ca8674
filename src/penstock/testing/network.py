"""A network in memory: streams that deliver in order, late, and in pieces of random size.

Everything is drawn from the seed's generator. A stream can be cut, which both ends notice and which loses what was
under way; a process can die, and then what it had sent may still arrive. Callbacks of an end run in the
context of the one who listened or connected, so that they are known to be that process's own.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from zlib import crc32

from penstock.runtime.network import FileSlice, Listening, Part, Stream, StreamHandler
from penstock.testing.process import PROCESS, Process

DELAY_S_MAX = 0.005
PIECE_BYTES_MAX = 64 * 1024


class SimulatedStream:
    """One end of a pair. What is sent here arrives there."""

    def __init__(self, network: SimulatedNetwork, host: str, port: int, *, context: Context) -> None:
        self._network = network
        self._loop = asyncio.get_running_loop()
        self._context = context
        self.process = context.get(PROCESS)
        self.peer_host = host
        self.peer = f"{host}:{port}"
        self.other: SimulatedStream
        self._handler: StreamHandler | None = None
        self._inbox: deque[bytes] = deque()
        self._ended = False
        self._is_paused = False
        self._delivery: asyncio.TimerHandle | None = None

    def start(self, handler: StreamHandler) -> None:
        self._handler = handler
        self._schedule()

    def send(self, parts: Sequence[Part]) -> None:
        if self._handler is None:
            return
        data = bytearray()
        for part in parts:
            if not isinstance(part, FileSlice):
                data += part
                continue
            try:
                data += part.read()
            except OSError as error:  # part of the response may be out: the peer can only be told by ending
                self._loop.call_soon(part.failed, error, context=self._context)
                self._end_soon(error)
                return
        self.other._inbox.append(bytes(data))
        self.other._schedule()

    def backlog_bytes(self) -> int:
        return sum(map(len, self.other._inbox)) if self.other._is_paused else 0

    def is_reset(self) -> bool:
        return False  # here every end is told at once

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._schedule()
            if self.other._handler is not None:
                self._loop.call_soon(self.other._drained, context=self.other._context)

    def close(self) -> None:
        self._end_soon(None)

    def abort(self) -> None:
        self._end_soon(None)

    def cut(self) -> None:
        """The network's doing: both ends lose the stream, and what was under way."""
        for end in (self, self.other):
            end._inbox.clear()
            end._end_soon(ConnectionResetError("the simulated network cut the stream"))

    def vanish(self) -> None:
        """This end's process died: it hears nothing of it, and the other end gets some of what was sent."""
        self._handler = None
        self._inbox.clear()
        self._network.streams.pop(self, None)
        other = self.other
        arriving = self._network.random.randint(0, len(other._inbox))
        while len(other._inbox) > arriving:
            other._inbox.pop()
        other._ended = True
        other._schedule()

    def _drained(self) -> None:
        if self._handler is not None:
            self._handler.drained()

    def _schedule(self) -> None:
        if (
            self._delivery is None
            and self._handler is not None
            and not self._is_paused
            and (self._inbox or self._ended)
        ):
            delay_s = self._network.random.uniform(0, DELAY_S_MAX)
            self._delivery = self._loop.call_later(delay_s, self._deliver, context=self._context)

    def _deliver(self) -> None:
        self._delivery = None
        handler = self._handler
        if handler is None or self._is_paused:
            return
        if not self._inbox:
            self._end(None)
            return
        data = self._inbox.popleft()
        room = handler.lend_buffer()
        size = min(len(data), len(room), self._network.random.randint(1, PIECE_BYTES_MAX))
        room[:size] = data[:size]
        if size < len(data):
            self._inbox.appendleft(data[size:])
        if self._network.note is not None:
            self._network.note(f"from {self.peer}: {size} bytes, {crc32(data[:size]):08x}")
        handler.received(size)
        self._schedule()

    def _end_soon(self, reason: BaseException | None) -> None:
        self._loop.call_soon(self._end, reason, context=self._context)

    def _end(self, reason: BaseException | None) -> None:
        handler, self._handler = self._handler, None
        if handler is None:
            return
        self._network.streams.pop(self, None)
        if not self.other._ended:
            self.other._ended = True
            self.other._schedule()
        handler.closed(reason)


class SimulatedListening:
    def __init__(
        self,
        network: SimulatedNetwork,
        host: str,
        port: int,
        accept: Callable[[Stream], StreamHandler | None],
    ) -> None:
        self.host = host
        self.port = port
        self.context = copy_context()
        self._accept = accept
        self._network = network

    def start(self) -> None:
        self._network.listening[self.host, self.port] = self

    def close(self) -> None:
        self._network.listening.pop((self.host, self.port), None)

    def accept(self, stream: SimulatedStream) -> StreamHandler | None:
        return self.context.run(self._accept, stream)


class SimulatedNetwork:
    def __init__(self, rng: random.Random, *, note: Callable[[str], None] | None = None) -> None:
        self.random = rng
        self.note = note
        """Told of every piece that is delivered."""
        self.listening: dict[tuple[str, int], SimulatedListening] = {}
        self.streams: dict[SimulatedStream, None] = {}
        """In the order of their making: a set would have an order of its own in each run."""
        self._next_port = 40_000

    async def listen(
        self, host: str, port: int, accept: Callable[[Stream], StreamHandler | None]
    ) -> Listening:
        port = port or self._free_port()
        if (host, port) in self.listening:
            raise OSError(f"{host}:{port} is in use")
        return SimulatedListening(self, host, port, accept)

    async def connect(self, host: str, port: int, handler: Callable[[Stream], StreamHandler]) -> Stream:
        await asyncio.sleep(self.random.uniform(0, DELAY_S_MAX))
        listening = self.listening.get((host, port))
        if listening is None:
            raise ConnectionRefusedError(f"nobody listens on {host}:{port}")
        near = SimulatedStream(self, host, port, context=copy_context())
        far = SimulatedStream(self, "127.0.0.1", self._free_port(), context=listening.context)
        near.other, far.other = far, near
        accepted = listening.accept(far)
        if accepted is None:
            raise ConnectionResetError(f"{host}:{port} refused the stream")
        self.streams |= {near: None, far: None}
        far.start(accepted)
        near.start(handler(near))
        return near

    def cut_everything(self) -> None:
        """Every stream is lost, and nobody is reached any more."""
        for stream in list(self.streams):
            stream.cut()
        self.listening.clear()

    def died(self, process: Process) -> None:
        """A process is gone, and with it all its ends of streams and its addresses."""
        for stream in [each for each in self.streams if each.process is process]:
            stream.vanish()
        for address, listening in list(self.listening.items()):
            if listening.context.get(PROCESS) is process:
                del self.listening[address]

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port
