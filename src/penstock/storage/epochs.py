"""The leader epoch cache: which leader epoch wrote which offsets, for OffsetForLeaderEpoch and for truncation
(KIP-101).

An entry says that records from `start_offset` on have `epoch`, until the next entry. Epochs and offsets both grow
strictly; an assignment that would break this removes the entries in its way. A flush writes the file
`leader-epoch-checkpoint`; entries that it lacks after a crash are in batches past the recovery point, which recovery
reads anyway.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from penstock.protocol.constants import UNKNOWN_OFFSET
from penstock.records.batch import NO_LEADER_EPOCH


class LeaderEpochs:
    __slots__ = ("_epochs", "_start_offsets", "is_dirty", "latest")

    latest: int
    """The newest epoch, or -1; an attribute because every append compares it."""
    is_dirty: bool
    """Whether the file on disk is outdated."""

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []
        self.latest = NO_LEADER_EPOCH
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)
        self.is_dirty = False

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._start_offsets, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Start `epoch` at `start_offset`, unless it has started already."""
        epochs, offsets = self._epochs, self._start_offsets
        if epochs and epoch == epochs[-1] and start_offset >= offsets[-1]:
            return
        while epochs and (epochs[-1] >= epoch or offsets[-1] >= start_offset):
            epochs.pop()
            offsets.pop()
        epochs.append(epoch)
        offsets.append(start_offset)
        self._changed()

    def end_offset_for(self, epoch: int, *, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch not above `epoch`, and where it ended; (-1, -1) if unknown.

        An epoch older than all known ones ends where the first known one starts: its records were deleted, and a
        follower may continue from there.
        """
        if epoch == NO_LEADER_EPOCH:
            return NO_LEADER_EPOCH, UNKNOWN_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        above = bisect_right(self._epochs, epoch)
        if above == len(self._epochs):
            return NO_LEADER_EPOCH, UNKNOWN_OFFSET
        found = self._epochs[above - 1] if above > 0 else epoch
        return found, self._start_offsets[above]

    def epoch_for(self, offset: int) -> int:
        """The epoch that wrote `offset`, or -1 if it is before all entries."""
        above = bisect_right(self._start_offsets, offset)
        return self._epochs[above - 1] if above > 0 else NO_LEADER_EPOCH

    def truncate_end(self, end_offset: int) -> None:
        """Remove epochs that started at or after the new log end offset."""
        keep = bisect_left(self._start_offsets, end_offset)
        if keep < len(self._epochs):
            del self._epochs[keep:]
            del self._start_offsets[keep:]
            self._changed()

    def truncate_start(self, start_offset: int) -> None:
        """Remove epochs that ended before the new log start offset; the epoch that covers it now starts there."""
        drop = bisect_right(self._start_offsets, start_offset) - 1
        if drop < 0 or (drop == 0 and self._start_offsets[0] == start_offset):
            return
        del self._epochs[:drop]
        del self._start_offsets[:drop]
        self._start_offsets[0] = start_offset
        self._changed()

    def extend_back(self, epoch: int, start_offset: int) -> None:
        """Start `epoch`, that of the log's first batch, at `start_offset` if no entry covers that offset."""
        if self._epochs and self._start_offsets[0] <= start_offset:
            return
        if self._epochs and self._epochs[0] == epoch:
            self._start_offsets[0] = start_offset
        elif not self._epochs or epoch < self._epochs[0]:
            self._epochs.insert(0, epoch)
            self._start_offsets.insert(0, start_offset)
        self._changed()

    def clear(self) -> None:
        self._epochs.clear()
        self._start_offsets.clear()
        self._changed()

    def _changed(self) -> None:
        self.latest = self._epochs[-1] if self._epochs else NO_LEADER_EPOCH
        self.is_dirty = True
