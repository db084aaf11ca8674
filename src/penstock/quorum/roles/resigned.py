"""Resigned: was the leader of this epoch and leads no more in it; after a restart, too.

It cannot continue: records that it appended last may be lost on its own disk, and others may have them. It tells the
voters, the best successor first, so that they elect a leader at once. It votes again in the next epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.quorum.in_flight import NEVER_MS
from penstock.quorum.messages import (
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Peer,
    Response,
    VoteRequest,
)
from penstock.quorum.roles.role import Role, RoleName
from penstock.quorum.voters import ReplicaKey

if TYPE_CHECKING:
    from penstock.quorum.core import QuorumCore


class Resigned(Role):
    name = RoleName.RESIGNED

    def __init__(
        self, core: QuorumCore, election_deadline_ms: int, preferred_candidates: tuple[ReplicaKey, ...]
    ) -> None:
        super().__init__(core)
        self._election_deadline_ms = election_deadline_ms
        self._preferred_candidates = preferred_candidates
        self._waiting_for = [node_id for node_id in core.voters.node_ids if node_id != core.me.node_id]

    def tick(self, now_ms: int) -> None:
        core = self.core
        if core.is_only_voter and core.may_campaign:
            core.become_candidate(now_ms)  # no other node can win
            return
        if now_ms >= self._election_deadline_ms:
            core.become_unattached(core.epoch + 1, now_ms)
            return
        for voter in self._waiting_for:
            peer = core.peer_of(voter)
            if peer is None or not core.in_flight.is_free(voter, now_ms):
                continue
            request = EndQuorumEpochRequest(
                request_id=core.in_flight.start(voter, peer, now_ms),
                epoch=core.epoch,
                leader_id=core.me.node_id,
                preferred_candidates=self._preferred_candidates,
                leader_endpoints=core.endpoints,
            )
            core.outbox.send(peer, request)

    @property
    def next_tick_ms(self) -> int:
        sends = (
            self.core.in_flight.free_at_ms(voter)
            for voter in self._waiting_for
            if self.core.peer_of(voter) is not None
        )
        return min(self._election_deadline_ms, min(sends, default=NEVER_MS))

    @property
    def is_done(self) -> bool:
        """All voters know. A node that shuts down need not wait longer."""
        return not self._waiting_for

    def grants(self, request: VoteRequest, now_ms: int, *, is_up_to_date: bool) -> bool:
        return request.pre_vote and is_up_to_date

    def received(self, sender: Peer, response: Response, now_ms: int) -> None:
        if isinstance(response, EndQuorumEpochResponse):
            self._waiting_for = [node_id for node_id in self._waiting_for if node_id != sender.node_id]
