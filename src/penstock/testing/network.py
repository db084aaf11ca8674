"""A network in memory: streams that deliver in order, late, and in pieces of random size.

Everything is drawn from the seed's generator. A stream can be cut, which both ends notice, and a host can be
cut off, which ends all its streams and refuses new ones.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence

from penstock.runtime.network import FileSlice, Listening, Part, Stream, StreamHandler

DELAY_S_MAX = 0.005
PIECE_BYTES_MAX = 64 * 1024


class SimulatedStream:
    """One end of a pair. What is sent here arrives there."""

    def __init__(self, network: SimulatedNetwork, host: str, port: int) -> None:
        self._network = network
        self._loop = asyncio.get_running_loop()
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
        data = b"".join(part.read() if isinstance(part, FileSlice) else bytes(part) for part in parts)
        self.other._inbox.append(data)
        self.other._schedule()

    def backlog_bytes(self) -> int:
        return sum(map(len, self.other._inbox)) if self.other._is_paused else 0

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._schedule()
            if self.other._handler is not None:
                self._loop.call_soon(self.other._drained)

    def close(self) -> None:
        self._loop.call_soon(self._end, None)

    def abort(self) -> None:
        self._loop.call_soon(self._end, None)

    def cut(self) -> None:
        """The network's doing: both ends lose the stream, and what was under way."""
        for end in (self, self.other):
            end._inbox.clear()
            self._loop.call_soon(end._end, ConnectionResetError("the simulated network cut the stream"))

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
            self._delivery = self._loop.call_later(
                self._network.random.uniform(0, DELAY_S_MAX), self._deliver
            )

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
        handler.received(size)
        self._schedule()

    def _end(self, reason: BaseException | None) -> None:
        handler, self._handler = self._handler, None
        if handler is None:
            return
        self._network.streams.discard(self)
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
        self.accept = accept
        self._network = network

    def start(self) -> None:
        self._network.listening[self.host, self.port] = self

    def close(self) -> None:
        self._network.listening.pop((self.host, self.port), None)


class SimulatedNetwork:
    def __init__(self, rng: random.Random) -> None:
        self.random = rng
        self.listening: dict[tuple[str, int], SimulatedListening] = {}
        self.streams: set[SimulatedStream] = set()
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
        near = SimulatedStream(self, host, port)
        far = SimulatedStream(self, "127.0.0.1", self._free_port())
        near.other, far.other = far, near
        accepted = listening.accept(far)
        if accepted is None:
            raise ConnectionResetError(f"{host}:{port} refused the stream")
        self.streams |= {near, far}
        far.start(accepted)
        near.start(handler(near))
        return near

    def cut_everything(self) -> None:
        """What a power cut looks like from the wire."""
        for stream in sorted(self.streams, key=lambda stream: stream.peer):
            stream.cut()
        self.listening.clear()

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port
