"""Many connections in one thread: each has an owner that is told of its answers as they come.

For what one connection cannot measure: members that wait for one another, and load spread over connections as clients
spread it. Answers are cut into frames here and nothing else is done with them, so that the broker is what is measured.
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
STUCK_S = 60.0  # a broker that lets everybody wait for so long will not come back
LENGTH = struct.Struct(">i")


class Link:
    """One connection. `on_answer` gets each answer without its length; the view is valid until it returns."""

    __slots__ = ("_pending", "_send", "_socket", "fd", "on_answer", "on_read", "owed")

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.fd = self._socket.fileno()
        self._send = self._socket.sendall
        self.owed = 0
        """Answers that are still to come."""
        self.on_answer: Callable[[memoryview], None] | None = None
        self.on_read: Callable[[], None] | None = None
        """After the answers of one read: whoever sends something for each of them sends it in one go."""
        self._pending = b""

    def send(self, frames: bytes | bytearray, count: int = 1) -> None:
        self.owed += count
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
            self.owed -= 1
            if self.on_answer is not None:
                self.on_answer(view[position + 4 : frame_end])
            position = frame_end
        self._pending = data[position:]
        if self.on_read is not None:
            self.on_read()

    def close(self) -> None:
        self._socket.close()


class Crowd:
    """Connections to one broker, and what is to be done on them later."""

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

    def after_pace(self, pace_s: float, action: Callable[[], None]) -> None:
        """Do `action` in `pace_s`, which is the same for everybody: what was asked for first comes first."""
        self._later.append((time.perf_counter() + pace_s, action))

    def fall_silent(self) -> None:
        """Say nothing more, and let the answers that are under way come in."""
        self._later.clear()
        for link in self.links:
            link.on_answer = link.on_read = None
        self.run_until(lambda: not any(link.owed for link in self.links))

    def turn(self, wait_s: float) -> None:
        """Take the answers that are there, or come within `wait_s`, and do what is due."""
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
