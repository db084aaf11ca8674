"""Owned and target partitions of a member, and the events that reconcile them.

Events are taken inside the application's own calls, when the target may have changed: an event is made when it is
taken, from the state at that moment, and stays the same until it is acknowledged. Invariant: a partition that was
assigned by an event stays owned until a `Revoked` or `Lost` event with it is acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.client.cluster import TopicPartition
from penstock.client.group.types import Assigned, Event, Lost, Revoked, in_order

NOTHING: frozenset[TopicPartition] = frozenset()


class Reconciliation:
    def __init__(self) -> None:
        self.owned = NOTHING
        """The partitions that the application has."""
        self.target = NOTHING
        """The partitions that the group wants it to have."""
        self._has_news = False
        self._lost_because: str | None = None
        self._pending_event: Event | None = None

    @property
    def is_reconciling(self) -> bool:
        """Whether partitions must be revoked, or an event is not acknowledged yet."""
        return (
            self._pending_event is not None or self._lost_because is not None or not self.owned <= self.target
        )

    @property
    def has_event(self) -> bool:
        return self.is_reconciling or self._has_news or self.owned != self.target

    def set_target(self, target: Iterable[TopicPartition], *, is_news: bool = True) -> None:
        """The group has assigned; `is_news`: there is an event even if nothing changes."""
        self.target = frozenset(target)
        self._has_news |= is_news

    def revoke(self, *, keep: frozenset[TopicPartition] = NOTHING) -> None:
        """Revoke everything except `keep`."""
        self.target &= keep
        if not keep:
            self._has_news = False

    def lose(self, reason: str) -> None:
        """The group has removed this member: other members may own its partitions."""
        self.revoke()
        if self.owned or self._pending_event is not None:
            self._lost_because = self._lost_because or reason

    def next_event(self) -> Event | None:
        """The same until it is acknowledged."""
        if self._pending_event is None:
            self._pending_event = self._make_event()
        return self._pending_event

    def _make_event(self) -> Event | None:
        if self._lost_because is not None:
            reason, self._lost_because = self._lost_because, None
            if self.owned:
                return Lost(in_order(self.owned), reason)
        if not self.owned <= self.target:
            return Revoked(in_order(self.owned - self.target))
        if self._has_news or self.owned != self.target:
            self._has_news = False
            return Assigned(in_order(self.target - self.owned))
        return None

    def acknowledge(self, event: Event) -> bool:
        """The application has handled the event; False if it is not the pending one."""
        if event is not self._pending_event:
            return False
        self._pending_event = None
        if isinstance(event, Assigned):
            self.owned |= frozenset(event.partitions)
        else:
            self.owned -= frozenset(event.partitions)
        return True
