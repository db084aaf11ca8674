"""As leader: how far each replica is, and when it fetched last.

Voters count for commits and for the check of the quorum. Observers are only reported (DescribeQuorum); one that has not
fetched for five minutes is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.quorum.in_flight import NEVER_MS
from penstock.quorum.voters import ReplicaKey, Voters

OBSERVER_EXPIRY_MS = 300_000  # as Kafka
NEVER_FETCHED_MS = -1


@dataclass(slots=True)
class ReplicaProgress:
    """How far a replica has fetched, as the leader knows it."""

    key: ReplicaKey
    end_offset: int = -1
    """The replica's log is equal to the leader's up to here, and synced. -1: not known."""
    last_fetch_ms: int = NEVER_FETCHED_MS
    last_caught_up_ms: int = NEVER_FETCHED_MS
    """When its log was as long as the leader's; -1: never in this epoch."""
    leader_end_offset: int = 0
    """The leader's end offset at the time of the last fetch."""
    alive_ms: int = 0
    """As `last_fetch_ms`, or the time at which it became a voter."""

    def fetched(self, fetch_offset: int, leader_end_offset: int, now_ms: int) -> None:
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif fetch_offset >= self.leader_end_offset and self.last_fetch_ms != NEVER_FETCHED_MS:
            # It has everything that the leader had at the last fetch.
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset = fetch_offset
        self.leader_end_offset = leader_end_offset
        self.last_fetch_ms = self.alive_ms = now_ms


class Progress:
    def __init__(self, me: ReplicaKey, voters: Voters, now_ms: int) -> None:
        self._me = me
        self._voters = voters
        self._by_id = {voter.key.node_id: ReplicaProgress(voter.key, alive_ms=now_ms) for voter in voters}
        self._observers: dict[ReplicaKey, ReplicaProgress] = {}
        self._own_end_offset = 0

    @property
    def voters(self) -> list[ReplicaProgress]:
        return list(self._by_id.values())

    @property
    def observers(self) -> list[ReplicaProgress]:
        return list(self._observers.values())

    def voter(self, key: ReplicaKey) -> ReplicaProgress | None:
        """None if the replica is not a voter."""
        return self._by_id[key.node_id] if key in self._voters else None

    def replica(self, key: ReplicaKey, now_ms: int) -> ReplicaProgress:
        """A voter or an observer, which is added if it is new."""
        if key in self._voters:
            return self._by_id[key.node_id]
        if key not in self._observers:
            self._expire_observers(now_ms)
            self._observers[key] = ReplicaProgress(key)
        return self._observers[key]

    def observer(self, key: ReplicaKey) -> ReplicaProgress | None:
        return self._observers.get(key)

    def set_voters(self, voters: Voters, now_ms: int) -> None:
        """The voters changed. A new voter was an observer; a removed one becomes one."""
        known = {replica.key: replica for replica in (*self._observers.values(), *self._by_id.values())}
        self._by_id = {}
        for voter in voters:
            replica = known.pop(voter.key, None) or ReplicaProgress(voter.key)
            replica.alive_ms = max(replica.alive_ms, now_ms)
            self._by_id[voter.key.node_id] = replica
        self._voters = voters
        known.pop(self._me, None)
        self._observers = {key: replica for key, replica in known.items() if replica.last_fetch_ms >= 0}

    def own(self, synced_end_offset: int) -> None:
        self._own_end_offset = synced_end_offset

    def majority_offset(self) -> int:
        """The highest offset that a majority of the voters has synced."""
        me = self._me.node_id
        held = sorted(
            self._own_end_offset if node_id == me else replica.end_offset
            for node_id, replica in self._by_id.items()
        )
        return held[len(held) - self._voters.majority]

    def quorum_seen_ms(self) -> int:
        """Since when less than a majority has fetched. This replica counts, if it is a voter."""
        me = self._me.node_id
        times = sorted(
            NEVER_MS if node_id == me else replica.alive_ms for node_id, replica in self._by_id.items()
        )
        return times[len(times) - self._voters.majority]

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters; those with the longest log first."""
        others = [replica for node_id, replica in self._by_id.items() if node_id != self._me.node_id]
        others.sort(key=lambda replica: (-replica.end_offset, replica.key.node_id))
        return tuple(replica.key for replica in others)

    def _expire_observers(self, now_ms: int) -> None:
        oldest_ms = now_ms - OBSERVER_EXPIRY_MS
        self._observers = {
            key: replica for key, replica in self._observers.items() if replica.last_fetch_ms >= oldest_ms
        }
