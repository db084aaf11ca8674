"""Those who wait: for an offset to be reached, or for bytes to fetch.

A partition asks its waits on every append, so a partition for which nobody waits must pay for one truth test
only. Nothing here reads a log or builds an answer: a wait is told that it may look again, on the event loop,
after the append that woke it has been answered.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

from penstock.protocol.errors import ErrorCode

OffsetListener = Callable[[ErrorCode], None]
"""Told once: NONE when the offset was reached, or the reason for which it never will be by this leader."""


class OffsetWaits:
    """Listeners by the offset that they need, lowest first.

    Appends ask for rising offsets, but a repeated batch asks for that of its first copy, hence a heap and not
    a queue.
    """

    __slots__ = ("_heap", "_order")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, OffsetListener]] = []
        self._order = count()

    def __bool__(self) -> bool:
        return bool(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, end_offset: int, listener: OffsetListener) -> None:
        heapq.heappush(self._heap, (end_offset, next(self._order), listener))

    def reach(self, end_offset: int) -> None:
        """Tell every listener that needs `end_offset` or less."""
        heap = self._heap
        while heap and heap[0][0] <= end_offset:
            heapq.heappop(heap)[2](ErrorCode.NONE)

    def fail(self, error: ErrorCode) -> None:
        """Tell every listener that its offset will not be reached here."""
        heap, self._heap = self._heap, []
        for _, _, listener in sorted(heap, key=lambda entry: entry[:2]):
            listener(error)


class FetchWait:
    """One fetch that waits until enough bytes have come in any of its partitions.

    It counts bytes instead of reading the logs again on each append, so that a wait for a megabyte costs one
    subtraction for every small batch that arrives. The count may run ahead of what can be read (limits per
    partition), so whoever is woken looks for itself and may wait again.
    """

    __slots__ = ("_is_woken", "_wake", "missing_bytes")

    def __init__(self, missing_bytes: int, wake: Callable[[], None]) -> None:
        self.missing_bytes = missing_bytes
        self._wake = wake
        self._is_woken = False

    def arrived(self, size: int) -> None:
        self.missing_bytes -= size
        if self.missing_bytes <= 0:
            self.wake()

    def wake(self) -> None:
        """Have it look again soon; called at once when bytes no longer matter, as when leadership moves."""
        if not self._is_woken:
            self._is_woken = True
            asyncio.get_running_loop().call_soon(self._wake)


class FetchWaits(dict[FetchWait, None]):
    """The fetches that wait for one partition.

    A dict and not a set, because it keeps the order of arrival; and it is one and does not hold one, because every
    append asks three of these whether they are empty (bench/micro/broker.py).
    """

    __slots__ = ()

    def add(self, wait: FetchWait) -> None:
        self[wait] = None

    def discard(self, wait: FetchWait) -> None:
        self.pop(wait, None)

    def arrived(self, size: int) -> None:
        for wait in self:
            wait.arrived(size)

    def wake_all(self) -> None:
        for wait in self:
            wait.wake()
