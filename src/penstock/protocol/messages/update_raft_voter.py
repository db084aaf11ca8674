"""UpdateRaftVoter (key 82): a voter reports its endpoints and KRaft versions to the quorum's leader (KIP-853)."""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int16, Int32, UInt16, Uuid


@struct
class Listener:
    name: str
    host: str
    port: UInt16


@struct
class KRaftVersionFeature:
    min_supported_version: Int16
    max_supported_version: Int16


@request(key=82, versions=(0, 0), flexible=0)
class UpdateRaftVoterRequest:
    cluster_id: str | None
    current_leader_epoch: Int32
    voter_id: Int32
    voter_directory_id: Uuid
    listeners: list[Listener]
    k_raft_version_feature: KRaftVersionFeature


@struct
class CurrentLeader:
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    host: str = ""
    port: Int32 = 0


@response(to=UpdateRaftVoterRequest)
class UpdateRaftVoterResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    current_leader: CurrentLeader = field(default=CurrentLeader(), tag=0)
