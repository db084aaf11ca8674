"""KRaft without I/O: what happened goes in, `Ready` comes out.

    UNATTACHED --campaign--> CANDIDATE --a majority of votes--> LEADER --resign--> RESIGNED

The driver must treat every `Ready` in this order: save `hard_state`, then append `leader_change`, then tell
`high_watermark`. Saving first is what makes an election safe: a vote that a crash makes us forget could be
given twice in one epoch. A campaign therefore counts our own vote only when `state_saved` says that it can
not be forgotten.

A record is committed when a majority of the voters has it on disk and it was written in the leader's own
epoch; records of older epochs are committed together with the first of this one (Raft, figure 8). With one
voter the majority is its own disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from penstock.quorum.voters import ReplicaKey, Voters

NO_NODE = -1


class Role(Enum):
    UNATTACHED = auto()
    """Knows of no leader in its epoch."""
    CANDIDATE = auto()
    LEADER = auto()
    RESIGNED = auto()
    """Led its epoch and will append no more in it."""


@dataclass(frozen=True, slots=True)
class HardState:
    """What must survive a crash before anyone hears of it."""

    epoch: int = 0
    leader_id: int = NO_NODE
    voted: ReplicaKey | None = None
    """Whom this replica voted for in `epoch`."""


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """The first record of an epoch: who leads, and by whose votes."""

    epoch: int
    leader_id: int
    voters: Voters
    granting: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """What the driver does next; None means that there is nothing to do of that kind."""

    hard_state: HardState | None = None
    leader_change: LeaderChange | None = None
    high_watermark: int | None = None


NOTHING = Ready()


@dataclass(slots=True)
class QuorumCore:
    me: ReplicaKey
    voters: Voters
    hard_state: HardState
    end_offset: int
    """End of our own log."""
    role: Role = Role.UNATTACHED
    high_watermark: int = 0
    """End of what is committed; never goes back."""
    epoch_start_offset: int = -1
    """As leader: where our epoch begins. The high watermark must pass it before it may be trusted."""
    votes: set[int] = field(default_factory=set)
    """As candidate: who granted us this epoch."""
    synced_end_offsets: dict[int, int] = field(default_factory=dict)
    """As leader: how far each voter's log is known to be on its disk."""

    @property
    def epoch(self) -> int:
        return self.hard_state.epoch

    @property
    def is_leader(self) -> bool:
        return self.role is Role.LEADER

    def campaign(self) -> Ready:
        """Stand for election in the next epoch."""
        assert self.me in self.voters, "only a voter can stand for election"
        assert self.role is not Role.LEADER
        self.role = Role.CANDIDATE
        self.votes = set()
        self.hard_state = HardState(self.epoch + 1, voted=self.me)
        return Ready(hard_state=self.hard_state)

    def state_saved(self, saved: HardState) -> Ready:
        """`saved` is on disk. If it holds our vote for ourselves, the vote counts from now on."""
        if self.role is Role.CANDIDATE and saved == self.hard_state:
            return self._vote_granted(self.me.node_id)
        return NOTHING

    def appended(self, end_offset: int) -> None:
        """Our own log grew; nothing is promised until it is synced."""
        assert self.role is Role.LEADER
        assert end_offset > self.end_offset
        self.end_offset = end_offset

    def synced(self, node_id: int, end_offset: int) -> Ready:
        """A voter, perhaps ourselves, has everything below `end_offset` on its disk."""
        if self.role is not Role.LEADER:
            return NOTHING
        known = self.synced_end_offsets.get(node_id, 0)
        self.synced_end_offsets[node_id] = max(known, end_offset)
        committed = self.voters.majority_offset(self.synced_end_offsets)
        if committed <= max(self.epoch_start_offset, self.high_watermark):
            return NOTHING
        self.high_watermark = committed
        return Ready(high_watermark=committed)

    def resign(self) -> None:
        """Lead no more: what was appended and not committed may still be committed, but not by us."""
        self.role = Role.RESIGNED

    def _vote_granted(self, node_id: int) -> Ready:
        self.votes.add(node_id)
        if not self.voters.is_majority(self.votes):
            return NOTHING
        self.role = Role.LEADER
        self.epoch_start_offset = self.end_offset
        self.synced_end_offsets = {}
        self.hard_state = HardState(self.epoch, leader_id=self.me.node_id)
        change = LeaderChange(self.epoch, self.me.node_id, self.voters, tuple(sorted(self.votes)))
        return Ready(hard_state=self.hard_state, leader_change=change)
