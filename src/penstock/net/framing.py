"""Frames out of a byte stream: four bytes of length, then that many bytes. No I/O.

The reader lends room to whoever fills it, and hands frames out as views into that room, so a produced batch
travels from the socket to the log without being copied. A connection with nothing half-read borrows one scratch
buffer that all connections of the loop share, so an idle connection costs no buffer at all.

Invariant: a frame's view is valid until the next `lend`; nobody else writes to the room before that.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

SCRATCH_BYTES = 256 * 1024  # one read takes at most this much from one peer before others get their turn
# From this size on, read to the frame's end and no further: nothing is left to move.
EXACT_FRAME_BYTES = 64 * 1024
GROWTH = 8  # memory is taken for what a peer sent, times this, never for what it merely announced

_LENGTH = struct.Struct(">i")


class FrameTooLarge(Exception):
    """The peer announced a frame beyond the limit, or of negative length; its stream cannot be understood further."""


class ForeignProtocol(FrameTooLarge):
    """The peer does not speak Kafka's protocol at all: where the length should be, another protocol begins."""


HTTP_STARTS = frozenset(
    (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ", b"HTTP")
)
"""The first four bytes of every HTTP method, of the preface of HTTP/2, and of a response. As lengths they are all over
1 GiB."""
TLS_HANDSHAKE, TLS_ALERT, TLS_MAJOR_VERSION = 22, 21, 3


def new_room(size: int) -> memoryview:
    return memoryview(bytearray(size))


class FrameReader:
    """Takes bytes as they come and gives whole frames; `penstock.net.connection` drives it."""

    __slots__ = ("_buffer", "_end", "_growth", "_new_room", "_own", "_scratch", "_start", "frame_bytes_max")

    def __init__(
        self,
        scratch: memoryview,
        *,
        frame_bytes_max: int,
        growth: int = GROWTH,
        new_room: Callable[[int], memoryview] = new_room,
    ) -> None:
        """`growth` bounds what a mere announcement is worth; who trusts its peer takes room for a whole frame."""
        self._scratch = scratch
        self._own: memoryview | None = None
        self._buffer = scratch
        self._start = 0
        self._end = 0
        self.frame_bytes_max = frame_bytes_max
        self._growth = growth
        self._new_room = new_room

    @property
    def buffered_bytes(self) -> int:
        return self._end - self._start

    def lend(self) -> memoryview:
        """Room for more bytes. Call `settle` first when frames may be left over."""
        start, end = self._start, self._end
        if start == end:
            self._start = self._end = 0
            # A private buffer that grew for large frames is read into exactly; small frames share the scratch buffer.
            own = self._own
            self._buffer = own if own is not None and len(own) > EXACT_FRAME_BYTES else self._scratch
            return self._buffer
        pending = end - start
        frame_end = start + (self._announced(start) if pending >= 4 else 4)
        if frame_end > len(self._buffer):
            self._make_room(frame_end - start)
            frame_end -= start
        if frame_end - self._start >= EXACT_FRAME_BYTES:
            return self._buffer[self._end : min(frame_end, len(self._buffer))]
        return self._buffer[self._end :]

    def received(self, size: int) -> None:
        self._end += size

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length, or None until more bytes come."""
        start = self._start
        if self._end - start < 4:
            return None
        frame_end = start + self._announced(start)
        if frame_end > self._end:
            return None
        self._start = frame_end
        return self._buffer[start + 4 : frame_end]

    def give_back(self, frame: memoryview) -> None:
        """Have the last frame given once more."""
        self._start -= len(frame) + 4

    def hand_over(self) -> bool:
        """Let whoever has the last frame keep its room; False where it is not alone there, and must be copied."""
        if self._buffer is not self._own or self._start != self._end:
            return False
        self._own = None
        self._buffer = self._scratch
        self._start = self._end = 0
        return True

    def settle(self) -> None:
        """Move what is left over out of the shared scratch buffer, which belongs to the next reader from now on."""
        if self._buffer is self._scratch and self._start != self._end:
            self._make_room(self._end - self._start)

    def shrink(self) -> None:
        """Give the private buffer back if nothing is half-read; for connections that have gone quiet."""
        if self._start == self._end:
            self._own = None
            self._buffer = self._scratch
            self._start = self._end = 0

    def _announced(self, start: int) -> int:
        """Bytes of the frame that starts here, its length field included."""
        length: int = _LENGTH.unpack_from(self._buffer, start)[0]
        if not 0 <= length <= self.frame_bytes_max:
            raise _refusal(bytes(self._buffer[start : start + 4]), length, self.frame_bytes_max)
        return length + 4

    def _make_room(self, frame_bytes: int) -> None:
        """Bring the leftover to the start of a private buffer that can hold more of its frame."""
        pending = self._end - self._start
        leftover = self._buffer[self._start : self._end]
        wanted = max(min(frame_bytes, pending * self._growth), EXACT_FRAME_BYTES)
        own = self._own
        if own is None or len(own) < wanted:
            own = self._new_room(wanted)
        own[:pending] = leftover if own is not self._buffer else bytes(leftover)
        self._own = self._buffer = own
        self._start, self._end = 0, pending


def _refusal(start: bytes, length: int, frame_bytes_max: int) -> FrameTooLarge:
    """Name the peer's protocol if it is recognized: a length of 1195725856 bytes helps nobody."""
    if start in HTTP_STARTS:
        return ForeignProtocol("it speaks HTTP, and this connection is for the Kafka protocol")
    if start[0] in (TLS_HANDSHAKE, TLS_ALERT) and start[1] == TLS_MAJOR_VERSION:
        return ForeignProtocol(
            "it speaks TLS, and this connection is in plaintext; check the client's security.protocol and the port"
        )
    return FrameTooLarge(f"a request of {length} bytes was announced; the limit is {frame_bytes_max}")
