"""Responses to the requests of this replica. They may tell of a newer epoch or leader; then the role gets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.errors import ErrorCode
from penstock.quorum.learning import learn_leader
from penstock.quorum.messages import ApiVersionsResponse, FetchSnapshotResponse, RequestFailed, Response

if TYPE_CHECKING:
    from penstock.quorum.core import QuorumCore


def handle_response(core: QuorumCore, response: Response, now_ms: int) -> None:
    if isinstance(response, FetchSnapshotResponse):  # the driver sent the request
        learn_leader(core, response.epoch, response.leader_id, response.leader, now_ms)
        return
    sender = core.in_flight.answered(
        response.request_id, now_ms, backoff=response.error is not ErrorCode.NONE
    )
    if sender is None:
        return  # late or repeated
    role = core.role
    if not isinstance(response, ApiVersionsResponse):
        if response.epoch < core.epoch:
            return  # from before this epoch
        leader = response.leader or core.peer_of(response.leader_id)
        if not learn_leader(core, response.epoch, response.leader_id, leader, now_ms):
            return
    if core.role is role:
        role.received(sender, response, now_ms)


def handle_failure(core: QuorumCore, failure: RequestFailed, now_ms: int) -> None:
    receiver = core.in_flight.answered(failure.request_id, now_ms, backoff=True)
    if receiver is not None:
        core.role.request_failed(receiver, now_ms, refused=failure.refused)
