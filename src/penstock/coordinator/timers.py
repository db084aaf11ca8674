"""Deadlines of one shard, by key: sessions, rebalances, expiry.

Most deadlines are moved, again and again, and never come: a heartbeat moves one. So moving a deadline later
costs one entry in a dict; the heap learns of it when the old deadline comes, and of what was cancelled when
that is the better half of it. Nothing here reads a clock or waits: whoever drives it says what time it is.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from itertools import count

from penstock.coordinator.outcome import Outcome

Action = Callable[[], Outcome[None]]


class Timers:
    def __init__(self, now_ms: Callable[[], int], on_earlier: Callable[[], None]) -> None:
        """`on_earlier` is told when the next deadline has become earlier than it was."""
        self._now_ms = now_ms
        self._on_earlier = on_earlier
        self._actions: dict[Hashable, tuple[int, Action]] = {}
        self._queued: dict[Hashable, int] = {}
        """The deadline under which a key stands in the heap; never later than its real one."""
        self._heap: list[tuple[int, int, Hashable]] = []
        self._order = count()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._actions

    def __len__(self) -> int:
        return len(self._actions)

    def set(self, key: Hashable, delay_ms: int, action: Action) -> None:
        """Do `action` in `delay_ms`, instead of whatever this key stood for."""
        deadline_ms = self._now_ms() + delay_ms
        self._actions[key] = (deadline_ms, action)
        queued_ms = self._queued.get(key)
        if queued_ms is None or deadline_ms < queued_ms:
            self._queue(key, deadline_ms)

    def cancel(self, key: Hashable) -> None:
        self._actions.pop(key, None)
        # A key may be large, a member with its metadata, and its old deadline far away.
        if len(self._heap) > 2 * len(self._actions):
            self._forget_cancelled()

    @property
    def next_ms(self) -> int | None:
        """When to look again; there may be nothing to do then."""
        return self._heap[0][0] if self._heap else None

    def take_due(self) -> tuple[Hashable, Action] | None:
        """What has come due, one at a time, because each may set and cancel others."""
        heap = self._heap
        now_ms = self._now_ms()
        while heap and heap[0][0] <= now_ms:
            queued_ms, _, key = heapq.heappop(heap)
            if self._queued.get(key) != queued_ms:
                continue  # it was queued again, earlier than this
            del self._queued[key]
            found = self._actions.get(key)
            if found is None:
                continue
            deadline_ms, action = found
            if deadline_ms > now_ms:
                self._queue(key, deadline_ms)
                continue
            del self._actions[key]
            return key, action
        return None

    def clear(self) -> None:
        self._actions.clear()
        self._queued.clear()
        self._heap.clear()

    def _forget_cancelled(self) -> None:
        """Every second entry is old, so this costs no more than taking them out one by one when they come."""
        self._queued = {key: queued_ms for key, queued_ms in self._queued.items() if key in self._actions}
        self._heap = [entry for entry in self._heap if self._queued.get(entry[2]) == entry[0]]
        heapq.heapify(self._heap)

    def _queue(self, key: Hashable, deadline_ms: int) -> None:
        is_first = not self._heap or deadline_ms < self._heap[0][0]
        self._queued[key] = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, next(self._order), key))
        if is_first:
            self._on_earlier()
