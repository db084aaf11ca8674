"""An in-memory network. Streams deliver in order, late, and in pieces of random size.

All randomness comes from the seed's generator. Cutting a stream closes both ends and loses data in flight; `links`
describes the faults of links, which are silent. When a process dies, data that it had sent may still arrive. Callbacks
run in the context of the process that listened or connected, so that they die with it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from zlib import crc32

from penstock.runtime.network import FileSlice, Listening, Part, Stream, StreamHandler
from simulator.links import Links
from simulator.process import CLIENT_HOST, PROCESS, Process, current_host

__all__ = ["CLIENT_HOST", "SimulatedListening", "SimulatedNetwork", "SimulatedStream"]

RETRANSMISSION_S_MAX = 1.0  # until TCP sends data again after a link has healed
CONNECT_S_MAX = 127.0  # until Linux gives up sending SYN
PIECE_BYTES_MAX = 64 * 1024


class SimulatedStream:
    """One end of a pair: data sent here arrives at the other end."""

    def __init__(
        self, network: SimulatedNetwork, host: str, port: int, *, own_host: str, context: Context
    ) -> None:
        self.host = own_host
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
        self._is_stuck = False
        """The link to here is cut, and data waits for it."""
        self._lost_peer = False
        """The other machine lost power, and this end was not notified."""
        self._has_sent_to_lost_peer = False
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
            except OSError as error:  # the response may be half sent: all it can do is close
                self._loop.call_soon(part.failed, error, context=self._context)
                self._end_soon(error)
                return
        if self._lost_peer:
            self._has_sent_to_lost_peer = True
            self.peer_restarted()
            return
        self.other._inbox.append(bytes(data))
        self.other._schedule()

    def backlog_bytes(self) -> int:
        other = self.other
        return sum(map(len, other._inbox)) if other._is_paused or other._is_stuck else 0

    def is_reset(self) -> bool:
        return False  # the simulated network reports every close at once

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
        """A network fault: both ends lose the stream and the data in flight."""
        for end in (self, self.other):
            end._inbox.clear()
            end._end_soon(ConnectionResetError("the simulated network cut the stream"))

    def vanish(self, *, is_silent: bool = False) -> None:
        """The process of this end died: it gets no callback, and the other end gets some of the data in flight.

        If it dies silently, the other end is not told that it ended.
        """
        self._handler = None
        self._inbox.clear()
        self._network.streams.pop(self, None)
        other = self.other
        arriving = self._network.random.randint(0, len(other._inbox))
        while len(other._inbox) > arriving:
            other._inbox.pop()
        if is_silent:
            other._lost_peer = True
        else:
            other._ended = True
            other._schedule()

    def heal(self) -> None:
        """A link has healed: TCP sends again what did not arrive."""
        if self._is_stuck and not self._network.links.is_cut(self.other.host, self.host):
            self._is_stuck = False
            self._schedule(delay_s=self._network.random.uniform(0, RETRANSMISSION_S_MAX))
            if self.other._handler is not None:
                self._loop.call_soon(self.other._drained, context=self.other._context)
        self.peer_restarted()

    def peer_restarted(self) -> None:
        """A machine that was restarted resets connections that it does not know, when it receives their data."""
        network = self._network
        if self._lost_peer and self._has_sent_to_lost_peer and not network.links.is_dark(self.other.host):
            reason = ConnectionResetError("the other machine was restarted")
            delay_s = network.random.uniform(0, RETRANSMISSION_S_MAX)
            self._loop.call_later(delay_s, self._end, reason, context=self._context)

    def _drained(self) -> None:
        if self._handler is not None:
            self._handler.drained()

    def _schedule(self, *, delay_s: float | None = None) -> None:
        if (
            self._delivery is None
            and self._handler is not None
            and not self._is_paused
            and (self._inbox or self._ended)
        ):
            if delay_s is None:
                link = self._network.links.get(self.other.host, self.host)
                delay_s = self._network.random.uniform(link.delay_s_min, link.delay_s_max)
            self._delivery = self._loop.call_later(delay_s, self._deliver, context=self._context)

    def _deliver(self) -> None:
        self._delivery = None
        handler = self._handler
        if handler is None or self._is_paused:
            return
        links = self._network.links
        if links.is_cut(self.other.host, self.host):
            self._is_stuck = True
            return
        if not self._inbox:
            self._end(None)
            return
        reset_chance = links.get(self.other.host, self.host).reset_chance
        if reset_chance and self._network.random.random() < reset_chance:
            self.cut()
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

    @property
    def is_paused(self) -> bool:
        process = self.context.get(PROCESS)
        return process is not None and process.is_paused

    def accept_late(self, stream: SimulatedStream) -> None:
        """Called in its context when a paused process continues. Its kernel has completed the connection before."""
        handler = self._accept(stream)
        if handler is None:
            stream.cut()
        else:
            stream.start(handler)


class SimulatedNetwork:
    def __init__(self, rng: random.Random, *, note: Callable[[str], None] | None = None) -> None:
        self.random = rng
        self.note = note
        """Called for every piece that is delivered."""
        self.listening: dict[tuple[str, int], SimulatedListening] = {}
        self.streams: dict[SimulatedStream, None] = {}
        """In order of creation; the order of a set would differ between runs."""
        self.links = Links()
        self.links.on_heal = self._healed
        self._next_port = 40_000

    async def listen(
        self, host: str, port: int, accept: Callable[[Stream], StreamHandler | None]
    ) -> Listening:
        port = port or self._free_port()
        if (host, port) in self.listening:
            raise OSError(f"{host}:{port} is in use")
        return SimulatedListening(self, host, port, accept)

    async def connect(self, host: str, port: int, handler: Callable[[Stream], StreamHandler]) -> Stream:
        own_host = current_host()
        link = self.links.get(own_host, host)
        await asyncio.sleep(self.random.uniform(link.delay_s_min, link.delay_s_max))
        await self._reach(own_host, host)
        listening = self.listening.get((host, port))
        if listening is None:
            raise ConnectionRefusedError(f"no listener on {host}:{port}")
        near = SimulatedStream(self, host, port, own_host=own_host, context=copy_context())
        far = SimulatedStream(self, own_host, self._free_port(), own_host=host, context=listening.context)
        near.other, far.other = far, near
        if listening.is_paused:
            self.streams |= {near: None, far: None}
            asyncio.get_running_loop().call_soon(listening.accept_late, far, context=listening.context)
            near.start(handler(near))
            return near
        accepted = listening.accept(far)
        if accepted is None:
            raise ConnectionResetError(f"{host}:{port} refused the stream")
        self.streams |= {near: None, far: None}
        far.start(accepted)
        near.start(handler(near))
        return near

    def cut_everything(self) -> None:
        """Cut all streams and remove all listeners."""
        for stream in list(self.streams):
            stream.cut()
        self.listening.clear()

    async def _reach(self, source: str, destination: str) -> None:
        """Return when packets go both ways. SYN is sent again after 1, 2, 4 ... seconds."""
        waited_s, pause_s = 0.0, 1.0
        while self.links.is_cut(source, destination) or self.links.is_cut(destination, source):
            if waited_s >= CONNECT_S_MAX:
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), destination)
            await asyncio.sleep(pause_s)
            waited_s += pause_s
            pause_s *= 2

    def powered_on(self, host: str) -> None:
        self.links.power_on(host)

    def died(self, process: Process, *, is_silent: bool = False) -> None:
        """The process died: drop its streams and listeners. If its machine lost power silently, peers see nothing."""
        if is_silent:
            self.links.power_off(process.host)
        for stream in [each for each in self.streams if each.process is process]:
            stream.vanish(is_silent=is_silent)
        for address, listening in list(self.listening.items()):
            if listening.context.get(PROCESS) is process:
                del self.listening[address]

    def _healed(self) -> None:
        for stream in list(self.streams):
            stream.heal()

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port
