"""Follower: fetches from the leader, appends, syncs, and fetches on. Voters and observers alike.

A fetch acknowledges everything below its offset. So the next one leaves only when the log is synced, and only when no
other work on the log (a truncation, a snapshot) is pending.

If no fetch succeeds within the fetch timeout, a voter asks for an election, an observer looks for another leader. If
the leader's process is gone, or says that it resigned, that happens at once; voters take turns to avoid split votes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.errors import ErrorCode
from penstock.quorum.divergence import truncation_offset
from penstock.quorum.in_flight import NEVER_MS
from penstock.quorum.membership import voter_request
from penstock.quorum.messages import FetchRequest, FetchResponse, Peer, Response, SnapshotId, VoteRequest
from penstock.quorum.ready import FetchedRecords
from penstock.quorum.roles.role import Role, RoleName, has_voted_for
from penstock.quorum.voters import ReplicaKey

if TYPE_CHECKING:
    from penstock.quorum.core import QuorumCore

TURN_MS = (
    20  # between two voters whose leader is gone; several round trips, so that they do not split the votes
)


class Follower(Role):
    name = RoleName.FOLLOWER

    def __init__(self, core: QuorumCore, leader: Peer, now_ms: int, *, is_retry: bool = False) -> None:
        """`is_retry`: an election failed just now, so the next one waits for the fetch timeout."""
        super().__init__(core)
        self.leader = leader
        self._fetch_deadline_ms = now_ms + core.timeouts.fetch_ms + self._turn_ms
        self._may_hurry = not is_retry
        self._alive_until_ms = 0
        """Until then the leader counts as alive, and pre-votes are not granted."""
        self._leader_high_watermark = 0
        self.snapshot: SnapshotId | None = None
        """The snapshot that the driver fetches."""
        self._next_membership_ms = now_ms + core.timeouts.fetch_ms

    def tick(self, now_ms: int) -> None:
        core = self.core
        if now_ms >= self._fetch_deadline_ms and core.may_leave_leader:
            core.leave_leader(now_ms)
            return
        if now_ms >= self._next_membership_ms:
            self._next_membership_ms = now_ms + core.timeouts.fetch_ms
            self._ask_for_membership(now_ms)
        leader_id = self.leader.node_id
        if self._can_fetch and core.in_flight.is_free(leader_id, now_ms):
            request = FetchRequest(
                request_id=core.in_flight.start(leader_id, self.leader, now_ms),
                epoch=core.epoch,
                replica=core.me,
                fetch_offset=core.log.end_offset,
                last_fetched_epoch=core.log.last_epoch,
                high_watermark=core.high_watermark,
                max_wait_ms=core.timeouts.fetch_max_wait_ms,
            )
            core.outbox.send(self.leader, request)

    @property
    def next_tick_ms(self) -> int:
        core = self.core
        deadline_ms = self._fetch_deadline_ms if core.may_leave_leader else NEVER_MS
        fetch_ms = core.in_flight.free_at_ms(self.leader.node_id) if self._can_fetch else NEVER_MS
        return min(deadline_ms, fetch_ms, self._next_membership_ms)

    @property
    def _can_fetch(self) -> bool:
        return self.core.is_log_synced and self.snapshot is None

    def grants(self, request: VoteRequest, now_ms: int, *, is_up_to_date: bool) -> bool:
        if request.pre_vote:
            return is_up_to_date and now_ms >= self._alive_until_ms
        return has_voted_for(request, self.core)

    def heard_of_leader(self, now_ms: int) -> None:
        """The leader answered: a fetch, or a piece of a snapshot."""
        self._alive_until_ms = now_ms + self.core.timeouts.fetch_ms
        self._fetch_deadline_ms = self._alive_until_ms + self._turn_ms

    def leader_resigned(self, preferred_candidates: tuple[ReplicaKey, ...], now_ms: int) -> None:
        """The leader said so. The best of its successors starts an election at once, the others later."""
        self._alive_until_ms = 0
        me = self.core.me.node_id
        names = [candidate.node_id for candidate in preferred_candidates]
        if not names:  # it has restarted, and does not know who is best
            wait_ms = self._turn_ms
        elif me in names:
            wait_ms = self.core.successor_backoff_ms(names.index(me), len(names))
        else:
            wait_ms = self.core.random_election_timeout_ms()
        self._fetch_deadline_ms = min(self._fetch_deadline_ms, now_ms + wait_ms)

    def received(self, sender: Peer, response: Response, now_ms: int) -> None:
        if isinstance(response, FetchResponse):
            if response.error is ErrorCode.NONE:
                self._fetched(response, now_ms)
            elif response.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                self._leader_is_gone(now_ms)  # of this epoch, so it cannot lead again in it

    def request_failed(self, receiver: Peer, now_ms: int, *, refused: bool) -> None:
        if refused and receiver == self.leader:
            self._leader_is_gone(now_ms)

    def synced(self, now_ms: int) -> None:
        self.core.advance_high_watermark(min(self._leader_high_watermark, self.core.synced_end_offset))

    def _fetched(self, response: FetchResponse, now_ms: int) -> None:
        core = self.core
        self._may_hurry = True
        core.election_retries = 0
        self.heard_of_leader(now_ms)
        if response.diverging_epoch is not None:
            core.truncate(truncation_offset(core.log, response.diverging_epoch))
        elif response.snapshot_id is not None:
            core.fetch_snapshot(response.snapshot_id)
            self.snapshot = response.snapshot_id
        else:
            self._leader_high_watermark = max(self._leader_high_watermark, response.high_watermark)
            if len(response.records) > 0:
                core.outbox.append = FetchedRecords(core.log.end_offset, response.records)
            self.synced(now_ms)

    def _leader_is_gone(self, now_ms: int) -> None:
        if not self._may_hurry:
            return
        self._may_hurry = False
        self._alive_until_ms = 0
        self._fetch_deadline_ms = min(self._fetch_deadline_ms, now_ms + self._turn_ms)

    @property
    def _turn_ms(self) -> int:
        """How much later than the first voter this one starts an election."""
        others = [node_id for node_id in self.core.voters.node_ids if node_id != self.leader.node_id]
        me = self.core.me.node_id
        return others.index(me) * TURN_MS if me in others else 0

    def _ask_for_membership(self, now_ms: int) -> None:
        """Tell the leader if this voter has new endpoints, or wants to join."""
        core = self.core
        key = ("membership", self.leader.node_id)
        if core.in_flight.is_free(key, now_ms):
            request = voter_request(core)
            if request is not None:
                core.outbox.send(self.leader, request(core.in_flight.start(key, self.leader, now_ms)))
