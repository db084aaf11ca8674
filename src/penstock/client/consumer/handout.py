"""What the application is given, one message or one poll at a time.

Everything here runs where the application runs: in the loop for the async consumer, in the caller's own thread for
the sync one, while the loop goes on fetching in its thread. The two meet in `ready`, to which the loop appends and from
which this takes, and in `post`, by which the loop hears what is done with.

Code that pauses, resumes or moves a partition calls `restore` on the loop while the application waits.

Invariant: a partition's `offset` is behind the last message that was given, at every moment when somebody asks: it is
brought up to date by `note_place`, which comes first in every call of the application.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection

from penstock.client.cluster import TopicPartition
from penstock.client.consumer.fetch_plan import Fetched
from penstock.client.consumer.positions import PartitionState
from penstock.records.kernel import Message

Post = Callable[[Fetched], None]


class Handout:
    def __init__(self, ready: deque[Fetched], post: Post) -> None:
        self.post = post
        """Tell the loop what is done with."""
        self._ready = ready
        self._held: list[Fetched] = []
        """Taken out of `ready`, because their partitions are held, so that they are not looked at again and again."""
        self._current: Fetched | None = None
        self._given_from = -1
        """The place of the current source when the application last asked for more."""
        self._before: list[tuple[Fetched, int, int]] = []
        """Where partitions stood before what was given last: it is not certain that the application is done with it."""

    def next_source(self) -> Fetched | None:
        """Where the next messages come from; None while nothing is here. All that was given before counts as taken."""
        self.note_place()
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
        """Up to so many messages, of as many partitions as it takes; none where nothing is here."""
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
                if not messages:  # otherwise it is raised by the next call
                    raise
                break
            finally:
                self.note_place()
        self._before = before
        return messages

    def note_place(self) -> None:
        """Bring the position of the partition that is being consumed up to date."""
        current = self._current
        if current is not None and current.is_current:
            records = current.records
            state = current.state
            if records.next_offset != state.offset:
                state.move(records.next_offset, records.leader_epoch)

    def stop(self) -> None:
        """Give nothing more: what was given so far is all."""
        self.note_place()
        if self._current is not None:
            self._current.records.drop()
            self._current = None

    def unsettle(self) -> None:
        """Count only what the application has certainly gone beyond: an exception may have ended it in the midst."""
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
        """Give no more of these, whoever is in the midst of them; returns the one where somebody was."""
        current = self._current
        if current is None or current.state.partition not in partitions:
            return None
        self.note_place()
        current.records.drop()
        self._current = None
        self.post(current)
        return current.state

    def restore(self) -> None:
        """Partitions may be held no longer, or the reader may have moved: have everything looked at again."""
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
        """Its partition is held. Keep it for when a pause ends. What lies behind the end of a bounded read is dropped
        and fetched again later: kept, it could fill the memory that the read needs for other partitions."""
        if fetched.state.is_parked:
            fetched.is_cut = True
            fetched.records.drop()
            self.post(fetched)
        else:
            self._held.append(fetched)
