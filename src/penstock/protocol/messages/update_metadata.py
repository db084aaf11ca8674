"""UpdateMetadata (key 6): a controller of the ZooKeeper days tells a broker what clients may ask it for.

Kafka 4.0 dropped it: brokers read the metadata log instead.

v1 has several endpoints for a broker.
v2 adds rack.
v3 adds listener, the name of an endpoint.
v4 adds offline_replicas.
v5 adds broker_epoch, and groups partitions by topic (KIP-380).
v6 is flexible.
v7 adds topic_id (KIP-516).
v8 adds is_kraft_controller and type (KIP-866).
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Int8, Int16, Int32, Int64, Uuid


@struct
class UpdateMetadataPartitionState:
    topic_name: str = field(until=4, default="", ignorable=True)
    partition_index: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: list[Int32]
    zk_version: Int32
    replicas: list[Int32]
    offline_replicas: list[Int32] = field(since=4, default=[], ignorable=True)


@struct
class UpdateMetadataTopicState:
    topic_name: str
    topic_id: Uuid = field(since=7, default=ZERO_UUID, ignorable=True)
    partition_states: list[UpdateMetadataPartitionState]


@struct
class UpdateMetadataEndpoint:
    port: Int32
    host: str
    listener: str = field(since=3, default="", ignorable=True)
    security_protocol: Int16


@struct
class UpdateMetadataBroker:
    id: Int32
    v0_host: str = field(until=0, default="", ignorable=True)
    v0_port: Int32 = field(until=0, default=0, ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = field(since=1, default=[], ignorable=True)
    rack: str | None = field(since=2, default=None, ignorable=True)


@request(key=6, versions=(0, 8), flexible=6)
class UpdateMetadataRequest:
    controller_id: Int32
    is_kraft_controller: bool = field(since=8, default=False)
    type: Int8 = field(since=8, default=0, tag=0)
    controller_epoch: Int32
    broker_epoch: Int64 = field(since=5, default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field(until=4, default=[])
    topic_states: list[UpdateMetadataTopicState] = field(since=5, default=[])
    live_brokers: list[UpdateMetadataBroker]


@response(to=UpdateMetadataRequest)
class UpdateMetadataResponse:
    error_code: ErrorCode = ErrorCode.NONE
