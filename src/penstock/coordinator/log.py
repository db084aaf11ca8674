"""The partitions that a coordinator writes to, as it sees them. `node` fills this with the real ones, a test
with its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.coordinator.outcome import Guard
from penstock.protocol.errors import ErrorCode
from penstock.records.batch import Buffer
from penstock.records.control import EndedTransaction


class CommitWait(Protocol):
    def cancel(self) -> None:
        """Cancel the wait."""
        ...


class CoordinatorLog(Protocol):
    """The partitions of one internal topic that this node leads."""

    def append(self, partition: int, batches: bytearray, guard: Guard | None = None) -> int:
        """Write whole batches, all or none, and return where the log then ends. `Refused` where it cannot be.

        A transactional batch that is the first of its transaction there needs the `guard` that is in force."""
        ...

    def append_marker(self, partition: int, marker: EndedTransaction) -> int:
        """End a transaction, as `append`. `Refused` also for a marker of an old coordinator or producer."""
        ...

    def is_committed(self, partition: int, end_offset: int) -> bool:
        """Whether everything below `end_offset` is on every replica in sync."""
        ...

    def wait_for_commit(
        self, partition: int, end_offset: int, listener: Callable[[ErrorCode], None]
    ) -> CommitWait | None:
        """None if everything below `end_offset` is committed. If not, `listener` is told once, unless the wait is
        cancelled: NONE when it is committed, or why it will not be by this leader."""
        ...

    def bounds(self, partition: int) -> tuple[int, int]:
        """Where the log starts and ends. `Refused` where this node does not lead it."""
        ...

    async def read(self, partition: int, offset: int) -> Buffer | None:
        """Whole batches, from the one that holds `offset` on; None at the end. `Refused` if this node does not lead."""
        ...
