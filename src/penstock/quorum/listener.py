"""The receiver of committed records; `node` implements it with the loader and the controller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from penstock.quorum.log import DataBatch
from penstock.quorum.messages import SnapshotId


class QuorumListener(Protocol):
    """All calls come from the event loop and must not raise: an exception ends the quorum."""

    def load_snapshot(self, batches: Iterator[DataBatch], snapshot_id: SnapshotId) -> None:
        """The state at `snapshot_id.end_offset`; it replaces everything before."""
        ...

    def replay(self, batches: Sequence[DataBatch]) -> None:
        """Committed records, in order, each exactly once. Without those that this node has appended as the present
        leader."""
        ...

    def elected(self, epoch: int) -> None:
        """This node leads; everything before its epoch has been replayed. `Quorum.append` works from now on."""
        ...

    def committed(self, high_watermark: int) -> None:
        """All records below are committed, and were replayed unless this node has appended them as leader."""
        ...

    def resigned(self) -> None:
        """This node leads no more. What it appended and what is not committed may be lost; if another leader commits
        it, `replay` brings it."""
        ...

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        """A new epoch, or its leader is known now. `leader_id` is -1 if it is unknown."""
        ...
