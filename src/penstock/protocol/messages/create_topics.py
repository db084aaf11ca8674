"""CreateTopics (key 19): create topics, or find out whether they could be created.

v1 adds validate_only; returns error_message.
v2 returns throttle_time_ms.
v3 responds before throttling (KIP-219).
v4 takes -1 for the broker's default number of partitions or replicas (KIP-464).
v5 is flexible; returns the configs, partitions and replicas that a topic got (KIP-525).
v6 may return THROTTLING_QUOTA_EXCEEDED (KIP-599).
v7 returns topic_id (KIP-516).

Kafka 4.0 dropped v0 and v1.
"""

from __future__ import annotations

from penstock.protocol.declare import field, request, response, struct
from penstock.protocol.errors import ErrorCode
from penstock.protocol.types import ZERO_UUID, Int8, Int16, Int32, Uuid


@struct
class CreatableReplicaAssignment:
    partition_index: Int32
    broker_ids: list[Int32]


@struct
class CreatableTopicConfig:
    name: str
    value: str | None


@struct
class CreatableTopic:
    name: str
    num_partitions: Int32  # -1 with assignments, or for the default
    replication_factor: Int16  # -1 with assignments, or for the default
    assignments: list[CreatableReplicaAssignment]  # empty: the controller places the replicas
    configs: list[CreatableTopicConfig]


@request(key=19, versions=(0, 7), flexible=5)
class CreateTopicsRequest:
    topics: list[CreatableTopic]
    timeout_ms: Int32 = 60_000
    validate_only: bool = field(since=1, default=False)


@struct
class CreatableTopicConfigs:
    name: str
    value: str | None
    read_only: bool
    config_source: Int8 = -1
    is_sensitive: bool


@struct
class CreatableTopicResult:
    name: str
    topic_id: Uuid = field(since=7, default=ZERO_UUID, ignorable=True)
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = field(since=1, default=None, ignorable=True)
    # Why configs is None.
    topic_config_error_code: ErrorCode = field(since=5, default=ErrorCode.NONE, tag=0, ignorable=True)
    num_partitions: Int32 = field(since=5, default=-1, ignorable=True)
    replication_factor: Int16 = field(since=5, default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field(since=5, default=[], ignorable=True)


@response(to=CreateTopicsRequest)
class CreateTopicsResponse:
    throttle_time_ms: Int32 = field(since=2, default=0, ignorable=True)
    topics: list[CreatableTopicResult]
