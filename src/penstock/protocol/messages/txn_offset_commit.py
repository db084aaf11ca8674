"""TxnOffsetCommit (key 28): commit the offsets of a group as part of a transaction.

v1 responds before throttling (KIP-219).
v2 adds committed_leader_epoch (KIP-320).
v3 is flexible; adds member_id, group_instance_id and generation_id, which fence old members (KIP-447).
v4 may return TRANSACTION_ABORTABLE (KIP-890).
v5 adds the group to the transaction by itself, with no AddOffsetsToTxn before it (KIP-890).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int16, Int32, Int64


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = field(since=2, default=-1, ignorable=True)
    committed_metadata: str | None


@struct
class TxnOffsetCommitRequestTopic:
    name: str
    partitions: list[TxnOffsetCommitRequestPartition]


@request(key=28, versions=(0, 5), flexible=3)
class TxnOffsetCommitRequest:
    transactional_id: str
    group_id: str
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = field(since=3, default=-1)
    member_id: str = field(since=3, default="")
    group_instance_id: str | None = field(since=3, default=None)
    topics: list[TxnOffsetCommitRequestTopic]


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE


@struct
class TxnOffsetCommitResponseTopic:
    name: str
    partitions: list[TxnOffsetCommitResponsePartition]


@response(to=TxnOffsetCommitRequest)
class TxnOffsetCommitResponse:
    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic]
