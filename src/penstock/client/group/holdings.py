"""What the application reads and what the group wants it to read, and the events that lead from one to the other.

Events are taken inside the application's own calls, so a group may want something else by then: an event is made
when it is taken, from what is true at that moment, and stays the same until it is acknowledged. Invariant: a partition
that was told as assigned is held until a `Revoked` or `Lost` with it is acknowledged, whatever happens meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.client.cluster import TopicPartition
from penstock.client.group.nouns import Assigned, Event, Lost, Revoked, in_order

NOTHING: frozenset[TopicPartition] = frozenset()


class Holdings:
    def __init__(self) -> None:
        self.held = NOTHING
        """What the application has."""
        self.target = NOTHING
        """What it shall have."""
        self._has_news = False
        self._lost_because: str | None = None
        self._told: Event | None = None

    @property
    def owes(self) -> bool:
        """There is something that the application has to let go of, or it is about to take something."""
        return self._told is not None or self._lost_because is not None or not self.held <= self.target

    @property
    def has_event(self) -> bool:
        return self.owes or self._has_news or self.held != self.target

    def want(self, target: Iterable[TopicPartition], *, is_news: bool = True) -> None:
        """The group decided; `is_news`: the application is told, even if nothing is added."""
        self.target = frozenset(target)
        self._has_news |= is_news

    def withdraw(self, *, keep: frozenset[TopicPartition] = NOTHING) -> None:
        """Have everything let go of but `keep`."""
        self.target &= keep
        if not keep:
            self._has_news = False

    def lose(self, reason: str) -> None:
        """The group does not count this member any more: whatever it holds may be with others."""
        self.withdraw()
        if self.held or self._told is not None:
            self._lost_because = self._lost_because or reason

    def next_event(self) -> Event | None:
        """The same until it is acknowledged."""
        if self._told is None:
            self._told = self._make_event()
        return self._told

    def _make_event(self) -> Event | None:
        if self._lost_because is not None:
            reason, self._lost_because = self._lost_because, None
            if self.held:
                return Lost(in_order(self.held), reason)
        if not self.held <= self.target:
            return Revoked(in_order(self.held - self.target))
        if self._has_news or self.held != self.target:
            self._has_news = False
            return Assigned(in_order(self.target - self.held))
        return None

    def acknowledge(self, event: Event) -> bool:
        """The application has done what the event asks; False where the event is not the one that was told."""
        if event is not self._told:
            return False
        self._told = None
        if isinstance(event, Assigned):
            self.held |= frozenset(event.partitions)
        else:
            self.held -= frozenset(event.partitions)
        return True
