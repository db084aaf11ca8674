"""ShareFetch (key 78): acquire records from share partitions, and acknowledge earlier ones on the way (KIP-932).

v1 is the first stable version; v0 was a preview, removed in Kafka 4.1.
v2 adds share_acquire_mode (KIP-1206) and renewal of acquisition locks (KIP-1222).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int16, Int32, Int64, Records, Uuid


@struct
class AcknowledgementBatch:
    first_offset: Int64
    last_offset: Int64
    # One for each record or one for all: 0 gap, 1 accept, 2 release, 3 reject, 4 renew.
    acknowledge_types: list[Int8]


@struct
class FetchPartition:
    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch]


@struct
class FetchTopic:
    topic_id: Uuid
    partitions: list[FetchPartition]


@struct
class ForgottenTopic:
    topic_id: Uuid
    partitions: list[Int32]


@request(key=78, versions=(1, 2), flexible=1)
class ShareFetchRequest:
    group_id: str | None = None
    member_id: str | None
    share_session_epoch: Int32  # 0 opens a session, -1 ends it
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 2**31 - 1
    max_records: Int32
    batch_size: Int32  # how many records an acquired range should hold
    # 0 whole batches, 1 at most max_records.
    share_acquire_mode: Int8 = field(since=2, default=0, ignorable=True)
    is_renew_ack: bool = field(since=2, default=False)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]


@struct
class LeaderIdAndEpoch:
    leader_id: Int32
    leader_epoch: Int32


@struct
class AcquiredRecords:
    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


@struct
class PartitionData:
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    acknowledge_error_code: ErrorCode = ErrorCode.NONE
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch
    records: Records
    acquired_records: list[AcquiredRecords]


@struct
class ShareFetchableTopicResponse:
    topic_id: Uuid
    partitions: list[PartitionData]


@struct
class NodeEndpoint:
    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None


@response(to=ShareFetchRequest)
class ShareFetchResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    acquisition_lock_timeout_ms: Int32
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]
