"""Splits a byte stream into frames: four bytes of length, then that many bytes. No I/O.

The reader lends a buffer to the caller, which receives into it, and returns frames as views of that buffer. So a
produced batch gets from the socket to the log without a copy. A connection without a partial frame uses one scratch
buffer that all connections of the loop share, so an idle connection needs no buffer.

Invariant: the view of a frame is valid until the next `lend`; nothing else writes to the buffer before that.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

SCRATCH_BYTES = 256 * 1024  # one read takes at most this much before it is the turn of other peers
# From this size on, a read ends at the end of the frame, so that no leftover has to be moved.
EXACT_FRAME_BYTES = 64 * 1024
GROWTH = 8  # allocate at most this times the received bytes, whatever length a peer announces

_LENGTH = struct.Struct(">i")


class FrameTooLarge(Exception):
    """The peer announced a frame with a length over the limit or below 0. The stream cannot be read further."""


class ForeignProtocol(FrameTooLarge):
    """The peer does not use the Kafka protocol: the length field is the start of another protocol."""


HTTP_STARTS = frozenset(
    (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ", b"HTTP")
)
"""The first four bytes of each HTTP method, the HTTP/2 preface and an HTTP response. As lengths, all are over 1 GiB."""
TLS_HANDSHAKE, TLS_ALERT, TLS_MAJOR_VERSION = 22, 21, 3


def new_buffer(size: int) -> memoryview:
    return memoryview(bytearray(size))


class FrameReader:
    """Collects received bytes and returns whole frames. `penstock.net.connection` drives it."""

    __slots__ = ("_buffer", "_end", "_growth", "_new_buffer", "_own", "_scratch", "_start", "frame_bytes_max")

    def __init__(
        self,
        scratch: memoryview,
        *,
        frame_bytes_max: int,
        growth: int = GROWTH,
        new_buffer: Callable[[int], memoryview] = new_buffer,
    ) -> None:
        """`growth` limits the memory for a frame that was only announced; a client, which trusts its broker, sets it
        high."""
        self._scratch = scratch
        self._own: memoryview | None = None
        self._buffer = scratch
        self._start = 0
        self._end = 0
        self.frame_bytes_max = frame_bytes_max
        self._growth = growth
        self._new_buffer = new_buffer

    @property
    def buffered_bytes(self) -> int:
        return self._end - self._start

    def lend(self) -> memoryview:
        """A buffer for more bytes. Call `settle` first if a partial frame may be left."""
        start, end = self._start, self._end
        if start == end:
            self._start = self._end = 0
            # Large frames are read into the private buffer, small ones into the scratch buffer.
            own = self._own
            self._buffer = own if own is not None and len(own) > EXACT_FRAME_BYTES else self._scratch
            return self._buffer
        pending = end - start
        frame_end = start + (self._announced(start) if pending >= 4 else 4)
        if frame_end > len(self._buffer):
            self._grow(frame_end - start)
            frame_end -= start
        if frame_end - self._start >= EXACT_FRAME_BYTES:
            return self._buffer[self._end : min(frame_end, len(self._buffer))]
        return self._buffer[self._end :]

    def received(self, size: int) -> None:
        self._end += size

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length, or None if more bytes are needed."""
        start = self._start
        if self._end - start < 4:
            return None
        frame_end = start + self._announced(start)
        if frame_end > self._end:
            return None
        self._start = frame_end
        return self._buffer[start + 4 : frame_end]

    def give_back(self, frame: memoryview) -> None:
        """Return the last frame again from the next `next_frame`."""
        self._start -= len(frame) + 4

    def hand_over(self) -> bool:
        """Give the private buffer to the holder of the last frame; False if it holds more, so that a copy is needed."""
        if self._buffer is not self._own or self._start != self._end:
            return False
        self._own = None
        self._buffer = self._scratch
        self._start = self._end = 0
        return True

    def settle(self) -> None:
        """Move a partial frame out of the scratch buffer, which the next reader uses."""
        if self._buffer is self._scratch and self._start != self._end:
            self._grow(self._end - self._start)

    def shrink(self) -> None:
        """Release the private buffer if there is no partial frame; for idle connections."""
        if self._start == self._end:
            self._own = None
            self._buffer = self._scratch
            self._start = self._end = 0

    def _announced(self, start: int) -> int:
        """The size of the frame that starts here, including its length field."""
        length: int = _LENGTH.unpack_from(self._buffer, start)[0]
        if not 0 <= length <= self.frame_bytes_max:
            raise _refusal(bytes(self._buffer[start : start + 4]), length, self.frame_bytes_max)
        return length + 4

    def _grow(self, frame_bytes: int) -> None:
        """Move the partial frame to the start of a private buffer with space for more of it."""
        pending = self._end - self._start
        leftover = self._buffer[self._start : self._end]
        wanted = max(min(frame_bytes, pending * self._growth), EXACT_FRAME_BYTES)
        own = self._own
        if own is None or len(own) < wanted:
            own = self._new_buffer(wanted)
        own[:pending] = leftover if own is not self._buffer else bytes(leftover)
        self._own = self._buffer = own
        self._start, self._end = 0, pending


def _refusal(start: bytes, length: int, frame_bytes_max: int) -> FrameTooLarge:
    """Name the protocol of the peer if it is known: a length of 1195725856 bytes explains nothing."""
    if start in HTTP_STARTS:
        return ForeignProtocol("the peer speaks HTTP, not the Kafka protocol")
    if start[0] in (TLS_HANDSHAKE, TLS_ALERT) and start[1] == TLS_MAJOR_VERSION:
        return ForeignProtocol(
            "the peer speaks TLS, but this connection is PLAINTEXT; check the client's security.protocol and the port"
        )
    return FrameTooLarge(f"a request of {length} bytes exceeds the limit of {frame_bytes_max} bytes")
