"""The timers of one shard, by key: sessions, rebalances, expiration.

Most deadlines are moved again and again, and never expire: every heartbeat moves one. So moving a deadline later only
changes a dict; the heap is updated when the old deadline comes, and cancelled entries are removed when they are more
than half of it. Nothing here waits: the caller provides the clock.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from itertools import count

from penstock.coordinator.result import CoordinatorResult

Action = Callable[[], CoordinatorResult[None]]


class Timers:
    def __init__(self, now_ms: Callable[[], int], on_earlier: Callable[[], None]) -> None:
        """`on_earlier` is called when the next deadline becomes earlier."""
        self._now_ms = now_ms
        self._on_earlier = on_earlier
        self._actions: dict[Hashable, tuple[int, Action]] = {}
        self._queued: dict[Hashable, int] = {}
        """The deadline of a key in the heap; never later than its real one."""
        self._heap: list[tuple[int, int, Hashable]] = []
        self._order = count()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._actions

    def __len__(self) -> int:
        return len(self._actions)

    def set(self, key: Hashable, delay_ms: int, action: Action) -> None:
        """Run `action` in `delay_ms`. It replaces the timer that the key had."""
        deadline_ms = self._now_ms() + delay_ms
        self._actions[key] = (deadline_ms, action)
        queued_ms = self._queued.get(key)
        if queued_ms is None or deadline_ms < queued_ms:
            self._queue(key, deadline_ms)

    def cancel(self, key: Hashable) -> None:
        self._actions.pop(key, None)
        # A key may be large, such as a member with its metadata, and its old deadline far away.
        if len(self._heap) > 2 * len(self._actions):
            self._forget_cancelled()

    @property
    def next_ms(self) -> int | None:
        """When to call `take_due` again; maybe nothing is due then."""
        return self._heap[0][0] if self._heap else None

    def take_due(self) -> tuple[Hashable, Action] | None:
        """One timer that is due; None: no more. One at a time, because each may set and cancel others."""
        heap = self._heap
        now_ms = self._now_ms()
        while heap and heap[0][0] <= now_ms:
            queued_ms, _, key = heapq.heappop(heap)
            if self._queued.get(key) != queued_ms:
                continue  # the key was queued again with an earlier deadline
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
        """Half of the entries are cancelled, so this costs no more than removing them one by one later."""
        self._queued = {key: queued_ms for key, queued_ms in self._queued.items() if key in self._actions}
        self._heap = [entry for entry in self._heap if self._queued.get(entry[2]) == entry[0]]
        heapq.heapify(self._heap)

    def _queue(self, key: Hashable, deadline_ms: int) -> None:
        is_first = not self._heap or deadline_ms < self._heap[0][0]
        self._queued[key] = deadline_ms
        heapq.heappush(self._heap, (deadline_ms, next(self._order), key))
        if is_first:
            self._on_earlier()
