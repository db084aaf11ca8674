"""ControlledShutdown (key 7): a broker of the ZooKeeper days asks the controller to take its leaderships away.

Kafka 4.0 dropped it: a broker says so in its heartbeats instead.

v0 has a request header of its own, which lacks the client id.
v1 has the usual one.
v2 adds broker_epoch (KIP-380).
v3 is flexible.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int32, Int64


@request(key=7, versions=(0, 3), flexible=3)
class ControlledShutdownRequest:
    broker_id: Int32
    broker_epoch: Int64 = field(since=2, default=-1, ignorable=True)


@struct
class RemainingPartition:
    topic_name: str
    partition_index: Int32


@response(to=ControlledShutdownRequest)
class ControlledShutdownResponse:
    error_code: ErrorCode = ErrorCode.NONE
    remaining_partitions: list[RemainingPartition]
