"""The purgatory of a partition: requests that wait for an offset to be reached, or for bytes to fetch.

A partition has none until a request waits, and checks it on every append after that, so an empty one must cost no more
than a few truth tests. Nothing here reads a log or builds a response: a delayed fetch is woken on the event loop, after
the append was answered, and reads again.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from itertools import count
from typing import Protocol

from penstock.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

# Numbers all requests that wait: those for the same offset complete in the order in which they came.
_order = count()

OnComplete = Callable[[ErrorCode], None]
"""Called once: with NONE when the offset was reached, or with the reason why this leader will never reach it."""


class PartitionPurgatory:
    """All delayed operations of one partition."""

    __slots__ = (
        "_announced_stable_offset",
        "_last_stable_offset",
        "commits",
        "committed_fetches",
        "deletions",
        "fetches",
        "flushes",
        "produces",
        "watches",
    )

    def __init__(self, last_stable_offset: Callable[[], int]) -> None:
        self._last_stable_offset = last_stable_offset
        self.produces = OffsetPurgatory()
        """Produce requests with acks=all. They fail when the ISR becomes smaller than `min.insync.replicas`."""
        self.commits = OffsetPurgatory()
        """Writes of coordinators, which wait however small the ISR is: what they wrote cannot be undone."""
        self.flushes = OffsetPurgatory()
        """Produce requests with acks=1, where a flush policy delays them."""
        self.deletions = OffsetPurgatory()
        """DeleteRecords requests, which wait for the low watermark."""
        self.fetches = FetchPurgatory()
        self.committed_fetches = FetchPurgatory()
        """Fetches with read_committed."""
        self.watches: dict[ReplicaWatch, None] = {}
        """Of followers, in the order in which they came. They stay from fetch to fetch, so that an idle partition costs
        nothing."""
        self._announced_stable_offset = 0
        """The last stable offset that `committed_fetches` have seen; meaningless while there are none."""

    def on_append(self, size: int) -> None:
        for watch in self.watches:
            watch.appended(size)

    def on_high_watermark(self, former: int, end_offset: int, *, visible_bytes: int) -> None:
        """`visible_bytes` are those between the former and the new high watermark, at least."""
        if self.produces:
            self.produces.complete_up_to(end_offset)
        if self.commits:
            self.commits.complete_up_to(end_offset)
        if self.fetches:
            self.fetches.add_bytes(visible_bytes)
        if self.committed_fetches:
            if self._announced_stable_offset == former and self._last_stable_offset() == end_offset:
                self._announced_stable_offset = end_offset
                self.committed_fetches.add_bytes(visible_bytes)
            else:
                self.on_last_stable_offset()
        for watch in self.watches:
            watch.changed()

    def on_start_offset(self) -> None:
        for watch in self.watches:
            watch.changed()

    def on_last_stable_offset(self) -> None:
        """Wake read_committed fetches if the last stable offset moved. The bytes that the end of a transaction makes
        visible are not counted."""
        if self.committed_fetches:
            stable_offset = self._last_stable_offset()
            if stable_offset > self._announced_stable_offset:
                self._announced_stable_offset = stable_offset
                self.committed_fetches.wake_all()

    def add_fetch(self, fetch: DelayedFetch, *, read_committed: bool = False) -> None:
        """Have `fetch` count the bytes that become visible to such a consumer."""
        if read_committed:
            if not self.committed_fetches:
                self._announced_stable_offset = self._last_stable_offset()
            self.committed_fetches.add(fetch)
        else:
            self.fetches.add(fetch)

    def remove_fetch(self, fetch: DelayedFetch) -> None:
        self.fetches.discard(fetch)
        self.committed_fetches.discard(fetch)

    def fail_all(self, error: ErrorCode) -> None:
        """Complete all with `error`; fetches are woken and find out themselves."""
        for operations in (self.produces, self.commits, self.flushes, self.deletions):
            operations.fail_all(error)
        self.wake_fetches()

    def requests_of(self, node_id: int) -> list[int]:
        """The request numbers of the follower's watches, usually of one."""
        return [watch.request_number for watch in self.watches if watch.replica_id == node_id]

    def wake_fetches(self) -> None:
        """The role of the replica changed: every fetch looks again."""
        self.fetches.wake_all()
        self.committed_fetches.wake_all()
        watches, self.watches = self.watches, {}
        for watch in watches:
            watch.interrupted()


class ReplicaWatch(Protocol):
    """A follower's interest in one partition."""

    @property
    def replica_id(self) -> int:
        """The follower's node id."""
        ...

    @property
    def request_number(self) -> int:
        """Changes with every fetch of the follower, whether it names this partition or not."""
        ...

    def appended(self, size: int) -> None:
        """The leader's log has more bytes."""
        ...

    def changed(self) -> None:
        """The high watermark or the log start offset moved. The follower learns it with its next response."""
        ...

    def interrupted(self) -> None:
        """The role of the replica changed; the watch has ended, and the follower must get a response."""
        ...


class DelayedOperation:
    """A request that waits for an offset."""

    __slots__ = ("_on_complete", "_purgatory")

    def __init__(self, purgatory: OffsetPurgatory, on_complete: OnComplete) -> None:
        self._purgatory = purgatory
        self._on_complete: OnComplete | None = on_complete

    @property
    def is_waiting(self) -> bool:
        return self._on_complete is not None

    def cancel(self) -> None:
        """The request timed out, or its connection was closed: `on_complete` is not called any more."""
        if self._on_complete is not None:
            self._on_complete = None
            self._purgatory.cancelled()

    def complete(self, error: ErrorCode) -> None:
        on_complete, self._on_complete = self._on_complete, None
        if on_complete is None:
            return
        try:
            on_complete(error)
        except Exception:
            # One failing request must fail neither the others nor the append that moved the offset.
            logger.exception("completing a delayed request failed")


class OffsetPurgatory(list[tuple[int, int, DelayedOperation]]):
    """Delayed operations by the offset that they wait for: a heap, lowest first, of (offset, order, operation).

    Appends wait for rising offsets, but a duplicate waits for the offset of its original, hence a heap and not a queue.
    Cancelled operations are not searched for: the heap is rebuilt when half of it is cancelled.

    It is a list rather than holding one, because every change of the high watermark tests two of these.
    """

    __slots__ = ("_cancelled_count",)

    def __init__(self) -> None:
        super().__init__()
        self._cancelled_count = 0

    def add(self, end_offset: int, on_complete: OnComplete) -> DelayedOperation:
        operation = DelayedOperation(self, on_complete)
        heapq.heappush(self, (end_offset, next(_order), operation))
        return operation

    def cancelled(self) -> None:
        """For `DelayedOperation.cancel`: one more entry is cancelled."""
        self._cancelled_count += 1
        if self._cancelled_count > len(self) // 2:
            self[:] = [entry for entry in self if entry[2].is_waiting]
            heapq.heapify(self)
            self._cancelled_count = 0

    def complete_up_to(self, end_offset: int) -> None:
        """Complete every operation that waits for `end_offset` or less."""
        # A callback may cancel other operations, which may rebuild the heap.
        while self and self[0][0] <= end_offset:
            operation = heapq.heappop(self)[2]
            if operation.is_waiting:
                operation.complete(ErrorCode.NONE)
            else:
                self._cancelled_count -= 1

    def fail_all(self, error: ErrorCode) -> None:
        entries = sorted(self, key=lambda entry: entry[:2])
        self.clear()
        self._cancelled_count = 0
        for _, _, operation in entries:
            operation.complete(error)


class DelayedFetch:
    """A fetch that waits until enough bytes were appended to its partitions.

    It counts bytes instead of reading the logs again on each append, so that a fetch of a megabyte costs one
    subtraction for every small batch. The count may run ahead of the bytes that can be read (limits per partition), so
    a fetch that is woken reads again and may wait again.
    """

    __slots__ = ("_is_woken", "_wake", "missing_bytes")

    def __init__(self, missing_bytes: int, wake: Callable[[], None]) -> None:
        self.missing_bytes = missing_bytes
        self._wake = wake
        self._is_woken = False

    def add_bytes(self, size: int) -> None:
        self.missing_bytes -= size
        if self.missing_bytes <= 0:
            self.wake()

    def wake(self) -> None:
        """Read again soon, whatever was counted; also called when the partition gets another leader or fails."""
        if not self._is_woken:
            self._is_woken = True
            asyncio.get_running_loop().call_soon(self._wake)


class FetchPurgatory(dict[DelayedFetch, None]):
    """The delayed fetches of one partition, in the order of arrival.

    It is a dict rather than holding one, because every append tests three of these (bench/micro/broker.py).
    """

    __slots__ = ()

    def add(self, fetch: DelayedFetch) -> None:
        self[fetch] = None

    def discard(self, fetch: DelayedFetch) -> None:
        self.pop(fetch, None)

    def add_bytes(self, size: int) -> None:
        for fetch in self:
            fetch.add_bytes(size)

    def wake_all(self) -> None:
        for fetch in self:
            fetch.wake()
