"""Transactions whose outcome may still change: those that are open, and those whose end is not committed yet.

Readers of committed data stop at the first offset of the earliest of them. An end that is written but not committed
decides nothing: the next leader may not have it. So a transaction leaves only when the high watermark has
passed its marker.

Both kinds are kept so that the earliest is found without a search, however many there are.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable


class UnstableTransactions:
    __slots__ = ("_high_watermark", "ended", "open")

    def __init__(self, begun: Iterable[tuple[int, int]] = (), *, high_watermark: int = 0) -> None:
        """`begun`: first offsets and producers of open transactions, in any order."""
        self.open: OrderedDict[int, int] = OrderedDict(sorted(begun))
        """The producer by the first offset. Transactions begin at the end of the log, so the first is the earliest; a
        plain dict would search for it past all that were removed before."""
        self.ended: deque[tuple[int, int]] | None = None
        """First offset and offset of the marker, both rising: one that began after another and ended before it never
        is the earliest, so it is not kept. None until there is one: an empty deque takes 700 bytes, and most logs never
        hold a transaction."""
        self._high_watermark = high_watermark

    def begin(self, first_offset: int, producer_id: int) -> None:
        self.open[first_offset] = producer_id

    def end(self, first_offset: int, *, marker_offset: int) -> int:
        """Note the end of an open transaction; returns below which offset all is decided, once this is committed."""
        del self.open[first_offset]
        if marker_offset >= self._high_watermark:
            if self.ended is None:
                self.ended = deque()
            ended = self.ended
            while ended and ended[-1][0] >= first_offset:
                ended.pop()
            ended.append((first_offset, marker_offset))
        return next(iter(self.open)) if self.open else marker_offset + 1

    def advance(self, high_watermark: int) -> None:
        """Let go of those whose markers are below `high_watermark`."""
        self._high_watermark = high_watermark
        ended = self.ended
        while ended and ended[0][1] < high_watermark:
            ended.popleft()

    def first_offset(self) -> int | None:
        """Where the earliest begins; None if there is none."""
        first = next(iter(self.open)) if self.open else None
        if self.ended and (first is None or self.ended[0][0] < first):
            first = self.ended[0][0]
        return first
