"""Unstable transactions: those that are open, and those whose marker is not committed yet.

read_committed consumers stop at the first offset of the earliest of them. A marker that is not committed decides
nothing, because the next leader may not have it. So a transaction is removed when the high watermark has passed its
marker.

Both kinds are kept so that the earliest is found without a search.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable


class UnstableTransactions:
    __slots__ = ("_high_watermark", "ended", "open")

    def __init__(self, begun: Iterable[tuple[int, int]] = (), *, high_watermark: int = 0) -> None:
        """`begun`: first offsets and producers of open transactions, in any order."""
        self.open: OrderedDict[int, int] = OrderedDict(sorted(begun))
        """Producers by first offset. Transactions begin at the end of the log, so the first is the earliest; a plain
        dict would have to skip all removed entries to find it."""
        self.ended: deque[tuple[int, int]] | None = None
        """First offset and marker offset, both rising: a transaction that began after another and ended before it is
        never the earliest, so it is not kept. None until there is one: an empty deque takes 700 bytes, and most logs
        never have a transaction."""
        self._high_watermark = high_watermark

    def begin(self, first_offset: int, producer_id: int) -> None:
        self.open[first_offset] = producer_id

    def end(self, first_offset: int, *, marker_offset: int) -> int:
        """End an open transaction; returns the last stable offset once the marker is committed."""
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
        """Remove those whose markers are below `high_watermark`."""
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
