"""Unattached: no leader is known in this epoch, or it is known and cannot be reached.

A voter waits for a leader, or for a candidate that asks for its vote, and starts an election after the election
timeout. An observer only looks for the leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.quorum.in_flight import NEVER_MS
from penstock.quorum.messages import Peer, Response, VoteRequest
from penstock.quorum.roles.discovery import Discovery
from penstock.quorum.roles.role import Role, RoleName, has_voted_for, may_vote

if TYPE_CHECKING:
    from penstock.quorum.core import QuorumCore


class Unattached(Role):
    name = RoleName.UNATTACHED

    def __init__(self, core: QuorumCore, election_deadline_ms: int) -> None:
        super().__init__(core)
        self._election_deadline_ms = election_deadline_ms
        self._discovery = Discovery(core)

    def enter(self, now_ms: int) -> None:
        if self.core.has_leader:  # and cannot be reached: others may not know that yet
            self._discovery.answered(now_ms)

    def tick(self, now_ms: int) -> None:
        core = self.core
        if core.may_campaign and (core.is_only_voter or now_ms >= self._election_deadline_ms):
            core.become_prospective(now_ms)
        else:
            self._discovery.ask(now_ms)

    @property
    def next_tick_ms(self) -> int:
        election_ms = self._election_deadline_ms if self.core.may_campaign else NEVER_MS
        return min(election_ms, self._discovery.next_tick_ms)

    def grants(self, request: VoteRequest, now_ms: int, *, is_up_to_date: bool) -> bool:
        if request.pre_vote:
            return is_up_to_date
        return has_voted_for(request, self.core) or (is_up_to_date and may_vote(self.core))

    def voted(self, now_ms: int) -> None:
        self._election_deadline_ms = now_ms + self.core.random_election_timeout_ms()

    def received(self, sender: Peer, response: Response, now_ms: int) -> None:
        self._discovery.answered(now_ms)
