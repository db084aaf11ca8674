"""Byte streams as the broker sees them.

A `Stream` sends parts in order, each either bytes in memory or a slice of a file, and calls its `StreamHandler` back
when bytes arrive, when its backlog drains and when it ends. Received bytes go straight into a buffer that the handler
lends, so a produced batch is never copied between the socket and the log. `net` implements these over sockets,
`penstock.testing` over memory.
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
    """Bytes of a file to be sent without passing through this process. Holding one keeps the file open."""

    file: File
    position: int
    size: int
    owner: SliceOwner | None = None
    """Is told when the file cannot be read."""

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        """The bytes themselves, for the few callers that have to look inside (old message formats, TLS)."""
        return self.file.read(position=self.position, size=self.size)

    def failed(self, error: OSError) -> None:
        """Tell the owner that reading this slice failed. Only on the event loop."""
        if self.owner is not None:
            self.owner.read_failed(error, self.file.path)


Part = Buffer | FileSlice


class Stream(Protocol):
    peer: str
    """Host and port of the other end, for logs and quotas."""

    peer_host: str

    def send(self, parts: Sequence[Part]) -> None:
        """Queue `parts` and send what the peer will take now; the rest follows as it drains."""
        ...

    def backlog_bytes(self) -> int:
        """How much is queued because the peer does not read."""
        ...

    def is_reset(self) -> bool:
        """Whether the peer is known to be gone though no read or write has come upon it yet."""
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        """Send what is queued, then end the stream."""
        ...

    def abort(self) -> None:
        """End the stream now and drop what is queued."""
        ...


class StreamHandler(Protocol):
    def lend_buffer(self) -> memoryview:
        """Room for the next bytes, never empty; writable."""
        ...

    def received(self, size: int) -> None:
        """`size` bytes were placed at the start of the lent buffer."""
        ...

    def drained(self) -> None:
        """The backlog, which had stopped being zero, is zero again."""
        ...

    def closed(self, reason: BaseException | None) -> None:
        """The stream ended; called once, and nothing is called after it."""
        ...


class Listening(Protocol):
    """A bound address. Peers may connect at once, but nobody is accepted before `start`."""

    host: str
    port: int

    def start(self) -> None: ...

    def close(self) -> None:
        """Accept no more; streams that were accepted live on."""
        ...


class Network(Protocol):
    async def listen(
        self, host: str, port: int, accept: Callable[[Stream], StreamHandler | None]
    ) -> Listening:
        """Bind, and from `Listening.start` on call `accept` for every new stream; None refuses it. Port 0 picks one."""
        ...

    async def connect(self, host: str, port: int, handler: Callable[[Stream], StreamHandler]) -> Stream: ...
