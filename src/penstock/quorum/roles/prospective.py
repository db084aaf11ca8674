"""Prospective: asks for pre-votes (KIP-996). Only with a majority of them it becomes a candidate and raises the epoch.

So a node that was cut off, and has heard of no leader for long, cannot depose a leader that the others still hear.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.quorum.messages import Peer, Response, VoteRequest, VoteResponse
from penstock.quorum.roles.election import Election
from penstock.quorum.roles.role import Role, RoleName, has_voted_for, may_vote

if TYPE_CHECKING:
    from penstock.quorum.core import QuorumCore


class Prospective(Role):
    name = RoleName.PROSPECTIVE

    def __init__(self, core: QuorumCore, election_deadline_ms: int) -> None:
        super().__init__(core)
        self._election_deadline_ms = election_deadline_ms
        self._election = Election(core, pre_vote=True)
        self._election.grant(core.me.node_id)  # a pre-vote needs no state on disk

    def tick(self, now_ms: int) -> None:
        if self._election.is_won:
            self.core.become_candidate(now_ms)
        elif self._election.is_lost or now_ms >= self._election_deadline_ms:
            self.core.give_up_election(now_ms)
        else:
            self._election.ask(now_ms)

    @property
    def next_tick_ms(self) -> int:
        return min(self._election_deadline_ms, self._election.next_tick_ms)

    def grants(self, request: VoteRequest, now_ms: int, *, is_up_to_date: bool) -> bool:
        if request.pre_vote:
            return is_up_to_date
        return has_voted_for(request, self.core) or (is_up_to_date and may_vote(self.core))

    def voted(self, now_ms: int) -> None:
        # The other one is ahead: give it time.
        self.core.become_unattached(self.core.epoch, now_ms, leader_id=self.core.leader_id)

    def received(self, sender: Peer, response: Response, now_ms: int) -> None:
        if isinstance(response, VoteResponse):
            self._election.count(sender, response)

    def request_failed(self, receiver: Peer, now_ms: int, *, refused: bool) -> None:
        if refused:
            self._election.refused(receiver.node_id)
