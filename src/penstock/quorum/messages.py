"""The messages of the quorum: plain values, named after Kafka's requests. `quorum.wire` translates them.

A request carries a `request_id` of its sender, and its response repeats it. The driver numbers the requests that other
nodes send to this one; the core numbers its own. So a late or repeated response is recognised and ignored.

A response carries the epoch and the leader that its sender knows: this is how a node that fell behind finds the leader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Buffer
from penstock.quorum.voters import KRaftVersions, ReplicaKey, Voter, VoterEndpoint

NO_NODE = -1
UNKNOWN_OFFSET = 2**63 - 1
"""The high watermark in a fetch of a version without one."""


class SnapshotId(NamedTuple):
    """A snapshot of all records below `end_offset`; `epoch` is that of the last one."""

    end_offset: int
    epoch: int


class OffsetAndEpoch(NamedTuple):
    """An end offset, and the epoch of the record before it."""

    offset: int
    epoch: int


class Peer(NamedTuple):
    """The receiver of a request. A bootstrap server, whose node id is not known yet, has an id below -1."""

    node_id: int
    host: str
    port: int


class LeaderAndEpoch(NamedTuple):
    leader_id: int
    """`NO_NODE` if it is not known."""
    epoch: int


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """A candidate, or a prospective candidate with `pre_vote`, asks for a vote."""

    request_id: int
    epoch: int
    """Of a pre-vote: the epoch of the sender. Of a vote: the epoch in which it wants to lead."""
    candidate: ReplicaKey
    voter: ReplicaKey | None
    """The receiver, as the sender knows it. None: the version has no such field."""
    last_epoch: int
    """The epoch of the last record of the sender, and its end offset."""
    last_offset: int
    pre_vote: bool = False


@dataclass(frozen=True, slots=True)
class VoteResponse:
    """Whether the vote is granted."""

    request_id: int
    error: ErrorCode
    epoch: int
    leader_id: int
    leader: Peer | None = None
    """The leader's endpoint, if the sender knows it."""
    granted: bool = False


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochRequest:
    """The new leader announces itself to a voter."""

    request_id: int
    epoch: int
    leader_id: int
    voter: ReplicaKey | None
    """The receiver, as the sender knows it."""
    leader_endpoints: tuple[VoterEndpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochResponse:
    """The voter follows the leader, or knows a later epoch."""

    request_id: int
    error: ErrorCode
    epoch: int
    leader_id: int
    leader: Peer | None = None


@dataclass(frozen=True, slots=True)
class EndQuorumEpochRequest:
    """The leader resigns, and names its preferred successors."""

    request_id: int
    epoch: int
    leader_id: int
    preferred_candidates: tuple[ReplicaKey, ...]
    """The best first: those with the longest log. In version 0, with `ZERO_UUID` as directory."""
    leader_endpoints: tuple[VoterEndpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class EndQuorumEpochResponse:
    """The voter knows that the leader resigned."""

    request_id: int
    error: ErrorCode
    epoch: int
    leader_id: int
    leader: Peer | None = None


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """The follower has synced its log up to `fetch_offset`: this is its acknowledgement."""

    request_id: int
    epoch: int
    replica: ReplicaKey
    """The node id is -1 for a reader that is no replica."""
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int = UNKNOWN_OFFSET
    """The follower's (KIP-1166). The response does not wait if the leader's is higher."""
    max_wait_ms: int = 0


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """Exactly one of: `error`, `diverging_epoch`, `snapshot_id`, records (possibly none).

    If the core emits it with `read_from`, the driver reads records from there on and sends them. It must do so only
    while the node still leads this epoch: a log that was truncated meanwhile has other records there.
    """

    request_id: int
    error: ErrorCode
    epoch: int
    leader_id: int
    leader: Peer | None = None
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging_epoch: OffsetAndEpoch | None = None
    snapshot_id: SnapshotId | None = None
    records: Buffer = b""
    """Received: whole batches that follow the fetch offset."""
    read_from: int = -1
    """Emitted: the offset from which to read; -1 if there are no records."""


@dataclass(frozen=True, slots=True)
class FetchSnapshotRequest:
    """The follower asks for a piece of a snapshot."""

    request_id: int
    epoch: int
    replica: ReplicaKey
    snapshot_id: SnapshotId
    position: int


@dataclass(frozen=True, slots=True)
class FetchSnapshotResponse:
    """Emitted without an error: the driver reads the piece and sends it. Received: only its head matters here."""

    request_id: int
    error: ErrorCode
    epoch: int
    leader_id: int
    leader: Peer | None = None


@dataclass(frozen=True, slots=True)
class AddVoterRequest:
    """An administrator, or a controller that joins, adds a voter."""

    request_id: int
    voter: Voter
    timeout_ms: int
    ack_when_committed: bool = True


@dataclass(frozen=True, slots=True)
class RemoveVoterRequest:
    """An administrator removes a voter."""

    request_id: int
    voter: ReplicaKey
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class UpdateVoterRequest:
    """A voter tells the leader its endpoints and versions."""

    request_id: int
    epoch: int
    voter: Voter


@dataclass(frozen=True, slots=True)
class VoterChangeResponse:
    """The response of AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter."""

    request_id: int
    error: ErrorCode
    epoch: int
    leader_id: int
    leader: Peer | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ApiVersionsRequest:
    """The leader asks a new voter for the KRaft versions that it supports."""

    request_id: int


@dataclass(frozen=True, slots=True)
class ApiVersionsResponse:
    """The KRaft versions that the new voter supports."""

    request_id: int
    error: ErrorCode
    kraft_versions: KRaftVersions | None = None
    """None: the node does not report `kraft.version`."""


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """No response will come: the connection was lost, or the request timed out."""

    request_id: int
    refused: bool = False
    """The other process is not there: it refused or reset the connection. A follower that hears this of its leader asks
    for an election without waiting for the fetch timeout."""


Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | UpdateVoterRequest
    | ApiVersionsRequest
)
Response = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | VoterChangeResponse
    | ApiVersionsResponse
)
Message = Request | Response | RequestFailed
