"""WriteTxnMarkers (key 27): a transaction coordinator writes markers to the partitions of a transaction.

v1 is flexible.
v2 adds transaction_version (KIP-1228).

Kafka 4.0 dropped v0.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int16, Int32, Int64


@struct
class WritableTxnMarkerTopic:
    name: str
    partition_indexes: list[Int32]


@struct
class WritableTxnMarker:
    producer_id: Int64
    producer_epoch: Int16
    transaction_result: bool  # true commits, false aborts
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Int8 = field(since=2, default=0, ignorable=True)


@request(key=27, versions=(0, 2), flexible=1)
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker]


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: Int32
    error_code: ErrorCode = ErrorCode.NONE


@struct
class WritableTxnMarkerTopicResult:
    name: str
    partitions: list[WritableTxnMarkerPartitionResult]


@struct
class WritableTxnMarkerResult:
    producer_id: Int64
    topics: list[WritableTxnMarkerTopicResult]


@response(to=WriteTxnMarkersRequest)
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult]
