"""Leader: appends records, answers fetches, and commits what a majority of the voters has synced.

- It tells every voter of its election (BeginQuorumEpoch) until that voter fetches, and again if it stops fetching.
- Nothing is committed before a record of its own epoch: a record of an older epoch that a majority has can still be
  lost (Raft, figure 8). So an epoch begins with a leader change record.
- It resigns if a majority has not fetched for 1.5 times the fetch timeout: they may have another leader already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.protocol.errors import ErrorCode
from penstock.quorum.divergence import compare
from penstock.quorum.fetch_response import answer_fetch
from penstock.quorum.in_flight import NEVER_MS
from penstock.quorum.membership import VoterChanges
from penstock.quorum.messages import (
    ApiVersionsResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    FetchRequest,
    OffsetAndEpoch,
    Peer,
    Response,
    VoteRequest,
)
from penstock.quorum.progress import Progress, ReplicaProgress
from penstock.quorum.ready import LeaderChange
from penstock.quorum.roles.role import Role, RoleName
from penstock.quorum.voters import ReplicaKey, Voter, Voters

if TYPE_CHECKING:
    from penstock.quorum.core import QuorumCore


@dataclass(slots=True)
class _Waiting:
    """A fetch that waits for new records or a new high watermark."""

    request: FetchRequest
    deadline_ms: int


class Leader(Role):
    name = RoleName.LEADER

    def __init__(self, core: QuorumCore, granting: tuple[int, ...], now_ms: int) -> None:
        super().__init__(core)
        self.epoch_start_offset = core.log.end_offset
        """The offset of the leader change record. The high watermark is valid only above it."""
        self._granting = granting
        self.progress = Progress(core.me, core.voters, now_ms)
        self.changes = VoterChanges(core, self.progress, self.epoch_start_offset)
        self._known_voters = core.voters
        self._waiting: dict[ReplicaKey, _Waiting] = {}
        self._is_removed = False
        self._announce_ms = 0

    def enter(self, now_ms: int) -> None:
        core = self.core
        core.outbox.append = LeaderChange(
            core.epoch, core.me.node_id, core.voters, self._granting, self._voters_to_write()
        )
        self.progress.own(core.synced_end_offset)

    def leave(self, now_ms: int) -> None:
        for waiting in self._waiting.values():
            answer_fetch(self.core, waiting.request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.changes.abort()

    def tick(self, now_ms: int) -> None:
        core = self.core
        if now_ms >= self._check_quorum_ms or self._is_removed:
            core.become_resigned(self.progress.successors(), now_ms)
            return
        if now_ms >= self._announce_ms:
            self._announce(now_ms)
        for key in [key for key, waiting in self._waiting.items() if now_ms >= waiting.deadline_ms]:
            self._answer(self._waiting.pop(key).request)
        self.changes.tick(now_ms)

    @property
    def next_tick_ms(self) -> int:
        fetches_ms = min((waiting.deadline_ms for waiting in self._waiting.values()), default=NEVER_MS)
        return min(self._check_quorum_ms, self._announce_ms, fetches_ms, self.changes.next_tick_ms)

    @property
    def _check_quorum_ms(self) -> int:
        return self.progress.quorum_seen_ms() + self.core.timeouts.fetch_ms * 3 // 2

    def grants(self, request: VoteRequest, now_ms: int, *, is_up_to_date: bool) -> bool:
        return False

    def fetch(self, request: FetchRequest, now_ms: int) -> None:
        """A fetch of this epoch."""
        core = self.core
        key = request.replica
        superseded = self._waiting.pop(key, None)
        if superseded is not None:
            self._answer(superseded.request)  # its connection was lost
        if request.fetch_offset < 0 or request.last_fetched_epoch < 0:
            answer_fetch(core, request, ErrorCode.INVALID_REQUEST)
            return
        difference = compare(core.log, request.fetch_offset, request.last_fetched_epoch)
        if difference is not None:
            self.seen(key, now_ms)
            if isinstance(difference, OffsetAndEpoch):
                answer_fetch(core, request, ErrorCode.NONE, diverging_epoch=difference)
            else:
                answer_fetch(core, request, ErrorCode.NONE, snapshot_id=difference)
            return
        if key.node_id >= 0:
            replica = self.progress.replica(key, now_ms)
            replica.fetched(request.fetch_offset, core.log.end_offset, now_ms)
            self._commit(now_ms)
        if request.max_wait_ms <= 0 or self._has_news(request):
            self._answer(request)
        else:
            self._waiting[key] = _Waiting(request, now_ms + request.max_wait_ms)

    def seen(self, key: ReplicaKey, now_ms: int) -> None:
        """A voter is alive, although its log is not equal to this one: it truncates, or fetches a snapshot."""
        voter = self.progress.voter(key)
        if voter is not None:
            voter.alive_ms = now_ms

    def appended(self, now_ms: int) -> None:
        core = self.core
        if core.voters is not self._known_voters:
            self._known_voters = core.voters
            self.progress.set_voters(core.voters, now_ms)
            self._announce_ms = 0
            self.changes.appended()
        self._answer_news()

    def synced(self, now_ms: int) -> None:
        self.progress.own(self.core.synced_end_offset)
        self._commit(now_ms)

    def received(self, sender: Peer, response: Response, now_ms: int) -> None:
        if isinstance(response, ApiVersionsResponse):
            self.changes.versions(response)
        elif isinstance(response, BeginQuorumEpochResponse):
            # It should fetch now; remind it if it does not. After an error (a voter with a new disk), do not insist.
            self.core.in_flight.hold(sender.node_id, now_ms + self._announce_interval_ms)
            self._announce_ms = now_ms

    def request_failed(self, receiver: Peer, now_ms: int, *, refused: bool) -> None:
        self._announce_ms = now_ms

    def _commit(self, now_ms: int) -> None:
        core = self.core
        offset = self.progress.majority_offset()
        if offset <= self.epoch_start_offset or offset <= core.high_watermark:
            return
        core.advance_high_watermark(offset)
        self.changes.committed(offset)
        if core.me not in core.voters and core.are_voters_committed:
            self._is_removed = True
        self._answer_news()

    def _has_news(self, request: FetchRequest) -> bool:
        return self.core.log.end_offset > request.fetch_offset or self._has_committed(request)

    def _has_committed(self, request: FetchRequest) -> bool:
        return min(self.core.high_watermark, request.fetch_offset) > request.high_watermark

    def _answer_news(self) -> None:
        if self._waiting:
            for key in [key for key, waiting in self._waiting.items() if self._has_news(waiting.request)]:
                self._answer(self._waiting.pop(key).request)

    def _answer(self, request: FetchRequest) -> None:
        answer_fetch(self.core, request, ErrorCode.NONE, read_from=request.fetch_offset)

    def _announce(self, now_ms: int) -> None:
        """Send BeginQuorumEpoch to the voters that do not fetch."""
        core = self.core
        interval_ms = self._announce_interval_ms
        next_ms = NEVER_MS
        for replica in self.progress.voters:
            node_id = replica.key.node_id
            peer = core.peer_of(node_id)
            if node_id == core.me.node_id or peer is None:
                continue
            if replica.last_fetch_ms >= 0 and replica.last_fetch_ms + interval_ms > now_ms:
                next_ms = min(next_ms, replica.last_fetch_ms + interval_ms)
                continue
            if core.in_flight.is_free(node_id, now_ms):
                request = BeginQuorumEpochRequest(
                    request_id=core.in_flight.start(node_id, peer, now_ms),
                    epoch=core.epoch,
                    leader_id=core.me.node_id,
                    voter=core.key_of(node_id),
                    leader_endpoints=core.endpoints,
                )
                core.outbox.send(peer, request)
            next_ms = min(next_ms, core.in_flight.free_at_ms(node_id))
        self._announce_ms = next_ms

    @property
    def _announce_interval_ms(self) -> int:
        return self.core.timeouts.fetch_ms // 2

    def _voters_to_write(self) -> Voters | None:
        core = self.core
        if core.history.kraft_version == 0:
            return None
        known = core.voters.get(core.me.node_id)
        me = Voter(core.me, core.endpoints)
        if core.endpoints and known is not None and known.key == core.me and known != me:
            return core.voters.with_voter(me)
        return core.voters if core.history.latest_offset == -1 else None

    @property
    def replicas(self) -> list[ReplicaProgress]:
        return [*self.progress.voters, *self.progress.observers]
