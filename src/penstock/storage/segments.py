"""The segments of one log, in the order of their offsets. The last is the active segment."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from penstock.storage.segment import Segment


class Segments:
    __slots__ = ("_bases", "_segments", "active")

    active: Segment

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._segments = list(segments)
        self._bases = [segment.base_offset for segment in self._segments]
        self.active = self._segments[-1]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, slot: int) -> Segment:
        return self._segments[slot]

    def slot_of(self, offset: int) -> int:
        """The segment that holds `offset`: the last that does not start after it."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def end_of(self, slot: int, *, log_end_offset: int) -> int:
        """Where the offsets of a segment end: where the next one starts, or the log ends."""
        return self._bases[slot + 1] if slot + 1 < len(self._bases) else log_end_offset

    def add(self, segment: Segment) -> None:
        assert segment.base_offset > self._bases[-1], "segments are added at the end"
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def take_first(self, count: int) -> list[Segment]:
        """Remove the `count` oldest; the active one always stays."""
        assert count < len(self._segments), "a log has at least one segment"
        taken = self._segments[:count]
        del self._segments[:count], self._bases[:count]
        return taken

    def take_after(self, slot: int) -> list[Segment]:
        """Remove all after `slot`, which becomes the active one."""
        taken = self._segments[slot + 1 :]
        del self._segments[slot + 1 :], self._bases[slot + 1 :]
        self.active = self._segments[-1]
        return taken

    def find(self, wanted: Sequence[Segment]) -> int | None:
        """The slot of the first of `wanted`, if all of them are there, one after the other."""
        slot = self.slot_of(wanted[0].base_offset)
        return slot if self._segments[slot : slot + len(wanted)] == list(wanted) else None

    def replace(self, slot: int, count: int, segment: Segment) -> None:
        """Replace `count` segments from `slot` on, not the active one, by one with the same base offset."""
        assert segment.base_offset == self._bases[slot], "the offsets before it would belong to no segment"
        assert slot + count < len(self._segments), "the active segment stays"
        self._segments[slot : slot + count] = [segment]
        self._bases[slot : slot + count] = [segment.base_offset]

    def replace_last(self, segment: Segment) -> list[Segment]:
        """Replace the active segment, which is empty, by `segment`."""
        taken = [self._segments.pop()]
        self._segments.append(segment)
        self._bases[-1] = segment.base_offset
        self.active = segment
        return taken

    def replace_all(self, segment: Segment) -> list[Segment]:
        """Replace all by `segment`."""
        taken = self._segments
        self._segments, self._bases, self.active = [segment], [segment.base_offset], segment
        return taken

    def size_bytes(self) -> int:
        return sum([segment.size for segment in self._segments])
