"""FetchSnapshot (key 59): read a piece of a snapshot of the metadata log (KIP-630).

v1 adds replica_directory_id; returns the leader's endpoint (KIP-853).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Int32, Int64, Records, UInt16, Uuid


@struct
class SnapshotId:
    end_offset: Int64
    epoch: Int32


@struct
class FetchSnapshotRequestPartition:
    partition: Int32
    current_leader_epoch: Int32
    snapshot_id: SnapshotId
    position: Int64
    replica_directory_id: Uuid = field(since=1, default=ZERO_UUID, tag=0, ignorable=True)


@struct
class FetchSnapshotRequestTopic:
    name: str
    partitions: list[FetchSnapshotRequestPartition]


@request(key=59, versions=(0, 1), flexible=0)
class FetchSnapshotRequest:
    cluster_id: str | None = field(default=None, tag=0)
    replica_id: Int32 = -1
    max_bytes: Int32 = 2**31 - 1
    topics: list[FetchSnapshotRequestTopic]


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


@struct
class FetchSnapshotResponsePartition:
    index: Int32
    error_code: ErrorCode = ErrorCode.NONE
    snapshot_id: SnapshotId
    current_leader: LeaderIdAndEpoch = field(default=LeaderIdAndEpoch(), tag=0)
    size: Int64
    position: Int64
    unaligned_records: Records  # may begin and end within a batch


@struct
class FetchSnapshotResponseTopic:
    name: str
    partitions: list[FetchSnapshotResponsePartition]


@struct
class NodeEndpoint:
    node_id: Int32
    host: str
    port: UInt16


@response(to=FetchSnapshotRequest)
class FetchSnapshotResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    topics: list[FetchSnapshotResponseTopic]
    node_endpoints: list[NodeEndpoint] = field(since=1, default=[], tag=0)
