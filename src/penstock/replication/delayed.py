"""Requests that wait for an offset to be reached, or for bytes to fetch.

A partition asks its waits on every append, so a partition for which nobody waits must pay for one truth test
only. Nothing here reads a log or builds an answer: a wait is told that it may look again, on the event loop,
after the append that woke it has been answered.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from itertools import count

from penstock.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

OffsetListener = Callable[[ErrorCode], None]
"""Told once: NONE when the offset was reached, or the reason for which it never will be by this leader."""


class OffsetWait:
    """One listener that waits for an offset; `OffsetWaits.add` returns it, and `cancel` takes it back."""

    __slots__ = ("_listener", "_waits")

    def __init__(self, waits: OffsetWaits, listener: OffsetListener) -> None:
        self._waits = waits
        self._listener: OffsetListener | None = listener

    @property
    def is_waiting(self) -> bool:
        return self._listener is not None

    def cancel(self) -> None:
        """The request has timed out, or its connection is gone: the listener is not told any more."""
        if self._listener is not None:
            self._listener = None
            self._waits.cancelled()

    def tell(self, error: ErrorCode) -> None:
        listener, self._listener = self._listener, None
        if listener is None:
            return
        try:
            listener(error)
        except Exception:
            # The offset was reached for the others too, and for the append that moved it there.
            logger.exception("a request that waited for an offset failed when it was told")


class OffsetWaits:
    """Listeners by the offset that they need, lowest first.

    Appends ask for rising offsets, but a repeated batch asks for that of its first copy, hence a heap and not
    a queue. Requests that time out leave the heap without a search: it is rebuilt when half of it is cancelled, so it
    never holds more than twice the requests that wait.
    """

    __slots__ = ("_cancelled_count", "_heap", "_order")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, OffsetWait]] = []
        self._order = count()
        self._cancelled_count = 0

    def __bool__(self) -> bool:
        return bool(self._heap)

    def __len__(self) -> int:
        """How many entries are held, cancelled ones among them."""
        return len(self._heap)

    def add(self, end_offset: int, listener: OffsetListener) -> OffsetWait:
        wait = OffsetWait(self, listener)
        heapq.heappush(self._heap, (end_offset, next(self._order), wait))
        return wait

    def cancelled(self) -> None:
        """For `OffsetWait.cancel`: one more entry is of no use."""
        self._cancelled_count += 1
        if self._cancelled_count > len(self._heap) // 2:
            self._heap = [entry for entry in self._heap if entry[2].is_waiting]
            heapq.heapify(self._heap)
            self._cancelled_count = 0

    def reach(self, end_offset: int) -> None:
        """Tell every listener that needs `end_offset` or less."""
        # A listener may cancel others, which may rebuild the heap: it is looked up anew for each.
        while self._heap and self._heap[0][0] <= end_offset:
            wait = heapq.heappop(self._heap)[2]
            if wait.is_waiting:
                wait.tell(ErrorCode.NONE)
            else:
                self._cancelled_count -= 1

    def fail(self, error: ErrorCode) -> None:
        """Tell every listener that its offset will not be reached here."""
        heap, self._heap = self._heap, []
        self._cancelled_count = 0
        for _, _, wait in sorted(heap, key=lambda entry: entry[:2]):
            wait.tell(error)


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
