"""Many connections in one thread, with a callback per connection.

For workloads that one connection cannot measure: members that wait for one another, and load on many connections.
Responses are only split into frames here, so that the broker is measured and not the client.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

READ_BYTES = 1 << 16
STUCK_S = 60.0  # a broker that does not respond for this long is stuck
LENGTH = struct.Struct(">i")


class Link:
    """One connection. `on_response` gets each response without its length; the view is valid until it returns."""

    __slots__ = ("_pending", "_send", "_socket", "fd", "on_read", "on_response", "outstanding")

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.fd = self._socket.fileno()
        self._send = self._socket.sendall
        self.outstanding = 0
        """Outstanding responses."""
        self.on_response: Callable[[memoryview], None] | None = None
        self.on_read: Callable[[], None] | None = None
        """Called after the responses of one read, to send the next requests together."""
        self._pending = b""

    def send(self, frames: bytes | bytearray, count: int = 1) -> None:
        self.outstanding += count
        self._send(frames)

    def readable(self) -> None:
        data = self._socket.recv(READ_BYTES)
        if not data:
            raise ConnectionError("the broker closed the connection")
        if self._pending:
            data = self._pending + data
        view, position, end = memoryview(data), 0, len(data)
        while end - position >= 4:
            frame_end = position + 4 + LENGTH.unpack_from(data, position)[0]
            if frame_end > end:
                break
            self.outstanding -= 1
            if self.on_response is not None:
                self.on_response(view[position + 4 : frame_end])
            position = frame_end
        self._pending = data[position:]
        if self.on_read is not None:
            self.on_read()

    def close(self) -> None:
        self._socket.close()


class ConnectionPool:
    """Connections to one broker, and delayed actions."""

    def __init__(self, port: int, size: int) -> None:
        self._poll = select.epoll()
        self.links: list[Link] = []
        self._by_fd: dict[int, Link] = {}
        self._later: deque[tuple[float, Callable[[], None]]] = deque()
        for _ in range(size):
            link = Link(port)
            self.links.append(link)
            self._by_fd[link.fd] = link
            self._poll.register(link.fd, select.EPOLLIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._poll.close()
        for link in self.links:
            link.close()

    def call_later(self, pace_s: float, action: Callable[[], None]) -> None:
        """Call `action` in `pace_s`, which is the same for all calls, so that they run in order."""
        self._later.append((time.perf_counter() + pace_s, action))

    def drain(self) -> None:
        """Send nothing more, and wait for the outstanding responses."""
        self._later.clear()
        for link in self.links:
            link.on_response = link.on_read = None
        self.run_until(lambda: not any(link.outstanding for link in self.links))

    def turn(self, wait_s: float) -> None:
        """Process the responses that arrive within `wait_s`, and run the actions that are due."""
        by_fd = self._by_fd
        for fd, _ in self._poll.poll(wait_s):
            by_fd[fd].readable()
        later = self._later
        if later:
            now = time.perf_counter()
            while later and later[0][0] <= now:
                later.popleft()[1]()

    def run_for(self, seconds: float) -> None:
        limit = time.perf_counter() + seconds
        while time.perf_counter() < limit:
            self.turn(0.1)

    def run_until(self, is_done: Callable[[], bool]) -> None:
        limit = time.perf_counter() + STUCK_S
        while not is_done():
            self.turn(0.001 if self._later else 0.1)
            if time.perf_counter() > limit:
                raise TimeoutError("the broker did not get there in time")
