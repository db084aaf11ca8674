"""Room for large answers, used again when nobody looks at it any more.

Records are not copied out of the answer they came in: messages and columns are made of views of it, for as long as
the application takes. Memory that is new each time costs as much as receiving into it (bench "clients"), so a few
buffers are kept. Whether one is free is asked of Python itself: a bytearray that is viewed cannot change its size.
"""

from __future__ import annotations

BUFFERS_MAX = 4  # as many answers as a consumer has at hand at a time; more are made and let go
BUFFER_BYTES_MAX = 64 << 20  # a larger one is worth its making, and not its keeping


class BufferPool:
    def __init__(self) -> None:
        self._buffers: list[bytearray] = []

    def take(self, size: int) -> memoryview:
        """At least so many bytes, of any content; they are free again when every view of them is gone."""
        free = [buffer for buffer in self._buffers if _is_free(buffer)]
        fitting = min((buffer for buffer in free if len(buffer) >= size), key=len, default=None)
        if fitting is None:
            fitting = bytearray(size)
            if size <= BUFFER_BYTES_MAX:
                self._keep(fitting, free)
        return memoryview(fitting)

    def _keep(self, buffer: bytearray, free: list[bytearray]) -> None:
        if len(self._buffers) < BUFFERS_MAX:
            self._buffers.append(buffer)
        elif free:  # all of them are too small
            smallest = min(free, key=len)
            self._buffers = [each for each in self._buffers if each is not smallest] + [buffer]


def _is_free(buffer: bytearray) -> bool:
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True
