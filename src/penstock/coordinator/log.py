"""The interface to the partitions that a coordinator writes to. `node` implements it, and tests have a fake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.coordinator.result import Guard
from penstock.protocol.errors import ErrorCode
from penstock.records.batch import Buffer
from penstock.records.control import TxnMarkerEntry


class CommitWait(Protocol):
    def cancel(self) -> None:
        """Cancel the wait."""
        ...


class CoordinatorLog(Protocol):
    """The partitions of one internal topic that this node leads."""

    def append(self, partition: int, batches: bytearray, guard: Guard | None = None) -> int:
        """Append all of these batches, or `Refused`; return the new end offset of the log.

        The first batch of a transaction in the partition needs the `guard` that is in force."""
        ...

    def append_marker(self, partition: int, marker: TxnMarkerEntry) -> int:
        """End a transaction. `Refused` also for a marker with an old coordinator or producer epoch."""
        ...

    def is_committed(self, partition: int, end_offset: int) -> bool:
        """Whether all in-sync replicas have everything below `end_offset`."""
        ...

    def wait_for_commit(
        self, partition: int, end_offset: int, listener: Callable[[ErrorCode], None]
    ) -> CommitWait | None:
        """None if everything below `end_offset` is committed. If not, `listener` is called once, unless the wait is
        cancelled: with NONE when it is committed, or with the error that ends the wait."""
        ...

    def bounds(self, partition: int) -> tuple[int, int]:
        """The start and end offset of the log. `Refused` if this node does not lead it."""
        ...

    async def read(self, partition: int, offset: int) -> Buffer | None:
        """Whole batches, from the one with `offset`; None at the end. `Refused` if this node does not lead it."""
        ...
