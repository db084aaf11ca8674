"""Reusable buffers for large responses.

Records are not copied out of their response: messages and columns are views of it, as long as the application keeps
them. New memory for each response costs as much as receiving it (bench "clients"), so a few buffers are kept. Python
says whether a buffer is free: a bytearray with a view cannot be resized.
"""

from __future__ import annotations

BUFFERS_MAX = 4  # as many responses as a consumer buffers; beyond that, buffers are not kept
BUFFER_BYTES_MAX = 64 << 20  # larger buffers are used once


class BufferPool:
    def __init__(self) -> None:
        self._buffers: list[bytearray] = []

    def take(self, size: int) -> memoryview:
        """A buffer of at least this size, with any content. It is free again when no view of it is left."""
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
