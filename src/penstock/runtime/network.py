"""The network interface: byte streams.

A `Stream` sends parts in order, each either bytes in memory or a slice of a file, and calls its `StreamHandler` when
bytes arrive, when its backlog drains and when it ends. Bytes are received directly into a buffer of the handler, so a
produced batch is never copied between the socket and the log. `net` implements this over sockets,
`tests/simulator` over memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.runtime.disk import Buffer, File


class SliceOwner(Protocol):
    def read_failed(self, error: OSError, path: str) -> None:
        """The file at `path` could not be read. Called on the event loop."""
        ...


@dataclass(slots=True)
class FileSlice:
    """Bytes of a file, to be sent without copying them through this process. A reference keeps the file open."""

    file: File
    position: int
    size: int
    owner: SliceOwner | None = None
    """Notified if the file cannot be read."""

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        """The bytes, for the few callers that need them in memory (old message formats, TLS)."""
        return self.file.read(position=self.position, size=self.size)

    def failed(self, error: OSError) -> None:
        """Notify the owner that reading this slice failed. Only on the event loop."""
        if self.owner is not None:
            self.owner.read_failed(error, self.file.path)


Part = Buffer | FileSlice


class Stream(Protocol):
    peer: str
    """Host and port of the other end, for logs and quotas."""

    peer_host: str

    def send(self, parts: Sequence[Part]) -> None:
        """Queue `parts`, send what the socket accepts now, and the rest when it becomes writable."""
        ...

    def backlog_bytes(self) -> int:
        """The queued bytes that the peer has not read yet."""
        ...

    def is_reset(self) -> bool:
        """Whether the peer has reset the connection, even if no read or write has failed yet."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        """Send the queued parts, then end the stream."""
        ...

    def abort(self) -> None:
        """End the stream now and drop the queued parts."""
        ...


class StreamHandler(Protocol):
    def lend_buffer(self) -> memoryview:
        """A writable, non-empty buffer for the next bytes."""
        ...

    def received(self, size: int) -> None:
        """`size` bytes were received into the start of the lent buffer."""
        ...

    def drained(self) -> None:
        """The backlog is empty again."""
        ...

    def closed(self, reason: BaseException | None) -> None:
        """The stream ended. Called once, as the last call."""
        ...


class Listening(Protocol):
    """A bound address. Peers can connect at once, but connections are accepted only after `start`."""

    host: str
    port: int

    def start(self) -> None: ...

    def close(self) -> None:
        """Stop accepting. Accepted streams stay open."""
        ...


class Network(Protocol):
    async def listen(
        self, host: str, port: int, accept: Callable[[Stream], StreamHandler | None]
    ) -> Listening:
        """Bind, and after `Listening.start` call `accept` for every new stream. If it returns None, the stream is
        closed. Port 0 means any free port."""
        ...

    async def connect(self, host: str, port: int, handler: Callable[[Stream], StreamHandler]) -> Stream: ...
