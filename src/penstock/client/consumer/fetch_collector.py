"""Hands fetched records to the application, by message or by poll.

It runs where the application runs: on the loop for the async consumer, in the caller's thread for the sync one, while
the loop fetches in its own thread. The two share `ready`, to which the loop appends and from which this takes, and
`post`, which reports consumed data to the loop.

Code that pauses, resumes or moves a partition calls `restore` on the loop while the application waits.

Invariant: whenever a partition's `offset` is read, it is right after the last message that was returned:
`update_position` comes first in every call of the application.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection

from penstock.client.cluster import TopicPartition
from penstock.client.consumer.fetch_plan import Fetched
from penstock.client.consumer.positions import PartitionState
from penstock.records.consuming import Message

Post = Callable[[Fetched], None]


class FetchCollector:
    def __init__(self, ready: deque[Fetched], post: Post) -> None:
        self.post = post
        """Reports consumed data to the loop."""
        self._ready = ready
        self._held: list[Fetched] = []
        """Taken out of `ready` because their partitions are paused or parked, so that they are not checked again and
        again."""
        self._current: Fetched | None = None
        self._given_from = -1
        """The position of the current source when the application last asked for more."""
        self._before: list[tuple[Fetched, int, int]] = []
        """The positions before the last returned messages, which the application may not have processed yet."""

    def next_source(self) -> Fetched | None:
        """The next source of messages; None if nothing is buffered. Everything returned before counts as consumed."""
        self.update_position()
        self._before.clear()
        current = self._current
        if current is not None:
            if not current.records.is_exhausted and current.is_current:
                if not current.state.is_held:
                    self._given_from = current.records.next_offset
                    return current
                self._put_aside(current)
                current = None
            self._current = None
        following = self._next_ready()
        if current is not None:
            self.post(current)
        self._current = following
        if following is not None:
            self._given_from = following.records.next_offset
        return following

    def take(self, count_max: int) -> list[Message]:
        """Up to this many messages, from as many partitions as needed; none if nothing is buffered."""
        messages: list[Message] = []
        before: list[tuple[Fetched, int, int]] = []
        while len(messages) < count_max:
            source = self.next_source()
            if source is None:
                break
            state = source.state
            before.append((source, state.offset, state.epoch))
            try:
                messages += source.records.take(count_max - len(messages))
            except Exception:
                if not messages:  # otherwise the next call raises it
                    raise
                break
            finally:
                self.update_position()
        self._before = before
        return messages

    def update_position(self) -> None:
        """Update the position of the partition that is being consumed."""
        current = self._current
        if current is not None and current.is_current:
            records = current.records
            state = current.state
            if records.next_offset != state.offset:
                state.move(records.next_offset, records.leader_epoch)

    def stop(self) -> None:
        """Return nothing more: all returned messages count as consumed."""
        self.update_position()
        if self._current is not None:
            self._current.records.drop()
            self._current = None

    def rewind_unconfirmed(self) -> None:
        """Count only messages that the application has certainly processed: an exception may have interrupted it."""
        current = self._current
        if self._before:
            for fetched, offset, epoch in reversed(self._before):
                if fetched.is_current:
                    fetched.state.move(offset, epoch)
            if current is not None:
                current.records.drop()
        elif current is not None and current.is_current and current.records.next_offset > self._given_from:
            current.state.move(current.records.next_offset - 1, current.records.leader_epoch)
            current.records.drop()
        self._current = None

    def drop(self, partitions: Collection[TopicPartition]) -> PartitionState | None:
        """Return nothing more from these; returns the state of the one that was being consumed."""
        current = self._current
        if current is None or current.state.partition not in partitions:
            return None
        self.update_position()
        current.records.drop()
        self._current = None
        self.post(current)
        return current.state

    def restore(self) -> None:
        """Partitions may have been resumed or moved: check everything again."""
        self._ready.extendleft(reversed(self._held))
        self._held.clear()

    def _next_ready(self) -> Fetched | None:
        while self._ready:
            fetched = self._ready.popleft()
            if not fetched.is_current:
                self.post(fetched)
            elif fetched.state.is_held:
                self._put_aside(fetched)
            else:
                return fetched
        return None

    def _put_aside(self, fetched: Fetched) -> None:
        """Its partition is paused or parked. Data is kept for the end of a pause. Data after the end of a bounded read
        is dropped and fetched again later: kept, it could fill the memory that the read needs for other partitions."""
        if fetched.state.is_parked:
            fetched.is_cut = True
            fetched.records.drop()
            self.post(fetched)
        else:
            self._held.append(fetched)
