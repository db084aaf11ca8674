"""Candidate: has raised the epoch, has voted for itself, and asks for votes.

The own vote counts when it is on disk. After a lost election it waits for a random time, so that two candidates do not
split the votes again and again, and begins anew with a pre-vote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.quorum.messages import Peer, Response, VoteRequest, VoteResponse
from penstock.quorum.roles.election import Election
from penstock.quorum.roles.role import Role, RoleName

if TYPE_CHECKING:
    from penstock.quorum.core import QuorumCore


class Candidate(Role):
    name = RoleName.CANDIDATE

    def __init__(self, core: QuorumCore, election_deadline_ms: int) -> None:
        super().__init__(core)
        self._deadline_ms = election_deadline_ms
        self._election = Election(core, pre_vote=False)
        self._is_backing_off = False

    def saved(self, now_ms: int) -> None:
        self._election.grant(self.core.me.node_id)

    def tick(self, now_ms: int) -> None:
        if self._election.is_won:
            self.core.become_leader(self._election.granting, now_ms)
            return
        if self._election.is_lost and not self._is_backing_off:
            self._is_backing_off = True
            self._deadline_ms = min(self._deadline_ms, now_ms + self.core.election_backoff_ms())
        if now_ms >= self._deadline_ms:
            self.core.become_prospective(now_ms)
        elif not self._is_backing_off:
            self._election.ask(now_ms)

    @property
    def next_tick_ms(self) -> int:
        if self._is_backing_off:
            return self._deadline_ms
        return min(self._deadline_ms, self._election.next_tick_ms)

    def grants(self, request: VoteRequest, now_ms: int, *, is_up_to_date: bool) -> bool:
        return request.pre_vote and is_up_to_date

    def received(self, sender: Peer, response: Response, now_ms: int) -> None:
        if isinstance(response, VoteResponse):
            self._election.count(sender, response)

    def request_failed(self, receiver: Peer, now_ms: int, *, refused: bool) -> None:
        if refused:
            self._election.refused(receiver.node_id)
