"""A simulated node, and a peer that sends arbitrary bytes and keeps the frames that it gets."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from penstock.net.framing import FrameReader
from penstock.protocol.apis import ApiKey, api
from penstock.protocol.codec import codec
from penstock.protocol.headers import encode_request_header, read_response_header
from penstock.runtime.network import Network, Stream
from simulator.simulation import HOST, PORT, Simulation

T = TypeVar("T")

FRAME_BYTES_MAX = 1 << 30
QUIET_S = 60.0  # virtual time, longer than any wait in a test


def simulate(
    main: Callable[[Simulation], Coroutine[Any, Any, T]],
    *,
    seed: int = 1,
    properties: dict[str, str] | None = None,
) -> T:
    """Run `main` next to a running node, then stop the node cleanly. A bug that the node reports fails the test."""

    async def run(simulation: Simulation) -> T:
        await simulation.start()
        result = await main(simulation)
        await simulation.stop()
        return result

    return Simulation(seed, settings=properties).run(run)


class RawPeer:
    """One connection that sends given bytes and keeps complete frames."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.is_closed = False
        self._frames = FrameReader(memoryview(bytearray(1 << 16)), frame_bytes_max=FRAME_BYTES_MAX)
        self._received: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._correlation_id = 0

    @classmethod
    async def connect(cls, network: Network, host: str = HOST, port: int = PORT) -> RawPeer:
        made: list[RawPeer] = []

        def handler(stream: Stream) -> RawPeer:
            made.append(cls(stream))
            return made[0]

        await network.connect(host, port, handler)
        return made[0]

    def send(self, data: bytes) -> None:
        self.stream.send([data])

    def send_request(self, key: int, version: int, body: bytes, *, client_id: str | None = "raw") -> int:
        """A frame with the right header for the API and version, and any body."""
        self._correlation_id += 1
        head = encode_request_header(ApiKey(key), version, self._correlation_id, client_id)
        self.send(struct.pack(">i", len(head) + len(body)) + head + body)
        return self._correlation_id

    async def receive(self, *, within_s: float = QUIET_S) -> bytes | None:
        """The next complete frame; None if the node closed the connection; TimeoutError if neither."""
        if self.is_closed and self._received.empty():
            return None
        return await asyncio.wait_for(self._received.get(), within_s)

    # -- called by the stream

    def lend_buffer(self) -> memoryview:
        return self._frames.lend()

    def received(self, size: int) -> None:
        self._frames.received(size)
        while (frame := self._frames.next_frame()) is not None:
            self._received.put_nowait(bytes(frame))
        self._frames.settle()

    def drained(self) -> None:
        """It sends little and waits for responses."""

    def closed(self, reason: BaseException | None) -> None:
        self.is_closed = True
        self._received.put_nowait(None)


def decode_response(frame: bytes, key: int, version: int) -> Any:
    """The response in a frame, which must end with the frame."""
    described = api(key)
    _, position = read_response_header(memoryview(frame), ApiKey(key), version)
    response, end = codec(described.response_class(), version).decode(frame, position)
    assert end == len(frame), f"{len(frame) - end} bytes follow the response"
    return response
