"""Changes of the voters (KIP-853), as the leader decides them: one at a time, written as a VotersRecord.

Rules that keep every two majorities overlapping:

- One voter is added, removed or updated at a time.
- A change starts only when the one before is committed, and after the first commit of the leader's epoch: before that,
  the leader may not know of a change that is committed already.
- A new voter must have caught up, so that it does not hold up commits.
- A leader that removes itself leads until the removal is committed. Its own log does not count for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import uuid_text
from penstock.quorum.in_flight import NEVER_MS
from penstock.quorum.messages import (
    AddVoterRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    Peer,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
    VoterChangeResponse,
)
from penstock.quorum.progress import Progress
from penstock.quorum.ready import VotersChange
from penstock.quorum.voters import ReplicaKey, Voter, Voters

if TYPE_CHECKING:
    from penstock.quorum.core import QuorumCore

DYNAMIC_VERSION = 1  # the kraft.version from which voters are in the log
_VERSIONS = "versions"


class _Stage(Enum):
    VERSIONS = auto()
    """Asking the new voter for its KRaft versions."""
    CATCH_UP = auto()
    APPEND = auto()
    COMMIT = auto()


@dataclass(slots=True)
class _Change:
    """The change of the voters in progress."""

    request_id: int | None
    """None if the response is sent already."""
    voter: Voter
    voters: Voters
    """After the change."""
    stage: _Stage
    deadline_ms: int
    ack_when_committed: bool = True
    offset: int = -1


class VoterChanges:
    def __init__(self, core: QuorumCore, progress: Progress, epoch_start_offset: int) -> None:
        self._core = core
        self._progress = progress
        self._epoch_start_offset = epoch_start_offset
        self._change: _Change | None = None

    def add(self, request: AddVoterRequest, now_ms: int) -> None:
        core = self._core
        if not self._may_start(request.request_id):
            return
        voter = request.voter
        if core.voters.get(voter.key.node_id) is not None:
            self._refuse(
                request.request_id, ErrorCode.DUPLICATE_VOTER, f"node {voter.key.node_id} is a voter already"
            )
        elif voter.endpoint(core.listener) is None:
            self._refuse(
                request.request_id,
                ErrorCode.INVALID_REQUEST,
                f"the new voter has no listener {core.listener}",
            )
        else:
            self._change = _Change(
                request.request_id,
                voter,
                core.voters.with_voter(voter),
                _Stage.VERSIONS,
                now_ms + request.timeout_ms,
                request.ack_when_committed,
            )

    def remove(self, request: RemoveVoterRequest, now_ms: int) -> None:
        core = self._core
        if not self._may_start(request.request_id):
            return
        voter = core.voters.get(request.voter.node_id)
        if voter is None or voter.key != request.voter:
            self._refuse(
                request.request_id, ErrorCode.VOTER_NOT_FOUND, f"{_name(request.voter)} is not a voter"
            )
        elif len(core.voters) == 1:
            self._refuse(request.request_id, ErrorCode.INVALID_REQUEST, "the last voter cannot be removed")
        else:
            self._change = _Change(
                request.request_id,
                voter,
                core.voters.without(voter.key.node_id),
                _Stage.APPEND,
                now_ms + request.timeout_ms,
            )
            self._append(self._change)

    def update(self, request: UpdateVoterRequest, now_ms: int) -> None:
        core = self._core
        known = core.voters.get(request.voter.key.node_id)
        if core.history.kraft_version < DYNAMIC_VERSION or known == request.voter:
            self._respond(request.request_id, ErrorCode.NONE, None)
        elif not self._may_start(request.request_id):
            return
        elif known is None or known.key != request.voter.key:
            self._refuse(
                request.request_id, ErrorCode.VOTER_NOT_FOUND, f"{_name(request.voter.key)} is not a voter"
            )
        elif request.voter.endpoint(core.listener) is None or not _is_supported(request.voter):
            self._refuse(
                request.request_id,
                ErrorCode.INVALID_REQUEST,
                f"the voter needs a listener {core.listener} and kraft.version {DYNAMIC_VERSION}",
            )
        else:
            self._change = _Change(
                request.request_id,
                request.voter,
                core.voters.with_voter(request.voter),
                _Stage.APPEND,
                now_ms + core.timeouts.request_ms,
                ack_when_committed=False,
            )
            self._append(self._change)

    def tick(self, now_ms: int) -> None:
        change = self._change
        if change is None:
            return
        if now_ms >= change.deadline_ms and change.stage is not _Stage.APPEND:
            self._time_out(change)
        elif change.stage is _Stage.VERSIONS:
            self._ask_versions(change, now_ms)
        elif change.stage is _Stage.CATCH_UP and self._has_caught_up(change, now_ms):
            change.stage = _Stage.APPEND
            self._append(change)

    @property
    def next_tick_ms(self) -> int:
        change = self._change
        if change is None or change.stage is _Stage.APPEND:
            return NEVER_MS
        asks_ms = self._core.in_flight.free_at_ms(_VERSIONS) if change.stage is _Stage.VERSIONS else NEVER_MS
        return min(change.deadline_ms, asks_ms)

    def versions(self, response: ApiVersionsResponse) -> None:
        """The new voter answered."""
        change = self._change
        if change is None or change.stage is not _Stage.VERSIONS:
            return
        if response.error is not ErrorCode.NONE:
            return  # asked again until the deadline
        versions = response.kraft_versions
        voter = (
            change.voter if versions is None else Voter(change.voter.key, change.voter.endpoints, versions)
        )
        if versions is None or not _is_supported(voter):
            self._change = None
            self._refuse(
                change.request_id,
                ErrorCode.INVALID_REQUEST,
                f"{_name(voter.key)} does not support kraft.version {DYNAMIC_VERSION}",
            )
            return
        change.voter = voter
        change.voters = self._core.voters.with_voter(voter)
        change.stage = _Stage.CATCH_UP

    def appended(self) -> None:
        """The own log grew; a VotersRecord in it is valid already."""
        change = self._change
        offset = self._core.history.latest_offset
        if change is None or change.stage is not _Stage.APPEND or offset is None:
            return
        assert [voter.key for voter in self._core.voters] == [voter.key for voter in change.voters]
        change.stage = _Stage.COMMIT
        change.offset = offset
        if not change.ack_when_committed:
            self._respond(change.request_id, ErrorCode.NONE, None)
            change.request_id = None

    def committed(self, high_watermark: int) -> None:
        change = self._change
        if change is not None and change.stage is _Stage.COMMIT and high_watermark > change.offset:
            self._change = None
            self._respond(change.request_id, ErrorCode.NONE, None)

    def abort(self) -> None:
        """This replica leads no more."""
        change, self._change = self._change, None
        if change is not None:
            self._respond(change.request_id, ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader resigned")

    def _may_start(self, request_id: int) -> bool:
        core = self._core
        if core.history.kraft_version < DYNAMIC_VERSION:
            self._refuse(
                request_id,
                ErrorCode.UNSUPPORTED_VERSION,
                f"the voters are static: kraft.version is {core.history.kraft_version}",
            )
        elif core.high_watermark <= self._epoch_start_offset:
            self._refuse(
                request_id, ErrorCode.REQUEST_TIMED_OUT, "the new leader has not committed a record yet"
            )
        elif self._change is not None or not core.are_voters_committed:
            self._refuse(
                request_id, ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is not committed yet"
            )
        else:
            return True
        return False

    def _has_caught_up(self, change: _Change, now_ms: int) -> bool:
        replica = self._progress.observer(change.voter.key)
        if replica is None or replica.last_fetch_ms < now_ms - self._core.timeouts.fetch_ms:
            return False
        return replica.end_offset >= self._core.high_watermark

    def _ask_versions(self, change: _Change, now_ms: int) -> None:
        core = self._core
        endpoint = change.voter.endpoint(core.listener)
        if endpoint is not None and core.in_flight.is_free(_VERSIONS, now_ms):
            peer = Peer(change.voter.key.node_id, endpoint.host, endpoint.port)
            core.outbox.send(peer, ApiVersionsRequest(core.in_flight.start(_VERSIONS, peer, now_ms)))

    def _append(self, change: _Change) -> None:
        assert self._core.outbox.append is None
        self._core.outbox.append = VotersChange(self._core.epoch, change.voters)

    def _time_out(self, change: _Change) -> None:
        self._change = None
        reason = {
            _Stage.VERSIONS: f"{_name(change.voter.key)} cannot be reached",
            _Stage.CATCH_UP: f"{_name(change.voter.key)} has not caught up with the leader; start it and try again",
        }.get(change.stage, "the change is written, but not committed yet")
        self._respond(change.request_id, ErrorCode.REQUEST_TIMED_OUT, reason)

    def _refuse(self, request_id: int | None, error: ErrorCode, message: str) -> None:
        self._respond(request_id, error, message)

    def _respond(self, request_id: int | None, error: ErrorCode, message: str | None) -> None:
        if request_id is not None:
            core = self._core
            core.outbox.respond(
                VoterChangeResponse(request_id, error, core.epoch, core.leader_id, core.leader_peer, message)
            )


def voter_request(core: QuorumCore) -> Callable[[int], Request] | None:
    """What this follower asks of the leader: to update its endpoints, or to make it a voter."""
    if core.history.kraft_version < DYNAMIC_VERSION or not core.endpoints:
        return None
    known = core.voters.get(core.me.node_id)
    me = Voter(core.me, core.endpoints)
    if known is not None and known.key == core.me:
        if known == me:
            return None
        return lambda request_id: UpdateVoterRequest(request_id, core.epoch, me)
    if not core.auto_join:
        return None
    if known is not None:  # the same node with a lost disk
        stale = known.key
        return lambda request_id: RemoveVoterRequest(request_id, stale)
    return lambda request_id: AddVoterRequest(
        request_id, me, core.timeouts.request_ms, ack_when_committed=False
    )


def _is_supported(voter: Voter) -> bool:
    return voter.kraft_versions.lowest <= DYNAMIC_VERSION <= voter.kraft_versions.highest


def _name(key: ReplicaKey) -> str:
    return f"node {key.node_id} with directory {uuid_text(key.directory_id)}"
