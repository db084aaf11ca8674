"""ShareAcknowledge (key 79): acknowledge acquired records: accept, release or reject (KIP-932).

v1 is the first stable version; v0 was a preview, removed in Kafka 4.1.
v2 adds renewal of acquisition locks (KIP-1222).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int32, Int64, Uuid


@struct
class AcknowledgementBatch:
    first_offset: Int64
    last_offset: Int64
    # One for each record or one for all: 0 gap, 1 accept, 2 release, 3 reject, 4 renew.
    acknowledge_types: list[Int8]


@struct
class AcknowledgePartition:
    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch]


@struct
class AcknowledgeTopic:
    topic_id: Uuid
    partitions: list[AcknowledgePartition]


@request(key=79, versions=(1, 2), flexible=1)
class ShareAcknowledgeRequest:
    group_id: str | None = None
    member_id: str | None
    share_session_epoch: Int32  # 0 opens a session, -1 ends it
    is_renew_ack: bool = field(since=2, default=False)
    topics: list[AcknowledgeTopic]


@struct
class LeaderIdAndEpoch:
    leader_id: Int32
    leader_epoch: Int32


@struct
class PartitionData:
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch


@struct
class ShareAcknowledgeTopicResponse:
    topic_id: Uuid
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None


@response(to=ShareAcknowledgeRequest)
class ShareAcknowledgeResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    acquisition_lock_timeout_ms: Int32 = field(since=2, default=0, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse]
    node_endpoints: list[NodeEndpoint]
