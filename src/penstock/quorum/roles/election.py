"""An election: ask every voter for its vote and count. Pre-vote (prospective) and vote (candidate) differ in what
follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.errors import ErrorCode
from penstock.quorum.in_flight import NEVER_MS
from penstock.quorum.messages import Peer, VoteRequest, VoteResponse

if TYPE_CHECKING:
    from penstock.quorum.core import QuorumCore


class Election:
    def __init__(self, core: QuorumCore, *, pre_vote: bool) -> None:
        self._core = core
        self._pre_vote = pre_vote
        self._voters = core.voters
        """The voters do not change during an election: only a follower and a leader append."""
        self._granted: set[int] = set()
        self._rejected: set[int] = set()
        self._gone: set[int] = set()
        """Voters whose process is not there. They are asked again, but not waited for."""

    @property
    def is_won(self) -> bool:
        return len(self._granted) >= self._voters.majority

    @property
    def is_lost(self) -> bool:
        return len(self._rejected | self._gone) > len(self._voters) - self._voters.majority

    @property
    def granting(self) -> tuple[int, ...]:
        return tuple(sorted(self._granted))

    def grant(self, node_id: int) -> None:
        if self._voters.get(node_id) is not None:
            self._rejected.discard(node_id)
            self._gone.discard(node_id)
            self._granted.add(node_id)

    def refused(self, node_id: int) -> None:
        """The voter's process refused the connection."""
        if self._voters.get(node_id) is not None and node_id not in self._granted:
            self._gone.add(node_id)

    def count(self, sender: Peer, response: VoteResponse) -> None:
        self._gone.discard(sender.node_id)
        if response.error is ErrorCode.NONE:
            if response.granted:
                self.grant(sender.node_id)
            else:
                self._rejected.add(sender.node_id)
        elif response.error is ErrorCode.UNSUPPORTED_VERSION and self._pre_vote:
            self.grant(sender.node_id)  # it does not know pre-votes (KIP-996): it will decide on the vote
        elif not response.error.is_retriable and response.error is not ErrorCode.BROKER_NOT_AVAILABLE:
            self._rejected.add(sender.node_id)  # as INVALID_VOTER_KEY: the node has another disk now

    def ask(self, now_ms: int) -> None:
        """Ask the voters that have not answered yet."""
        core = self._core
        for voter in self._missing():
            peer = core.peer_of(voter)
            if peer is None or not core.in_flight.is_free(voter, now_ms):
                continue
            request = VoteRequest(
                request_id=core.in_flight.start(voter, peer, now_ms),
                epoch=core.epoch,
                candidate=core.me,
                voter=core.key_of(voter),
                last_epoch=core.log.last_epoch,
                last_offset=core.log.end_offset,
                pre_vote=self._pre_vote,
            )
            core.outbox.send(peer, request)

    @property
    def next_tick_ms(self) -> int:
        return min((self._core.in_flight.free_at_ms(voter) for voter in self._missing()), default=NEVER_MS)

    def _missing(self) -> list[int]:
        answered = self._granted | self._rejected
        me = self._core.me.node_id
        return [
            node_id
            for node_id in self._voters.node_ids
            if node_id != me and node_id not in answered and self._core.peer_of(node_id) is not None
        ]
