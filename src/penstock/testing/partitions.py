"""Network partitions between the nodes of a test's cluster, inside the process of each node.

A node opens connections to the ports of the others. While a port is cut, nothing that is sent to it arrives, nothing
that it sends is read, and a new connection does not come about: silence, as when a cable is pulled. When the partition
heals, connections that are still open go on, as TCP does. Clients of the test connect to every node at all times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

from penstock.runtime.network import FileSlice, Listening, Network, Part, Stream, StreamHandler


class PartitionedNetwork:
    """A `Network` whose outgoing connections can be cut by the port that they go to."""

    def __init__(self, inner: Network) -> None:
        self._inner = inner
        self._cut: frozenset[int] = frozenset()
        self._healed: asyncio.Event = asyncio.Event()
        self._streams: dict[_CutStream, None] = {}

    def cut(self, ports: Collection[int]) -> None:
        """Cut the connections to these ports, and no others."""
        self._cut = frozenset(ports)
        for stream in list(self._streams):
            stream.set_cut(stream.port in self._cut)
        self._healed.set()
        self._healed = asyncio.Event()

    async def listen(
        self, host: str, port: int, accept: Callable[[Stream], StreamHandler | None]
    ) -> Listening:
        return await self._inner.listen(host, port, accept)

    async def connect(self, host: str, port: int, handler: Callable[[Stream], StreamHandler]) -> Stream:
        while port in self._cut:
            await self._healed.wait()

        made: list[_CutStream] = []

        def wrap(inner: Stream) -> StreamHandler:
            stream = _CutStream(inner, port, on_closed=lambda: self._streams.pop(stream, None))
            self._streams[stream] = None
            made.append(stream)
            return stream.start(handler)

        await self._inner.connect(host, port, wrap)
        made[0].set_cut(port in self._cut)  # it may have been cut meanwhile
        return made[0]


class _CutStream:
    """A stream that can be cut. `penstock.runtime.network.Stream` documents the interface."""

    def __init__(self, inner: Stream, port: int, *, on_closed: Callable[[], object]) -> None:
        self.port = port
        self.peer = inner.peer
        self.peer_host = inner.peer_host
        self._inner = inner
        self._on_closed = on_closed
        self._is_cut = False
        self._is_reading = True
        self._held: list[Part] = []

    def start(self, handler: Callable[[Stream], StreamHandler]) -> StreamHandler:
        return _Handler(handler(self), self._on_closed)

    def set_cut(self, is_cut: bool) -> None:
        if is_cut == self._is_cut:
            return
        self._is_cut = is_cut
        if is_cut:
            self._inner.pause_reading()
            return
        held, self._held = self._held, []
        if held:
            self._inner.send(held)
        if self._is_reading:
            self._inner.resume_reading()

    def send(self, parts: Sequence[Part]) -> None:
        if self._is_cut:
            # The caller may reuse its buffers.
            self._held += [part if isinstance(part, FileSlice) else bytes(part) for part in parts]
        else:
            self._inner.send(parts)

    def backlog_bytes(self) -> int:
        return self._inner.backlog_bytes() + sum(map(len, self._held))

    def is_reset(self) -> bool:
        return not self._is_cut and self._inner.is_reset()

    def pause_reading(self) -> None:
        self._is_reading = False
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        self._is_reading = True
        if not self._is_cut:
            self._inner.resume_reading()

    def close(self) -> None:
        self._held.clear()
        self._inner.close()

    def abort(self) -> None:
        self._held.clear()
        self._inner.abort()


class _Handler:
    """Passes everything on, and tells the network when the stream has ended."""

    def __init__(self, inner: StreamHandler, on_closed: Callable[[], object]) -> None:
        self.lend_buffer = inner.lend_buffer
        self.received = inner.received
        self.drained = inner.drained
        self._inner = inner
        self._on_closed = on_closed

    def closed(self, reason: BaseException | None) -> None:
        self._on_closed()
        self._inner.closed(reason)
