"""DescribeCluster (key 60): the id of the cluster, its controller and its brokers, or its controllers (KIP-700).

v1 adds endpoint_type: 1 asks for brokers, 2 for controllers (KIP-919).
v2 can list fenced brokers too (KIP-1073).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import Int8, Int32


@request(key=60, versions=(0, 2), flexible=0)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool
    endpoint_type: Int8 = field(since=1, default=1)  # 1 brokers, 2 controllers
    include_fenced_brokers: bool = field(since=2, default=False)


@struct
class DescribeClusterBroker:
    broker_id: Int32
    host: str
    port: Int32
    rack: str | None = None
    is_fenced: bool = field(since=2, default=False)


@response(to=DescribeClusterRequest)
class DescribeClusterResponse:
    throttle_time_ms: Int32 = 0
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    endpoint_type: Int8 = field(since=1, default=1)
    cluster_id: str
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: Int32 = -(2**31)  # a bit for each operation; the default: not requested
