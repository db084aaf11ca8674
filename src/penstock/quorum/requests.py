"""Answers to the requests of other nodes, whatever the role. Each function answers one kind of request.

A request of an older epoch is answered with FENCED_LEADER_EPOCH and the newer one: so a deposed leader learns of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID
from penstock.quorum.fetch_response import answer_fetch
from penstock.quorum.learning import learn_leader
from penstock.quorum.messages import (
    NO_NODE,
    AddVoterRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Peer,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from penstock.quorum.roles.follower import Follower
from penstock.quorum.roles.leader import Leader
from penstock.quorum.voters import OUR_VERSIONS, ReplicaKey, VoterEndpoint

if TYPE_CHECKING:
    from penstock.quorum.core import QuorumCore


def vote(core: QuorumCore, request: VoteRequest, now_ms: int) -> None:
    # The last record of a candidate is older than the epoch in which it wants to lead.
    last_epoch_max = request.epoch if request.pre_vote else request.epoch - 1
    if (
        not 0 <= request.last_epoch <= last_epoch_max
        or request.last_offset < 0
        or request.candidate.node_id < 0
        or request.candidate.node_id == core.me.node_id
    ):
        _answer_vote(core, request, ErrorCode.INVALID_REQUEST)
        return
    if request.epoch < core.epoch:
        _answer_vote(core, request, ErrorCode.FENCED_LEADER_EPOCH)
        return
    if not _is_meant_for(core, request.voter):
        _answer_vote(core, request, ErrorCode.INVALID_VOTER_KEY)
        return
    if request.epoch > core.epoch:
        core.become_unattached(request.epoch, now_ms)
    log = core.log
    is_up_to_date = (request.last_epoch, request.last_offset) >= (log.last_epoch, log.end_offset)
    granted = core.can_vote and core.role.grants(request, now_ms, is_up_to_date=is_up_to_date)
    if granted and not request.pre_vote and core.hard_state.voted is None:
        core.hard_state = replace(core.hard_state, voted=request.candidate)
        core.role.voted(now_ms)
    _answer_vote(core, request, ErrorCode.NONE, granted=granted)


def begin_quorum_epoch(core: QuorumCore, request: BeginQuorumEpochRequest, now_ms: int) -> None:
    error = ErrorCode.NONE
    if request.epoch < core.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    elif request.leader_id < 0 or request.leader_id == core.me.node_id:
        error = ErrorCode.INVALID_REQUEST
    elif not _is_meant_for(core, request.voter):
        error = ErrorCode.INVALID_VOTER_KEY
    else:
        peer = _leader_peer(core, request.leader_id, request.leader_endpoints)
        # A follower's fetch timeout goes on: only an answered fetch shows that it can follow.
        if not learn_leader(core, request.epoch, request.leader_id, peer, now_ms, from_leader=True):
            error = ErrorCode.INVALID_REQUEST
    core.outbox.respond(
        BeginQuorumEpochResponse(request.request_id, error, core.epoch, core.leader_id, core.leader_peer)
    )


def end_quorum_epoch(core: QuorumCore, request: EndQuorumEpochRequest, now_ms: int) -> None:
    error = ErrorCode.NONE
    if request.epoch < core.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    elif request.leader_id < 0 or request.leader_id == core.me.node_id:
        error = ErrorCode.INVALID_REQUEST
    else:
        peer = _leader_peer(core, request.leader_id, request.leader_endpoints)
        if not learn_leader(core, request.epoch, request.leader_id, peer, now_ms):
            error = ErrorCode.INVALID_REQUEST
        elif isinstance(core.role, Follower):
            core.role.leader_resigned(request.preferred_candidates, now_ms)
    core.outbox.respond(
        EndQuorumEpochResponse(request.request_id, error, core.epoch, core.leader_id, core.leader_peer)
    )


def fetch(core: QuorumCore, request: FetchRequest, now_ms: int) -> None:
    error = _leader_error(core, request.epoch)
    if error is ErrorCode.NONE and isinstance(core.role, Leader):
        core.role.fetch(request, now_ms)
    else:
        answer_fetch(core, request, error)


def fetch_snapshot(core: QuorumCore, request: FetchSnapshotRequest, now_ms: int) -> None:
    error = _leader_error(core, request.epoch)
    if error is ErrorCode.NONE and isinstance(core.role, Leader):
        core.role.seen(request.replica, now_ms)
    core.outbox.respond(
        FetchSnapshotResponse(request.request_id, error, core.epoch, core.leader_id, core.leader_peer)
    )


def add_voter(core: QuorumCore, request: AddVoterRequest, now_ms: int) -> None:
    if isinstance(core.role, Leader):
        core.role.changes.add(request, now_ms)
    else:
        _refuse_change(core, request.request_id, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def remove_voter(core: QuorumCore, request: RemoveVoterRequest, now_ms: int) -> None:
    if isinstance(core.role, Leader):
        core.role.changes.remove(request, now_ms)
    else:
        _refuse_change(core, request.request_id, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def update_voter(core: QuorumCore, request: UpdateVoterRequest, now_ms: int) -> None:
    error = _leader_error(core, request.epoch)
    if error is ErrorCode.NONE and isinstance(core.role, Leader):
        core.role.changes.update(request, now_ms)
    else:
        _refuse_change(core, request.request_id, error)


def api_versions(core: QuorumCore, request: ApiVersionsRequest, now_ms: int) -> None:
    core.outbox.respond(ApiVersionsResponse(request.request_id, ErrorCode.NONE, OUR_VERSIONS))


def _leader_error(core: QuorumCore, epoch: int) -> ErrorCode:
    """Why this replica cannot act as the leader of the epoch in a request."""
    if epoch < core.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > core.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if core.is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _is_meant_for(core: QuorumCore, voter: ReplicaKey | None) -> bool:
    if voter is None or voter.node_id < 0:
        return True
    return voter.node_id == core.me.node_id and voter.directory_id in (core.me.directory_id, ZERO_UUID)


def _leader_peer(core: QuorumCore, leader_id: int, endpoints: tuple[VoterEndpoint, ...]) -> Peer | None:
    named = next((endpoint for endpoint in endpoints if endpoint.listener == core.listener), None)
    return core.peer_of(leader_id) if named is None else Peer(leader_id, named.host, named.port)


def _answer_vote(core: QuorumCore, request: VoteRequest, error: ErrorCode, *, granted: bool = False) -> None:
    core.outbox.respond(
        VoteResponse(request.request_id, error, core.epoch, core.leader_id, core.leader_peer, granted)
    )


def _refuse_change(core: QuorumCore, request_id: int, error: ErrorCode) -> None:
    known = "no leader is known" if core.leader_id == NO_NODE else f"the leader is node {core.leader_id}"
    core.outbox.respond(
        VoterChangeResponse(request_id, error, core.epoch, core.leader_id, core.leader_peer, known)
    )


ANSWERS: dict[type, Callable[[QuorumCore, Any, int], None]] = {
    VoteRequest: vote,
    BeginQuorumEpochRequest: begin_quorum_epoch,
    EndQuorumEpochRequest: end_quorum_epoch,
    FetchRequest: fetch,
    FetchSnapshotRequest: fetch_snapshot,
    AddVoterRequest: add_voter,
    RemoveVoterRequest: remove_voter,
    UpdateVoterRequest: update_voter,
    ApiVersionsRequest: api_versions,
}
