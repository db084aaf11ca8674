"""KRaft without I/O (KIP-595, KIP-853, KIP-996): messages and time in, `Ready` out.

    unattached --> prospective --> candidate --> leader --> resigned
        ^  |          |   ^            |                       |
        |  v          v   |            v                       |
        | follower <------+---- (learns the leader)            |
        +------------------------------------------------------+

A higher epoch always leads to unattached, or to follower if its leader is known. This page has the transitions and the
calls of the driver. `quorum.roles` has a page for each role, `quorum.requests` answers other nodes, `quorum.responses`
learns from their answers, `quorum.ready` describes what the driver does.

Invariants:

- Nothing leaves this core, and no own vote counts, before epoch and vote are on disk (`quorum.outbox`).
- The epoch never decreases. The vote in an epoch never changes. An epoch never has two leaders.
- The high watermark never decreases. On a follower it never passes what is synced here; a leader commits what a
  majority has synced, even if its own disk is slower.
- A replica asks for votes only while no work on its log is pending: its end offset is in the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from penstock.quorum.in_flight import RequestsInFlight
from penstock.quorum.messages import (
    NO_NODE,
    LeaderAndEpoch,
    Message,
    Peer,
    RequestFailed,
    SnapshotId,
)
from penstock.quorum.outbox import Outbox
from penstock.quorum.progress import ReplicaProgress
from penstock.quorum.ready import HardState, LogView, QuorumTimeouts, Ready
from penstock.quorum.requests import ANSWERS
from penstock.quorum.responses import handle_failure, handle_response
from penstock.quorum.roles.candidate import Candidate
from penstock.quorum.roles.follower import Follower
from penstock.quorum.roles.leader import Leader
from penstock.quorum.roles.prospective import Prospective
from penstock.quorum.roles.resigned import Resigned
from penstock.quorum.roles.role import Role, RoleName
from penstock.quorum.roles.unattached import Unattached
from penstock.quorum.voters import ReplicaKey, VoterEndpoint, VoterHistory, Voters

BACKOFF_BASE_MS = 100  # of candidates that lost an election, as Kafka
FIRST_BOOTSTRAP_ID = -2  # a bootstrap server has no node id yet; Kafka counts them down from here


class CommittedRecordsLost(Exception):
    """The leader's log lacks records that are committed. Continuing would lose them here, too: stop the node."""


class QuorumCore:
    def __init__(
        self,
        *,
        me: ReplicaKey,
        log: LogView,
        hard_state: HardState,
        history: VoterHistory,
        random: Random,
        now_ms: int,
        timeouts: QuorumTimeouts,
        listener: str = "CONTROLLER",
        endpoints: tuple[VoterEndpoint, ...] = (),
        bootstrap: Sequence[tuple[str, int]] = (),
        can_vote: bool = True,
        auto_join: bool = False,
        committed_offset: int = 0,
    ) -> None:
        """`hard_state`: the file's content, or the default if there is none. `history`: the voters of the
        configuration, and all VotersRecords in the latest snapshot and the log. `listener`: the name of the listener
        through which controllers reach each other. `endpoints`: the own ones, if this node is a controller.
        `bootstrap`: host and port of controllers. `can_vote`: False for a broker. `committed_offset`: the high
        watermark of the run before, as far as it is known."""
        self.me = me
        self.log = log
        self.history = history
        self.random = random
        self.timeouts = timeouts
        self.listener = listener
        self.endpoints = endpoints
        self.can_vote = can_vote
        self.auto_join = auto_join
        own = [(endpoint.host, endpoint.port) for endpoint in endpoints]
        self._bootstrap = [
            Peer(FIRST_BOOTSTRAP_ID - index, host, port)
            for index, (host, port) in enumerate(bootstrap)
            if (host, port) not in own
        ]
        self.hard_state = hard_state
        self.outbox = Outbox(hard_state)
        self.in_flight = RequestsInFlight(
            timeout_ms=timeouts.request_ms, backoff_ms=timeouts.retry_backoff_ms
        )
        snapshot = log.latest_snapshot
        self.high_watermark = 0 if snapshot is None else snapshot.end_offset
        """The end of the committed records, as far as this replica knows."""
        self.advance_high_watermark(min(committed_offset, log.end_offset))
        self.synced_end_offset = 0
        self.next_discovery = random.randrange(1 << 16)
        self.election_retries = 0
        self.is_vote_lost = False
        """The state file was lost: this replica may have voted in this epoch already."""
        self._leader_peer: Peer | None = None
        self._is_log_busy = False
        self._installing: SnapshotId | None = None
        self._is_snapshot_pending = False
        """The driver has received a snapshot and makes it durable."""
        self.role: Role = self._first_role(now_ms)

    # -- calls of the driver ------------------------------------------------------------------------------------------

    def step(self, message: Message, now_ms: int) -> None:
        """A request of another node, a response to a request of this one, or the failure of such a request."""
        answer = ANSWERS.get(type(message))
        if answer is not None:
            answer(self, message, now_ms)
        elif isinstance(message, RequestFailed):
            handle_failure(self, message, now_ms)
        else:
            handle_response(self, message, now_ms)  # type: ignore[arg-type]
        self.tick(now_ms)

    def tick(self, now_ms: int) -> None:
        """Time has passed."""
        role = None
        while role is not self.role:  # a transition may make the next one due
            role = self.role
            role.tick(now_ms)

    @property
    def next_tick_ms(self) -> int:
        """When to call `tick` again, if nothing else happens. In the past: now."""
        return self.role.next_tick_ms

    def ready(self) -> Ready:
        """The next actions of the driver. Call it after every other call, until it returns `NOTHING`."""
        ready = self.outbox.take(self.hard_state)
        if ready.append is not None or ready.truncate_to is not None:
            self._is_log_busy = True
        return ready

    def saved(self, state: HardState, now_ms: int) -> None:
        """The state is on disk."""
        self.outbox.saved(state)
        if state == self.hard_state:
            self.role.saved(now_ms)
        self.tick(now_ms)

    def appended(self, end_offset: int, now_ms: int, *, voters: Sequence[tuple[int, Voters]] = ()) -> None:
        """The own log grew: by `Ready.append`, or by records of the leader. `voters`: VotersRecords in it, with their
        offsets."""
        assert end_offset == self.log.end_offset
        self._is_log_busy = False
        self.history.add(voters)
        self.role.appended(now_ms)
        self.tick(now_ms)

    def append_failed(self, now_ms: int) -> None:
        """The fetched records are corrupt; nothing was appended. They are fetched again."""
        self._is_log_busy = False
        if isinstance(self.role, Follower):
            self.in_flight.back_off(self.role.leader.node_id, now_ms)
        self.tick(now_ms)

    def synced(self, end_offset: int, now_ms: int) -> None:
        """The own log is on disk up to here. A sync that was under way during a truncation must not be reported."""
        assert end_offset <= self.log.end_offset
        if end_offset > self.synced_end_offset:
            self.synced_end_offset = end_offset
            self.role.synced(now_ms)
        self.tick(now_ms)

    def truncated(self, end_offset: int, now_ms: int) -> None:
        """The log was truncated as `Ready.truncate_to` asked, on disk, too."""
        assert end_offset == self.log.end_offset
        self._is_log_busy = False
        self.synced_end_offset = min(self.synced_end_offset, end_offset)
        self.history.truncate_to(end_offset)
        self.tick(now_ms)

    @property
    def wanted_snapshot(self) -> SnapshotId | None:
        """The snapshot that the driver should be fetching. Check it after every piece."""
        return self.role.snapshot if isinstance(self.role, Follower) else None

    def snapshot_progress(self, now_ms: int) -> None:
        """A piece of the snapshot came from the leader."""
        if isinstance(self.role, Follower):
            self.role.heard_of_leader(now_ms)

    def snapshot_received(self, now_ms: int) -> None:
        """The last piece came. Until the snapshot is durable, this replica does not leave its leader; it votes, though:
        whether the leader is still alive is not known."""
        self.snapshot_progress(now_ms)
        self._is_snapshot_pending = True

    def begin_install(self, snapshot_id: SnapshotId) -> bool:
        """The snapshot is complete and durable, and no election is under way. If True, replace log and state by it and
        call `snapshot_installed`; no election starts meanwhile. If False, it is not needed any more.

        The leader that sent it may have been replaced since. All its records are committed, so it may still replace a
        log that is behind it."""
        self._is_snapshot_pending = False
        if not isinstance(self.role, Follower) or snapshot_id.end_offset < self.high_watermark:
            return False
        is_ahead = snapshot_id.end_offset > self.log.end_offset and not self.is_log_busy
        if self.wanted_snapshot != snapshot_id and not is_ahead:
            return False
        self.in_flight.forget_all()  # the answer to a fetch would be about the old log
        self._installing = snapshot_id
        return True

    def snapshot_installed(
        self, snapshot_id: SnapshotId, now_ms: int, *, voters: Voters | None = None
    ) -> None:
        """The log begins and ends at the end of the snapshot, on disk, too. `voters`: those in the snapshot."""
        assert self._installing == snapshot_id
        assert self.log.end_offset == self.log.start_offset == snapshot_id.end_offset
        self._installing = None
        self.history.reset([] if voters is None else [(snapshot_id.end_offset - 1, voters)])
        self.synced_end_offset = snapshot_id.end_offset
        self.advance_high_watermark(snapshot_id.end_offset)
        if isinstance(self.role, Follower):
            self.role.snapshot = None
            self.role.heard_of_leader(now_ms)
        self.tick(now_ms)

    def snapshot_failed(self, now_ms: int) -> None:
        """The snapshot could not be fetched, or is not needed. The next fetch tells what is needed."""
        self._installing = None
        self._is_snapshot_pending = False
        if isinstance(self.role, Follower):
            self.role.snapshot = None
            self.in_flight.back_off(self.role.leader.node_id, now_ms)
        self.tick(now_ms)

    def resign(self, now_ms: int) -> None:
        """Stop leading, and tell the voters. Uncommitted records may still be committed, but not by this node."""
        if isinstance(self.role, Leader):
            self.become_resigned(self.role.progress.successors(), now_ms)
            self.tick(now_ms)

    # -- what others ask ----------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.hard_state.epoch

    @property
    def leader_id(self) -> int:
        return self.hard_state.leader_id

    @property
    def leader(self) -> LeaderAndEpoch:
        return LeaderAndEpoch(self.hard_state.leader_id, self.hard_state.epoch)

    @property
    def has_leader(self) -> bool:
        return self.hard_state.leader_id != NO_NODE

    @property
    def leader_peer(self) -> Peer | None:
        """Where the leader can be reached, if that is known."""
        if self.hard_state.leader_id == self.me.node_id:
            own = next((end for end in self.endpoints if end.listener == self.listener), None)
            return None if own is None else Peer(self.me.node_id, own.host, own.port)
        return self._leader_peer

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leader)

    @property
    def role_name(self) -> RoleName:
        return self.role.name

    @property
    def epoch_start_offset(self) -> int:
        """As leader: the offset of the first record of its epoch. Otherwise -1."""
        return self.role.epoch_start_offset if isinstance(self.role, Leader) else -1

    @property
    def replicas(self) -> list[ReplicaProgress]:
        """As leader: the progress of all voters, this one included, and of the observers."""
        if not isinstance(self.role, Leader):
            return []
        return self.role.replicas

    @property
    def voters(self) -> Voters:
        """Valid as soon as they are appended, committed or not."""
        return self.history.latest

    @property
    def is_voter(self) -> bool:
        return self.can_vote and self.me in self.history.latest

    @property
    def is_only_voter(self) -> bool:
        return self.is_voter and len(self.voters) == 1

    @property
    def are_voters_committed(self) -> bool:
        offset = self.history.latest_offset
        return offset is None or offset < self.high_watermark

    @property
    def is_log_busy(self) -> bool:
        """The driver appends, truncates, or replaces the log by a snapshot at this moment."""
        return self._is_log_busy or self._installing is not None

    @property
    def is_log_synced(self) -> bool:
        """Whether all of the log is on disk, and nothing is about to change it. Only then a fetch may leave."""
        return (
            not self.is_log_busy
            and self.synced_end_offset >= self.log.end_offset
            and self.outbox.append is None
            and self.outbox.truncate_to is None
        )

    @property
    def is_eligible(self) -> bool:
        """Whether this replica may lead: a voter, or one whose removal is perhaps not committed. If the voters that
        remain have not got the removal, only such a replica can bring it to them (Raft thesis, 4.2.2)."""
        if not self.can_vote:
            return False
        if self.me in self.history.latest:
            return True
        return not self.are_voters_committed and self.me in self.history.previous

    @property
    def may_campaign(self) -> bool:
        return self.is_eligible and not self.is_log_busy

    @property
    def may_leave_leader(self) -> bool:
        return not self._is_snapshot_pending and (not self.is_eligible or not self.is_log_busy)

    # -- for the roles ------------------------------------------------------------------------------------------------

    def key_of(self, voter_id: int) -> ReplicaKey | None:
        voter = self.voters.get(voter_id)
        return None if voter is None else voter.key

    def peer_of(self, voter_id: int) -> Peer | None:
        """Where a voter can be reached."""
        voter = self.voters.get(voter_id)
        endpoint = None if voter is None else voter.endpoint(self.listener)
        return None if endpoint is None else Peer(voter_id, endpoint.host, endpoint.port)

    def known_controllers(self) -> list[Peer]:
        """Whom to ask for the leader: the bootstrap servers, then the voters."""
        voters = [self.peer_of(node_id) for node_id in self.voters.node_ids if node_id != self.me.node_id]
        return [*self._bootstrap, *(peer for peer in voters if peer is not None)]

    def random_election_timeout_ms(self) -> int:
        return self.timeouts.election_ms + self.random.randrange(max(1, self.timeouts.election_ms))

    def election_backoff_ms(self) -> int:
        """After a lost election: random, and longer after each."""
        self.election_retries += 1
        longest_ms = BACKOFF_BASE_MS << min(self.election_retries - 1, 10)
        return self.random.randint(1, max(1, min(longest_ms, self.timeouts.election_backoff_max_ms)))

    def successor_backoff_ms(self, position: int, count: int) -> int:
        """How long the preferred candidate at this position waits before it starts an election."""
        if position == 0:
            return 0
        step_ms = self.timeouts.election_backoff_max_ms >> (count - 1)
        return min(self.timeouts.election_backoff_max_ms, step_ms << (position - 1))

    def advance_high_watermark(self, high_watermark: int) -> None:
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            self.outbox.high_watermark = high_watermark

    def truncate(self, end_offset: int) -> None:
        self._check_committed(end_offset, f"truncate the metadata log to offset {end_offset}")
        self.outbox.truncate_to = end_offset

    def fetch_snapshot(self, snapshot_id: SnapshotId) -> None:
        end_offset = snapshot_id.end_offset
        self._check_committed(end_offset, f"replace the metadata log by a snapshot up to offset {end_offset}")
        self.outbox.snapshot = snapshot_id

    def _check_committed(self, end_offset: int, what: str) -> None:
        if end_offset < self.high_watermark:
            raise CommittedRecordsLost(
                f"the leader {self.leader_id} of epoch {self.epoch} asks to {what}, but it is committed up to "
                f"{self.high_watermark}: the leader has lost committed records. Do not restart the leader's node; "
                "restore its log, or remove it from the quorum"
            )

    # -- transitions --------------------------------------------------------------------------------------------------

    def become_unattached(self, epoch: int, now_ms: int, *, leader_id: int = NO_NODE) -> None:
        self._enter(
            Unattached(self, now_ms + self.random_election_timeout_ms()),
            self._state(epoch, leader_id),
            now_ms,
        )

    def become_follower(self, epoch: int, leader: Peer, now_ms: int, *, is_retry: bool = False) -> None:
        assert leader.node_id != self.me.node_id
        self._enter(
            Follower(self, leader, now_ms, is_retry=is_retry), self._state(epoch, leader.node_id), now_ms
        )
        self._leader_peer = leader

    def become_prospective(self, now_ms: int) -> None:
        assert self.may_campaign
        self._enter(Prospective(self, now_ms + self.random_election_timeout_ms()), self.hard_state, now_ms)

    def become_candidate(self, now_ms: int) -> None:
        assert self.may_campaign
        state = HardState(self.epoch + 1, voted=self.me)
        self._leader_peer = None
        self.hard_state = state
        self._enter(Candidate(self, now_ms + self.random_election_timeout_ms()), state, now_ms)

    def become_leader(self, granting: tuple[int, ...], now_ms: int) -> None:
        self.election_retries = 0
        self._enter(
            Leader(self, granting, now_ms),
            HardState(self.epoch, self.me.node_id, self.hard_state.voted),
            now_ms,
        )

    def become_resigned(self, successors: tuple[ReplicaKey, ...], now_ms: int) -> None:
        self._enter(
            Resigned(self, now_ms + self.random_election_timeout_ms(), successors), self.hard_state, now_ms
        )

    def leave_leader(self, now_ms: int) -> None:
        """The leader does not answer: start an election, or look for another leader."""
        if self.is_eligible:
            self.become_prospective(now_ms)
        else:
            self.become_unattached(self.epoch, now_ms, leader_id=self.leader_id)

    def give_up_election(self, now_ms: int) -> None:
        """Too few pre-votes: the others may hear the leader, or know more."""
        if self._leader_peer is not None and self.leader_id not in (NO_NODE, self.me.node_id):
            self.become_follower(self.epoch, self._leader_peer, now_ms, is_retry=True)
        else:
            self.become_unattached(self.epoch, now_ms, leader_id=self.leader_id)

    def _state(self, epoch: int, leader_id: int) -> HardState:
        """The state in an epoch. The vote is kept as long as the epoch is the same."""
        assert epoch >= self.epoch
        return HardState(epoch, leader_id, self.hard_state.voted if epoch == self.epoch else None)

    def _enter(self, role: Role, state: HardState, now_ms: int) -> None:
        if state.epoch > self.hard_state.epoch:
            self._leader_peer = None
            self.is_vote_lost = False
        left, self.role, self.hard_state = self.role, role, state
        self.in_flight.forget_all()
        self.outbox.drop_role(state)
        left.leave(now_ms)
        role.enter(now_ms)

    def _first_role(self, now_ms: int) -> Role:
        """After a start. No role of before continues: only the epoch and the vote are known to be on disk."""
        if self.log.last_epoch > self.epoch:
            self.hard_state = HardState(self.log.last_epoch)
            self.is_vote_lost = True
        deadline_ms = now_ms + self.random_election_timeout_ms()
        if self.leader_id == self.me.node_id:
            return Resigned(self, deadline_ms, ())
        peer = self.peer_of(self.leader_id) if self.has_leader else None
        if peer is not None:
            self._leader_peer = peer
            return Follower(self, peer, now_ms)
        return Unattached(self, deadline_ms)
